"""What a run starts from, read from S3: the spec behind a pointer, and the dataset's index."""

from typing import Any

from everstep.contracts.check import resolve_model
from everstep.contracts.payloads import Start
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from everstep.contracts.secrets import without_secrets
from lambdas.aws.checkpoints import Checkpoints

POINTER = "spec"


def read_spec(start: Start, objects: Checkpoints) -> tuple[Any, list[Problem]]:
    """The execution's input, or what its pointer points at."""
    given = start.input
    uri = given.get(POINTER) if isinstance(given, dict) and set(given) == {POINTER} else None
    if not isinstance(uri, str):
        return given, []
    allowed = (f"{start.team.data_uri}/", f"{start.team.output_uri}/")
    hint = f"put it below {allowed[0]} or {allowed[1]}"
    if not uri.startswith(allowed):
        message = "is not the team's"
    else:
        try:
            raw = objects.read_json(uri)
        except ValueError as error:
            message, hint = f"is not JSON: {error}", "check it with `python -m json.tool`"
        else:
            if raw is not None:
                return raw, []
            message = "does not exist"
    problem = Problem(path=POINTER, value=uri, message=message, hint=hint)
    return None, without_secrets([problem], given)


def dataset_problems(spec: RunSpec, start: Start, objects: Checkpoints) -> list[Problem]:
    """The dataset is there, and the model's vocabulary holds its tokens."""
    uri = f"{start.team.data_uri}/{spec.data.prefix.strip('/')}/index.json"
    if spec.data.mode == "fsx" and start.team.file_system_id is None:
        return [
            Problem(
                path="data.mode",
                value="fsx",
                message="this stack has no file system",
                hint="enable fsx in the environment's config, or use file or fastfile",
            )
        ]
    try:
        index = objects.read_json(uri)
    except ValueError:
        index = "not JSON"
    if index is None:
        return [
            Problem(
                path="data.prefix",
                value=spec.data.prefix,
                message=f"no dataset at {uri}",
                hint="upload one: `python -m trainer.prepare --help`",
            )
        ]
    vocabulary = index.get("vocab_size") if isinstance(index, dict) else None
    if not isinstance(vocabulary, int):
        return [
            Problem(
                path="data.prefix",
                value=spec.data.prefix,
                message=f"{uri} is not a dataset index",
                hint="make one with `python -m trainer.prepare`",
            )
        ]
    model = resolve_model(spec.model)
    if vocabulary > model.vocab_size:
        return [
            Problem(
                path="model.vocab_size",
                value=model.vocab_size,
                message=f"the dataset's tokens reach {vocabulary}",
                hint=f"set model.vocab_size to {vocabulary} or more",
            )
        ]
    return []
