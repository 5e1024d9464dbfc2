"""Whole runs on a training plan and on a cluster of groups, with the roles as deployed."""

import pytest

from everstep.contracts.records import RunStatus
from tests.scenarios.lab import Lab

pytestmark = pytest.mark.scenario
KIND = "ml.p5.4xlarge"


def test_a_run_waits_for_its_plan_and_ends_in_it(lab: Lab) -> None:
    """Seconds ahead; the plan's last half hour is real, and what is before it cuts the run time."""
    lab.control.quota(f"{KIND} for training job usage", 1)
    arn = lab.control.training_plan("soon", KIND, 1, 12, 12 + 4000, "us-east-1b")
    spec = lab.foreign(steps=10)
    plan = {"purchase": "training_plan", "training_plan_arn": arn}
    spec["compute"] = [{"instance_type": KIND, **plan}]
    execution = lab.start("on-a-plan", spec)
    lab.until(lambda: lab.status_of("on-a-plan") == RunStatus.WAITING, "a wait for the plan")
    waiting = lab.cloud.run("on-a-plan").waiting
    assert waiting is not None
    assert "training plan soon starts in" in waiting.reason
    assert lab.jobs_of("on-a-plan") == []
    assert lab.end(execution)["status"] == "SUCCEEDED"
    (launch,) = lab.launches("on-a-plan")
    job = lab.job("on-a-plan", 1)
    assert job["ResourceConfig"]["TrainingPlanArn"] == arn
    runtime = job["StoppingCondition"]["MaxRuntimeInSeconds"]
    assert runtime == launch.max_runtime_seconds
    assert 1800 < runtime <= 4000 - 1800
    assert "takes its machines back" in str(launch.bounded_by)


def test_a_run_leaves_a_plan_that_is_over_for_the_next_place(lab: Lab) -> None:
    arn = lab.control.training_plan("over", KIND, 1, -7200, -3600, "us-east-1b")
    spec = lab.foreign(steps=5)
    plan = {"purchase": "training_plan", "training_plan_arn": arn}
    spec["compute"] = [{"instance_type": KIND, **plan}, {"instance_type": "ml.m5.large"}]
    assert lab.end(lab.start("off-a-plan", spec))["status"] == "SUCCEEDED"
    (launch,) = lab.launches("off-a-plan")
    assert (launch.target, launch.instance_type) == (1, "ml.m5.large")


def test_a_cluster_of_groups_trains(lab: Lab) -> None:
    spec = lab.foreign(steps=5)
    group = {"name": "data", "instance_type": "ml.m5.large", "count": 1}
    spec["compute"] = [{"instance_type": "ml.m5.large", "groups": [group]}]
    assert lab.end(lab.start("in-groups", spec))["status"] == "SUCCEEDED"
    groups = lab.job("in-groups", 1)["ResourceConfig"]["InstanceGroups"]
    assert [(g["InstanceGroupName"], g["InstanceCount"]) for g in groups] == [
        ("train", 1),
        ("data", 1),
    ]
