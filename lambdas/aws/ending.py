"""How a job ended, or why there is none, as seen by the state that was waiting for it."""

from everstep.contracts.payloads import FailedStep
from everstep.contracts.records import Launch, Outcome
from everstep.policy.redact import redact
from lambdas.aws.jobs import NOT_CREATED
from lambdas.aws.services import Services


def outcome_of(step: FailedStep, launch: Launch, services: Services) -> Outcome | None:
    """None while the job still runs: the state failed, the job did not."""
    if launch.outcome is not None:
        return launch.outcome
    job = services.jobs.of(launch)
    if job is None:
        said = redact(step.error.said[:1024]) if step.error else ""
        return Outcome(status=NOT_CREATED, secondary_status="", failure_reason=said)
    return job.outcome if job.terminal else None
