"""Jobs made elsewhere: seen by on_job_event, taken over by ValidateSpec."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from everstep.contracts.payloads import Start, State, Step
from everstep.contracts.problems import Problem, describe
from everstep.contracts.records import Adopted, Launch, Run
from everstep.contracts.run_id import adoption_name, problem_of_run_id
from everstep.contracts.run_spec import RunSpec
from everstep.policy.adopt import adopted, asks_for_it, ended_in_need, refusal, spec_of
from lambdas.aws.jobs import Jobs, job_of
from lambdas.aws.register import register
from lambdas.aws.services import Services

logger = Logger(service="everstep", child=True)

POINTER = "adopt"
REFUSAL = "refusal"
"""Item of the row that remembers a refusal: told once, though events may be doubled."""


def offer(name: str, event_tags: Mapping[str, str] | None, services: Services) -> bool:
    """A job of nobody's ended: start an execution for it, if its owner asked for that. True where
    one was started, or was there already."""
    if event_tags is not None and not asks_for_it(event_tags):
        return False  # most jobs of an account: no call is made for them
    job = services.jobs.described(name)
    if job is None or not ended_in_need(job):
        return False
    if not asks_for_it(services.jobs.tags(job["TrainingJobArn"])):
        return False
    reason = refusal(job, services.env.adopters.keys())
    run_id = adoption_name(job["TrainingJobArn"])
    if reason is not None:
        if not services.store.marked(run_id, REFUSAL):
            logger.warning({"job": name, "not adopted": reason})
            services.notifier.tell(f"{name}: not taken over", _refused(name, reason, services))
            services.store.mark(run_id, REFUSAL)
        return False
    machine = services.env.adopters[job["RoleArn"]]
    execution = f"{machine.replace(':stateMachine:', ':execution:')}:{run_id}"
    services.machine.start(execution, {POINTER: {"job": name, "arn": job["TrainingJobArn"]}})
    return True


def adopt(start: Start, step: Step, services: Services) -> dict[str, Any]:
    """A job made elsewhere that failed: its request is the spec, and it is launch 1."""
    found = _read(start, services.jobs)
    problems = found if isinstance(found, list) else problem_of_run_id(start.execution_name)
    if isinstance(found, list) or problems:
        return step.to(State.REFUSE_SPEC, message=describe(problems))
    kept, spec, job = found
    registered = register(step, spec, start, services, kept)
    continues = start.execution_name != step.run_id
    if registered["next"] != State.CHECK_QUOTA or registered["launch"] > 1 or continues:
        return registered
    first = _first_launch(services.store.run(step.run_id), job)
    services.store.put_new(first)
    services.store.update(first, active=False)
    return step.to(State.CLASSIFY, launch=1)


def _read(start: Start, jobs: Jobs) -> tuple[Adopted, RunSpec, dict[str, Any]] | list[Problem]:
    """What the input's job was, or why it is not taken over. Roles are the team's own."""
    name = start.input[POINTER].get("job") if isinstance(start.input[POINTER], dict) else None
    job = jobs.described(name) if isinstance(name, str) and name else None
    if job is None:
        reason = "there is no such training job"
    else:
        reason = refusal(job, start.team.adopt_job_roles) or ""
    if job is None or reason:
        hint = "see docs/adopt.md for what can be taken over"
        return [Problem(path=f"{POINTER}.job", value=name, message=reason, hint=hint)]
    tags = jobs.tags(job["TrainingJobArn"])
    return adopted(job, tags), spec_of(job, tags), job


def _first_launch(run: Run, job: Mapping[str, Any]) -> Launch:
    """The failed job as launch 1: classified and decided on like any other."""
    seen, target = job_of(job), run.spec.target(0)
    return Launch(
        run_id=run.run_id,
        launch=1,
        job_name=job["TrainingJobName"],
        execution_arn=run.execution_arn,
        instance_type=target.instance_type,
        nodes=target.nodes,
        planned_epoch=seen.created_epoch,
        created=True,
        outcome=seen.outcome,
    )


def is_adoption(start: Start) -> bool:
    return isinstance(start.input, dict) and set(start.input) == {POINTER}


def _refused(name: str, reason: str, services: Services) -> str:
    return "\n".join(
        [
            f"Training job {name} failed and is tagged to be taken over. It is not: {reason}.",
            "",
            "Nothing was started. What can be taken over, and how: docs/adopt.md.",
            f"Runbook: {services.env.runbook_url}",
        ]
    )
