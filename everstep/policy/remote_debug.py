"""Looking into a running container: whether a run may ask for it, and what stands in the way."""

from collections.abc import Iterator
from typing import NamedTuple

from everstep.contracts.names import SHELL_MARK
from everstep.contracts.payloads import Team
from everstep.contracts.problems import Problem
from everstep.contracts.records import Launch
from everstep.contracts.run_spec import RunSpec


class Obstacle(NamedTuple):
    what: str
    hint: str


def remote_debug_problems(spec: RunSpec, team: Team, run_id: str) -> Iterator[Problem]:
    """The environment's config decides; the run's name says whose it is to Session Manager."""
    if not spec.service.remote_debug:
        return
    if not team.remote_debug:
        yield Problem(
            path="service.remote_debug",
            value=True,
            message=f"is not turned on for team {team.name} in this environment",
            hint="leave it out, or set remote_debug = true at the team in config/ and deploy",
        )
    prefix = f"{team.name}{SHELL_MARK}"
    if not run_id.startswith(prefix):
        yield Problem(
            path="service.remote_debug",
            value=run_id,
            message="a run that people may look into is named after its team, since Session "
            "Manager knows a job by its name alone",
            hint=f"--name {(prefix + run_id)[:40].rstrip('-')}",
        )


def target_of(launch: Launch, host: int) -> str:
    """Session Manager's name for a training container: AWS's guide to SageMaker, "Access a training
    container through AWS Systems Manager"."""
    return f"sagemaker-training-job:{launch.job_name}_algo-{host}"


def obstacles(
    spec: RunSpec, launch: Launch, status: str, secondary: str, host: int
) -> Iterator[Obstacle]:
    """All that keeps a person out of this host, of what can be known without trying."""
    hosts = launch.nodes + sum(group.count for group in launch.groups)
    if not 1 <= host <= hosts:
        yield Obstacle(
            f"host {host} is none of job {launch.job_name}, which has {hosts}",
            f"--host 1 to {hosts}: algo-1 and on",
        )
    if not spec.service.remote_debug:
        yield Obstacle(
            f"run {launch.run_id} was started without a way in",
            'start it with "service": {"remote_debug": true}',
        )
    if status != "InProgress":
        yield Obstacle(
            f"job {launch.job_name} is {status}: its hosts are gone",
            "name a launch that runs with --launch, or read everstep logs",
        )
    elif secondary != "Training":
        yield Obstacle(
            f"job {launch.job_name} is in {secondary}: its container has not been started",
            "wait for Training: everstep status",
        )
