"""ValidateSpec: every problem at once, or the run's row."""

import json
from typing import Any

from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import Problem, describe
from everstep.contracts.records import Run, RunStatus
from everstep.contracts.run_id import problem_of_run_id, run_id_of
from everstep.contracts.run_spec import RunSpec
from lambdas.aws.services import Services, state_handler

POINTER = "spec"


def act(start: Start, services: Services) -> dict[str, Any]:
    raw, problems = _read(start, services)
    spec = None
    if not problems:
        spec, problems = check_spec(raw)
        problems += problem_of_run_id(start.execution_name)
    if spec is not None:
        problems += _dataset(spec, start, services)
    step = Step(
        run_id=run_id_of(start.execution_name), execution_arn=start.execution_arn,
        heartbeat_seconds=services.env.heartbeat_seconds,
    )
    if spec is None or problems:
        return step.to(State.REFUSE_SPEC, message=describe(problems))
    return _register(step, spec, start, services)


def _read(start: Start, services: Services) -> tuple[Any, list[Problem]]:
    """The spec itself, or what its pointer points at."""
    given = start.input
    if not (isinstance(given, dict) and set(given) == {POINTER} and isinstance(given[POINTER], str)):
        return given, []
    uri = given[POINTER]
    allowed = (f"{start.team.data_uri}/", f"{start.team.output_uri}/")
    hint = f"put it below {allowed[0]} or {allowed[1]}"
    if not uri.startswith(allowed):
        return None, [Problem(path=POINTER, value=uri, message="is not the team's", hint=hint)]
    try:
        raw = services.checkpoints.read_json(uri)
    except json.JSONDecodeError as error:
        return None, [Problem(path=POINTER, value=uri, message=f"is not JSON: {error}",
                              hint="check it with `python -m json.tool`")]
    if raw is None:
        return None, [Problem(path=POINTER, value=uri, message="does not exist", hint=hint)]
    return raw, []


def _dataset(spec: RunSpec, start: Start, services: Services) -> list[Problem]:
    """The dataset is there, and the model's vocabulary holds its tokens."""
    uri = f"{start.team.data_uri}/{spec.data.prefix.strip('/')}/index.json"
    if spec.data.mode == "fsx" and start.team.file_system_id is None:
        return [Problem(path="data.mode", value="fsx", message="this stack has no file system",
                        hint="enable fsx in the environment's config, or use file or fastfile")]
    try:
        index = services.checkpoints.read_json(uri)
    except json.JSONDecodeError:
        index = "not JSON"
    if index is None:
        return [Problem(path="data.prefix", value=spec.data.prefix, message=f"no dataset at {uri}",
                        hint="upload one: `python -m trainer.prepare --help`")]
    vocabulary = index.get("vocab_size") if isinstance(index, dict) else None
    if not isinstance(vocabulary, int):
        return [Problem(path="data.prefix", value=spec.data.prefix,
                        message=f"{uri} is not a dataset index",
                        hint="make one with `python -m trainer.prepare`")]
    model = resolve_model(spec.model)
    if vocabulary > model.vocab_size:
        return [Problem(path="model.vocab_size", value=model.vocab_size,
                        message=f"the dataset's tokens reach {vocabulary}",
                        hint=f"set model.vocab_size to {vocabulary} or more")]
    return []


def _register(step: Step, spec: RunSpec, start: Start, services: Services) -> dict[str, Any]:
    run = Run(
        run_id=step.run_id, execution_arn=start.execution_arn, team=start.team, spec=spec,
        created_epoch=services.clock(),
    )
    if services.store.put_new(run):
        return step.to(State.CHECK_QUOTA)
    known = services.store.run(step.run_id)
    if known.execution_arn == start.execution_arn:
        return step.to(State.CHECK_QUOTA)  # this handler ran before
    if known.team.name != start.team.name or services.machine.is_running(known.execution_arn):
        taken = Problem(path="execution name", value=start.execution_name,
                        message=f"run id is taken by {known.execution_arn}",
                        hint="choose another name")
        return step.to(State.REFUSE_SPEC, message=describe([taken]))
    # A continuation: the same run under a new execution.
    launches = services.store.launches(step.run_id)
    last = launches[-1].launch if launches else 0
    services.store.update(
        known, execution_arn=start.execution_arn, spec=spec, status=RunStatus.RUNNING,
        attempts_reset_at_launch=last, redrive_count=0, failure=None,
    )
    return step.to(State.CHECK_QUOTA, launch=last)


handler = state_handler(Start, act)
