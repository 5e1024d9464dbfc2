"""The parts that need no server: patterns, schedules, JSONata, requests, faults, log terms."""

from typing import Any

import pytest

from emulator.asl_jsonata import Undefined, evaluate
from emulator.event_pattern import matches
from emulator.faults import Faults
from emulator.log_filter import _wanted
from emulator.names import AwsError
from emulator.quotas import Quotas
from emulator.schedules import minutes_of
from emulator.training.requests import check_quotas, validate

EVENT = {
    "source": "aws.sagemaker",
    "detail-type": "SageMaker Training Job State Change",
    "detail": {
        "TrainingJobStatus": "Failed",
        "Tags": {"everstep:run": "r1"},
        "Count": 3,
        "List": ["a", "b"],
        "Nothing": None,
    },
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ({"source": ["aws.sagemaker"]}, True),
        ({"source": ["aws.states"]}, False),
        ({"detail": {"TrainingJobStatus": ["Failed", "Stopped"]}}, True),
        ({"detail": {"TrainingJobStatus": [{"anything-but": ["Completed"]}]}}, True),
        ({"detail": {"TrainingJobStatus": [{"prefix": "Fa"}]}}, True),
        ({"detail": {"TrainingJobStatus": [{"suffix": "xx"}]}}, False),
        ({"detail": {"TrainingJobStatus": [{"equals-ignore-case": "FAILED"}]}}, True),
        ({"detail": {"TrainingJobStatus": [{"wildcard": "F*d"}]}}, True),
        ({"detail": {"Tags": {"everstep:run": [{"exists": True}]}}}, True),
        ({"detail": {"Tags": {"everstep:team": [{"exists": False}]}}}, True),
        ({"detail": {"Missing": {"deeper": [{"exists": False}]}}}, True),
        ({"detail": {"Count": [{"numeric": [">", 2, "<=", 3]}]}}, True),
        ({"detail": {"Count": ["3"]}}, False),
        ({"detail": {"List": ["b"]}}, True),
        ({"detail": {"Nothing": [None]}}, True),
        ({"$or": [{"source": ["x"]}, {"detail": {"Count": [3]}}]}, True),
        ({"source": ["aws.sagemaker"], "detail": {"Count": [4]}}, False),
    ],
)
def test_event_patterns(pattern: dict[str, Any], expected: bool) -> None:
    assert matches(pattern, EVENT) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(1 minute)", 1),
        ("rate(5 minutes)", 5),
        ("rate(2 hours)", 120),
        ("cron(* * * * ? *)", 1),
        ("cron(0/10 * * * ? *)", 10),
        ("cron(0 * * * ? *)", 60),
        ("cron(0 3 * * ? *)", 1440),
        ("", None),
    ],
)
def test_schedule_periods(expression: str, expected: float | None) -> None:
    assert minutes_of(expression) == expected


def test_jsonata_gets_variables_as_they_are() -> None:
    awkward = 'quote " and \\ and\nline'
    states = {"input": {"text": awkward, "none": None, "list": [1, 2.5]}, "context": {}}
    assert evaluate("$states.input.text", {"states": states}) == awkward
    assert evaluate("$states.input", {"states": states}) == states["input"]
    assert evaluate("$n * 2 + 1", {"n": 3}) == 7
    merged = evaluate('$merge([$states.input, {"a": $n}])', {"states": states, "n": 1})
    assert merged == {**states["input"], "a": 1}


def test_jsonata_tells_null_from_nothing() -> None:
    assert evaluate("$x.a", {"x": {"a": None}}) is None
    with pytest.raises(Undefined):
        evaluate("$x.b", {"x": {"a": None}})


def test_jsonata_has_step_functions_own_functions() -> None:
    assert evaluate("$parse($t).a", {"t": '{"a": 1}'}) == 1
    assert len(evaluate("$uuid()", {})) == 36
    assert evaluate("$partition([1,2,3], 2)", {}) == [[1, 2], [3]]
    assert evaluate("$range(0, 10, 5)", {}) == [0, 5, 10]


def request(**changes: Any) -> dict[str, Any]:
    """A request that SageMaker accepts, changed."""
    made = {
        "TrainingJobName": "run-00001",
        "RoleArn": "arn:aws:iam::123456789012:role/job",
        "AlgorithmSpecification": {"TrainingImage": "x/y:z", "TrainingInputMode": "File"},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 10,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(made.get(name), dict) else value
    return made


def test_a_good_request_passes() -> None:
    validate(request())
    validate(request(Tags=[{"Key": "everstep:run", "Value": "a b/c_d.e+f@g"}]))
    validate(request(HyperParameters={"spec": '{"model": "tiny"}'}, Environment={"A": "b c"}))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"TrainingJobName": "x" * 64}, "less than or equal to 63"),
        ({"TrainingJobName": "has_underscore"}, "regular expression"),
        ({"ResourceConfig": {"KeepAlivePeriodInSeconds": 30000}}, "less than or equal to 21600"),
        ({"ResourceConfig": {"InstanceType": "ml.p99.huge"}}, "enum value set"),
        ({"ResourceConfig": {"InstanceCount": -1}}, "greater than or equal to 0"),
        ({"Environment": {"A": "x" * 600}}, "less than or equal to 512"),
        ({"EnableManagedSpotTraining": True}, "MaxWaitTimeInSeconds"),
        (
            {
                "EnableManagedSpotTraining": True,
                "StoppingCondition": {"MaxWaitTimeInSeconds": 60},
                "ResourceConfig": {"KeepAlivePeriodInSeconds": 60},
            },
            "KeepAlivePeriodInSeconds is not supported",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "VolumeKmsKeyId": "k"}},
            "VolumeKmsKeyId is not supported",
        ),
        ({"StoppingCondition": {"MaxWaitTimeInSeconds": 100}}, "only supported when"),
        (
            {"ResourceConfig": {"VolumeSizeInGB": None}},
            "must not be null|VolumeSizeInGB is required",
        ),
    ],
)
def test_refused_requests(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(AwsError, match=text) as caught:
        validate(request(**changes))
    assert caught.value.code == "ValidationException"


def test_quotas_have_awss_words() -> None:
    quotas = Quotas()
    job = request(ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2})
    with pytest.raises(AwsError) as caught:
        check_quotas(job, quotas, {})
    assert caught.value.code == "ResourceLimitExceeded"
    assert (
        "The account-level service limit 'ml.p5.48xlarge for training job usage' is 0 Instances, "
        "with current utilization of 0 Instances and a request delta of 2 Instances."
    ) in caught.value.message
    quotas.set("ml.p5.48xlarge for training job usage", 2)
    check_quotas(job, quotas, {})
    with pytest.raises(AwsError, match="current utilization of 1 Instances"):
        check_quotas(job, quotas, {("ml.p5.48xlarge", False): 1})


def test_faults_are_spent() -> None:
    faults = Faults()
    faults.add("capacity", 2)
    assert [faults.take("capacity") for _ in range(3)] == [True, True, False]
    faults.set_events("lose", 1)
    assert [faults.event_mode("a-1"), faults.event_mode("a-1")] == ["lose", ""]
    faults.know_host("HOST1", "a-1")
    faults.set_s3(1, "hosts")
    assert not faults.slow_down("SOMEONE")
    assert faults.slow_down("HOST1")
    assert not faults.slow_down("HOST1")
    faults.set_schedule(False, "Watchdog")
    assert not faults.schedule_on("stack-WatchdogClock")
    assert faults.schedule_on("stack-Other")
    faults.set_schedule(True)
    assert faults.schedule_on("stack-WatchdogClock")


@pytest.mark.parametrize(
    ("pattern", "message", "expected"),
    [
        ("", "anything", True),
        ('"everstep"', '{"everstep":"step"}', True),
        ("ERROR Timeout", "ERROR: a Timeout", True),
        ("ERROR -Timeout", "ERROR: a Timeout", False),
        ("?a ?b", "xxb", True),
        ('"\\"everstep\\":\\"step\\""', '{"everstep":"step"}', True),
    ],
)
def test_log_terms(pattern: str, message: str, expected: bool) -> None:
    assert _wanted(pattern)(message) is expected


def test_a_fault_aimed_at_one_run_hits_no_other() -> None:
    faults = Faults()
    faults.add("capacity", 1, "b-")
    assert [faults.take("capacity", "a-1"), faults.take("capacity", "b-1")] == [False, True]
    faults.set_events("lose", 1, "b-")
    faults.set_events("double", None, "a-")
    assert [faults.event_mode(job) for job in ("a-1", "b-1", "b-1", "a-1")] == [
        "double",
        "lose",
        "",
        "double",
    ]
    faults.set_s3(2, "hosts", "b-")
    faults.know_host("HOSTA", "a-1")
    faults.know_host("HOSTB", "b-1")
    assert [faults.slow_down(key) for key in ("HOSTA", "HOSTB")] == [False, True]
    faults.forget("b-")
    assert not faults.slow_down("HOSTB")
    assert faults.event_mode("a-1") == "double"
    assert faults.left() == {}
