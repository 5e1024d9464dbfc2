"""Whose a job or a file system is, on the bill too."""

import pytest

from everstep.contracts.records import Launch, Run
from everstep.contracts.run_spec import RunSpec
from everstep.policy.job_request import job_request
from everstep.policy.own_file_system import OwnLustre, create_request
from everstep.policy.tags import MOST, run_tags
from stacks.config import Config
from tests.policy.test_job_request import EXECUTION, TEAM

OURS = {"everstep:execution": EXECUTION, "everstep:run": "my-run", "everstep:team": "research"}
COST = {"project": "everstep", "environment": "prod"}


def run_of(own: dict[str, str], environment: dict[str, str]) -> Run:
    raw = {"model": "tiny", "data": "d", "stop": {"steps": 10}, "tags": own}
    spec = RunSpec.model_validate(
        {**raw, "compute": [{"instance_type": "ml.m5.large"}], "start": {}}
    )
    team = TEAM.model_copy(update={"tags": environment})
    return Run(run_id="my-run", execution_arn=EXECUTION, team=team, spec=spec, created_epoch=0)


def plain(tags: list[dict[str, str]]) -> dict[str, str]:
    found = {tag["Key"]: tag["Value"] for tag in tags}
    assert len(found) == len(tags)
    return found


def test_a_job_carries_the_environments_tags_the_specs_and_ours() -> None:
    run = run_of({"owner": "me"}, COST)
    launch = Launch(
        run_id="my-run",
        launch=1,
        job_name="my-run-00001",
        execution_arn=EXECUTION,
        instance_type="ml.m5.large",
        nodes=1,
        planned_epoch=0,
    )
    assert plain(job_request(run, launch)["Tags"]) == {"owner": "me", **COST, **OURS}


def test_a_runs_own_file_system_carries_them_too() -> None:
    run = run_of({"owner": "me"}, COST)
    made = plain(create_request(run, OwnLustre(since_epoch=0), "subnet-a", "runs")["Tags"])
    assert made.items() >= {"owner": "me", **COST, **OURS, "everstep:table": "runs"}.items()


@pytest.mark.parametrize("key", ["project", "everstep:team"])
def test_a_run_does_not_say_who_pays(key: str) -> None:
    run = run_of({key: "others", "owner": "me"}, COST)
    assert plain(run_tags(run, EXECUTION)) == {"owner": "me", **COST, **OURS}


def test_the_most_that_config_and_a_spec_can_hold_fits() -> None:
    (environment,) = (x.max_length for x in Config.model_fields["tags"].metadata)
    (own,) = (x.max_length for x in RunSpec.model_fields["tags"].metadata)
    assert environment + own + len(OURS) + 2 <= MOST  # a file system has a name and a table


def test_of_too_many_the_owners_last_ones_go() -> None:
    owners = {f"k{i}": "v" for i in range(60)}
    made = plain(run_tags(run_of({}, COST), EXECUTION, {"more": "x"}, owners))
    assert len(made) == MOST
    assert made.items() >= {"k0": "v", **COST, **OURS, "more": "x"}.items()
    assert "k59" not in made
