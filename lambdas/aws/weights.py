"""The Hugging Face checkpoint that a run starts from, as S3 holds it, before a job is paid for."""

from typing import Any

from everstep.contracts.check import resolve_model
from everstep.contracts.payloads import Start
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from lambdas.aws.checkpoints import Checkpoints

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_HINT = "a folder as huggingface_hub downloads it: config.json and safetensors (not .bin) files"


def weights_problems(spec: RunSpec, start: Start, objects: Checkpoints) -> list[Problem]:
    """All files are there, and the sizes that ``config.json`` says are the model's.

    The trainer compares more (rotation, norms, each tensor's shape) when it reads them.
    """
    prefix = spec.model.weights_prefix
    if prefix is None:
        return []
    uri = f"{start.team.data_uri}/{prefix}"
    message = _missing(objects, uri) or _difference(objects, spec, uri)
    if message is None:
        return []
    return [Problem(path="model.weights", value=spec.model.weights, message=message, hint=_HINT)]


def _missing(objects: Checkpoints, uri: str) -> str | None:
    there = objects.names(uri)
    if "config.json" not in there:
        return f"no config.json at {uri}"
    if INDEX not in there:
        return None if SINGLE in there else f"neither {INDEX} nor {SINGLE} at {uri}"
    index = _object(objects, f"{uri}/{INDEX}")
    files = index.get("weight_map")
    if not isinstance(files, dict) or not files:
        return f"{uri}/{INDEX} names no files"
    gone = sorted({str(file) for file in files.values()} - there)
    return f"{INDEX} names {gone[0]}, which is not at {uri}" if gone else None


def _difference(objects: Checkpoints, spec: RunSpec, uri: str) -> str | None:
    found, shape = _object(objects, f"{uri}/config.json"), resolve_model(spec.model)
    for key, wanted in (
        ("hidden_size", shape.dim),
        ("num_hidden_layers", shape.layers),
        ("num_attention_heads", shape.heads),
        ("intermediate_size", shape.ffn_dim),
        ("vocab_size", shape.vocab_size),
    ):
        if found.get(key) != wanted:
            return f"{uri}/config.json says {key}={found.get(key)!r}, the run's model has {wanted}"
    return None


def _object(objects: Checkpoints, uri: str) -> dict[str, Any]:
    """Empty where it is not a JSON object: what is looked up in it is then missing."""
    try:
        found = objects.read_json(uri)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
