"""What a run starts from, read from S3: the spec behind a pointer, and the dataset's index."""

from typing import Any

from everstep.contracts.check import resolve_model
from everstep.contracts.payloads import Start
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from everstep.contracts.secrets import without_secrets
from everstep.policy.file_system import file_system_problems
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
    """Every dataset is there, and the model's vocabulary holds its tokens."""
    data = spec.data
    if problems := list(file_system_problems(spec, start.team)):
        return problems
    whole = [("data.prefix", data.prefix)]
    parts = [(f"data.mixture.{i}.prefix", part.prefix) for i, part in enumerate(data.mixture)]
    held_out = [("data.validation", data.validation)] if data.validation else []
    vocab_size = resolve_model(spec.model).vocab_size
    for path, value in [*(parts or whole), *held_out]:
        below = "" if path == "data.prefix" else f"/{value.strip('/')}"
        uri = f"{start.team.data_uri}/{data.prefix.strip('/')}{below}/index.json"
        problem = _index_problem(objects, uri, path, value, vocab_size)
        if problem is not None:
            problems.append(problem)
    return problems


def _index_problem(
    objects: Checkpoints, uri: str, path: str, value: str, vocab_size: int
) -> Problem | None:
    try:
        index = objects.read_json(uri)
    except ValueError:
        index = "not JSON"
    if index is None:
        return Problem(
            path=path,
            value=value,
            message=f"no dataset at {uri}",
            hint="upload one: `python -m trainer.prepare --help`",
        )
    vocabulary = index.get("vocab_size") if isinstance(index, dict) else None
    if not isinstance(vocabulary, int):
        return Problem(
            path=path,
            value=value,
            message=f"{uri} is not a dataset index",
            hint="make one with `python -m trainer.prepare`",
        )
    if vocabulary > vocab_size:
        return Problem(
            path="model.vocab_size",
            value=vocab_size,
            message=f"the dataset's tokens reach {vocabulary}",
            hint=f"set model.vocab_size to {vocabulary} or more",
        )
    return None
