"""Every request that we make is one that CreateTrainingJob takes: botocore's own model says so."""

import re
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore.model import Shape
from botocore.validate import ParamValidator

from everstep.contracts.check import check_spec
from everstep.contracts.events import TAG_EXECUTION, TAG_RUN
from everstep.contracts.failures import Rung
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.payloads import Team
from everstep.contracts.records import Launch, Run
from everstep.policy.job_request import job_request

EXECUTION = "arn:aws:states:us-east-1:111122223333:execution:everstep-dev-research:my-run"
TEAM = Team(
    name="research",
    job_role_arn="arn:aws:iam::111122223333:role/everstep-dev-research-job",
    data_uri="s3://data/research",
    checkpoint_uri="s3://ckpt/research",
    output_uri="s3://out/research",
    image_repository="111122223333.dkr.ecr.us-east-1.amazonaws.com/everstep-dev",
    subnets={"us-east-1a": ["subnet-0a"]},
    security_groups=["sg-0a"],
    kms_key_arn="arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    file_system_id="fs-0123456789abcdef0",
    file_system_path="/fsx/research",
    file_system_checkpoints="/fsx/checkpoints/research",
)
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/plan-1"
P5 = {"instance_type": "ml.p5.48xlarge", "nodes": 4}

SPECS: dict[str, dict[str, Any]] = {
    "smallest": {},
    "every section": {
        "model": {"preset": "llama2-7b", "vocab_size": 32000, "dropout": 0.1},
        "compute": [P5],
        "parallelism": {"sharding": "HYBRID_SHARD", "replicate": 4, "shard": 8},
        "train": {"lr": 1e-4, "global_batch": 1024, "seed": 7, "dtype": "fp32"},
        "checkpoint": {"every_steps": 100, "keep_last": 5},
        "tags": {"cost center": "a/b=c@d"},
        "trainer": {
            "image": "public.ecr.aws/x/y:1",
            "command": ["torchrun", "train.py"],
            "environment": {"NCCL_DEBUG": "INFO"},
            "hyperparameters": {"foreign": "1"},
        },
    },
    "own shape": {
        "model": {
            "config": {
                "dim": 64,
                "layers": 1,
                "heads": 2,
                "kv_heads": 2,
                "ffn_dim": 128,
                "vocab_size": 99,
            }
        }
    },
    "own retries": {"trainer": {"environment": {"AWS_MAX_ATTEMPTS": "3"}}},
    "spot": {"compute": [{**P5, "purchase": "spot"}]},
    "service restarts": {"compute": [P5], "retry": {"service_restarts": 2}},
    "warm pool": {"compute": [{**P5, "warm_pool_seconds": 3600}]},
    "training plan": {"compute": [{**P5, "purchase": "training_plan", "training_plan_arn": PLAN}]},
    "groups": {
        "compute": [
            {
                **P5,
                "groups": [{"name": "data", "instance_type": "ml.c5.18xlarge", "count": 2}],
                "data_groups": ["data"],
            }
        ],
        "trainer": {"command": ["python", "fork.py"]},
    },
    "switches": {"compute": [P5], "service": {"profiler": True, "remote_debug": True}},
    "no check": {"compute": [P5], "service": {"infra_check": False}},
    "reporting": {"report": {"tensorboard": True, "mlflow": "https://x", "profile": "1-2"}},
    "torchrun": {
        "trainer": {"launcher": "torchrun", "command": ["train.py", "--x"]},
        "compute": [P5],
    },
    "mpi": {"trainer": {"launcher": "mpi", "command": ["train.py"]}, "compute": [P5]},
    "fast file": {"data": {"prefix": "a/b", "mode": "fastfile"}},
    "fsx": {"data": {"prefix": "a/b", "mode": "fsx"}},
    "all on fsx": {"data": {"prefix": "a/b", "mode": "fsx"}, "checkpoint": {"storage": "fsx"}},
    "checkpoints on fsx": {
        "data": {"prefix": "a/b", "mode": "fastfile"},
        "checkpoint": {"storage": "fsx"},
    },
    "s3": {
        "data": {
            "prefix": "a/b/",
            "mode": "s3",
            "mixture": [{"prefix": "web", "weight": 0.7}, {"prefix": "code", "weight": 0.3}],
            "validation": "held-out",
            "document_separator": 0,
        }
    },
    "weights": {"model": {"preset": "llama2-7b", "weights": "models/7b/"}, "compute": [P5]},
    "weights beside s3": {
        "model": {"preset": "llama2-7b", "weights": "models/7b"},
        "data": {"prefix": "a/b", "mode": "s3"},
    },
    "seconds long": {"stop": {"steps": 1, "max_runtime_hours": 0.0001}},
    "a month long": {
        "stop": {"steps": 1, "max_runtime_hours": 672},
        "compute": [{**P5, "purchase": "spot"}],
    },
    "limits": {
        "tags": {f"k{i}": "v" * 256 for i in range(20)},
        "trainer": {
            "environment": {f"A{i}": "x" * 512 for i in range(90)},
            "command": ["x" * 256] * 100,
            "hyperparameters": {f"h{i}": "y" * 2500 for i in range(90)},
        },
    },
    **{
        name: {
            "compute": [{"instance_type": name}],
            **({"trainer": {"command": ["python", "neuron.py"]}} if kind.neuron_cores else {}),
        }
        for name, kind in INSTANCE_TYPES.items()
    },
}


@cache
def shape() -> Shape:
    session = botocore.session.get_session()
    return session.get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape


def breaches(value: Any, of: Shape, path: str = "") -> list[str]:
    """What botocore's model says and ParamValidator does not look at: enums, patterns, lengths."""
    found: list[str] = []
    if of.type_name == "structure":
        for name, inner in value.items():
            found += breaches(inner, of.members[name], f"{path}.{name}")
    elif of.type_name == "list":
        for i, inner in enumerate(value):
            found += breaches(inner, of.member, f"{path}.{i}")
    elif of.type_name == "map":
        for key, inner in value.items():
            found += breaches(key, of.key, f"{path}.{key}")
            found += breaches(inner, of.value, f"{path}.{key}")
    elif of.type_name == "string":
        if of.enum and value not in of.enum:
            found.append(f"{path}: {value} is none of the enum")
        pattern = of.metadata.get("pattern")
        plain = pattern and "\\p" not in pattern
        if plain and not re.fullmatch(pattern, value, re.DOTALL):
            found.append(f"{path}: {value} does not match {pattern}")
    size = (
        value
        if of.type_name in ("integer", "long")
        else len(value)
        if hasattr(value, "__len__")
        else None
    )
    low, high = of.metadata.get("min"), of.metadata.get("max")
    fits = (low is None or size is None or size >= low) and (
        high is None or size is None or size <= high
    )
    if not fits:
        found.append(f"{path}: {size} is not in {low}..{high}")
    return found


def make(name: str = "smallest", team: Team = TEAM, **launch: Any) -> dict[str, Any]:
    raw = {
        "model": "tiny",
        "data": "datasets/stdlib",
        "stop": {"steps": 10},
        "compute": [{"instance_type": "ml.m5.large"}],
        **SPECS[name],
    }
    spec, problems = check_spec(raw)
    assert problems == []
    assert spec is not None
    run = Run(run_id="my-run", execution_arn=EXECUTION, team=team, spec=spec, created_epoch=0)
    fields = {"subnet": "subnet-0a", "resume_checkpoint": "step-00000120.00002", **launch}
    return job_request(
        run,
        Launch(
            run_id="my-run",
            launch=3,
            job_name="my-run-00003",
            execution_arn=EXECUTION,
            instance_type=spec.compute[0].instance_type,
            nodes=spec.compute[0].nodes,
            planned_epoch=0,
            **fields,
        ),
    )


def test_torchrun_comes_before_the_program() -> None:
    algorithm = make("torchrun")["AlgorithmSpecification"]
    entry = algorithm["ContainerEntrypoint"]
    assert entry[:3] == ["torchrun", "--nnodes=4", "--nproc-per-node=8"]
    assert "--max-restarts=0" in entry
    assert algorithm["ContainerArguments"] == ["train.py", "--x"]


def test_groups_are_the_clusters_and_the_data_goes_where_it_is_asked_for() -> None:
    request = make("groups")
    assert request["ResourceConfig"]["InstanceGroups"] == [
        {"InstanceGroupName": "train", "InstanceType": "ml.p5.48xlarge", "InstanceCount": 4},
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.18xlarge", "InstanceCount": 2},
    ]
    (channel,) = request["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["InstanceGroupNames"] == ["data"]
    (plain,) = make()["InputDataConfig"]
    assert "InstanceGroupNames" not in plain["DataSource"]["S3DataSource"]


def test_the_services_switches_are_sent_only_where_they_are_asked_for() -> None:
    on, off = make("switches"), make("no check")
    assert on["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    assert on["ProfilerConfig"]["S3OutputPath"] == "s3://out/research/my-run/00003/profiler"
    assert "ProfilerRuleConfigurations" not in on  # a rule costs a processing instance
    assert on["InfraCheckConfig"] == {"EnableInfraCheck": True}
    assert not {"RemoteDebugConfig", "ProfilerConfig", "InfraCheckConfig"} & set(off)
    assert not {"RemoteDebugConfig", "ProfilerConfig"} & set(make())


def test_the_toolkit_is_told_of_mpi_and_starts_by_itself() -> None:
    request = make("mpi")
    assert "ContainerEntrypoint" not in request["AlgorithmSpecification"]
    assert (
        request["HyperParameters"]
        | {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"/opt/ml/code"',
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": "8",
        }
        == request["HyperParameters"]
    )


def test_tensorboard_goes_below_the_launch() -> None:
    assert "TensorBoardOutputConfig" not in make()
    request = make("reporting")
    where = request["TensorBoardOutputConfig"]["S3OutputPath"]
    number = request["TrainingJobName"].rsplit("-", 1)[1]
    assert where == f"s3://out/research/my-run/{number}/tensorboard"


def test_an_sdk_waits_for_a_busy_s3_unless_the_spec_says_otherwise() -> None:
    """Chaos seed 169: boto3 as it comes gave up after two retries, and cost six attempts."""
    assert make()["Environment"]["AWS_MAX_ATTEMPTS"] == "10"
    assert make("own retries")["Environment"]["AWS_MAX_ATTEMPTS"] == "3"


@pytest.mark.parametrize("name", SPECS)
def test_a_request_fits_botocores_model(name: str) -> None:
    request = make(name)
    report = ParamValidator().validate(request, shape())
    assert not report.has_errors(), report.generate_report()
    assert breaches(request, shape()) == []


@pytest.mark.parametrize("name", SPECS)
def test_a_request_keeps_the_rules_that_no_model_states(name: str) -> None:
    request = make(name)
    resources, stop = request["ResourceConfig"], request["StoppingCondition"]
    spot = request.get("EnableManagedSpotTraining", False)
    assert not (spot and "KeepAlivePeriodInSeconds" in resources)
    assert ("MaxWaitTimeInSeconds" in stop) == spot
    assert (
        stop.get("MaxWaitTimeInSeconds", stop["MaxRuntimeInSeconds"]) >= stop["MaxRuntimeInSeconds"]
    )
    machines = resources.get("InstanceGroups", [resources])
    local = any(INSTANCE_TYPES[group["InstanceType"]].nvme for group in machines)
    assert local != ("VolumeKmsKeyId" in resources)
    assert ("InstanceType" in resources) != ("InstanceGroups" in resources)
    assert len({t["Key"] for t in request["Tags"]}) == len(request["Tags"]) <= 50
    assert len(request["Environment"]) <= 100


def test_a_streaming_job_has_no_channel_and_is_told_where_its_data_lie() -> None:
    request = make("s3")
    assert "InputDataConfig" not in request
    assert request["Environment"]["EVERSTEP_DATA_URI"] == "s3://data/research/a/b"
    assert request["HyperParameters"]["data.mode"] == "s3"
    channel = make("fast file")
    assert channel["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Uri"] == (
        "s3://data/research/a/b/"
    )
    assert "EVERSTEP_DATA_URI" not in channel["Environment"]


def test_checkpoints_on_a_file_system_are_mounted_to_be_written_and_told_of_in_s3() -> None:
    request = make("all on fsx")
    data, saved = request["InputDataConfig"]
    sources = [x["DataSource"]["FileSystemDataSource"] for x in (data, saved)]
    assert [x["FileSystemAccessMode"] for x in sources] == ["ro", "rw"]
    # not the run's own folder: SageMaker mounts what is there already
    assert [x["DirectoryPath"] for x in sources] == [
        "/fsx/research/a/b",
        "/fsx/checkpoints/research",
    ]
    environment = request["Environment"]
    assert environment["EVERSTEP_CHECKPOINT_URI"] == "/opt/ml/input/data/checkpoints/my-run"
    assert environment["EVERSTEP_CHECKPOINT_RECORD_URI"] == "s3://ckpt/research/my-run"
    assert make("checkpoints on fsx")["InputDataConfig"][1] == saved
    assert saved["InputMode"] == "File", "whatever the data's mode"
    assert "EVERSTEP_CHECKPOINT_RECORD_URI" not in make("fsx")["Environment"]


def test_weights_come_in_a_channel_of_their_own() -> None:
    """Whatever the data's mode; the trainer is told the channel's name, not the path."""
    both, alone = make("weights"), make("weights beside s3")
    assert [c["ChannelName"] for c in both["InputDataConfig"]] == ["training", "weights"]
    for request in (both, alone):
        channel = request["InputDataConfig"][-1]
        assert channel["InputMode"] == "FastFile"
        assert channel["DataSource"]["S3DataSource"]["S3Uri"] == "s3://data/research/models/7b/"
        assert request["HyperParameters"]["model.weights"] == "weights"


def test_a_team_without_network_or_keys_makes_a_request_without_them() -> None:
    bare = TEAM.model_copy(update={"kms_key_arn": None, "subnets": {}, "security_groups": []})
    request = make(team=bare, subnet=None)
    assert "VpcConfig" not in request
    assert "VolumeKmsKeyId" not in request["ResourceConfig"]
    assert breaches(request, shape()) == []


def test_the_job_carries_the_tag_by_which_we_know_it_again() -> None:
    tags = {t["Key"]: t["Value"] for t in make()["Tags"]}
    assert (tags[TAG_EXECUTION], tags[TAG_RUN]) == (EXECUTION, "my-run")


def test_the_trainer_is_told_to_end_before_the_service_ends_it() -> None:
    for name in SPECS:
        request = make(name)
        limit = request["StoppingCondition"]["MaxRuntimeInSeconds"]
        told = int(request["Environment"]["EVERSTEP_MAX_RUNTIME_SECONDS"])
        assert told < limit or limit < 10
        assert told >= limit - 600


def test_what_the_user_sets_does_not_override_what_everstep_says() -> None:
    request = make("every section")
    assert request["Environment"]["NCCL_DEBUG"] == "INFO"
    assert request["Environment"]["EVERSTEP_RUN_ID"] == "my-run"
    assert request["Environment"]["EVERSTEP_RESUME_FROM"] == "step-00000120.00002"


def test_an_image_is_looked_up_in_the_teams_registry_unless_it_is_whole() -> None:
    assert make()["AlgorithmSpecification"]["TrainingImage"].startswith(TEAM.image_repository + "/")
    whole = make("every section")["AlgorithmSpecification"]["TrainingImage"]
    assert whole == "public.ecr.aws/x/y:1"


def test_the_services_own_restarts_are_asked_for_only_where_the_spec_says() -> None:
    assert "RetryStrategy" not in make()
    assert make("service restarts")["RetryStrategy"] == {"MaximumRetryAttempts": 2}


def test_warm_hosts_are_not_checked_again_and_new_ones_are() -> None:
    assert "InfraCheckConfig" not in make("warm pool", rung=Rung.WARM_HOSTS)
    assert make("warm pool", rung=Rung.NEW_HOSTS)["InfraCheckConfig"] == {"EnableInfraCheck": True}


def test_what_the_budget_leaves_is_the_jobs_run_time() -> None:
    request = make(max_runtime_seconds=500)
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == 500
    assert request["Environment"]["EVERSTEP_MAX_RUNTIME_SECONDS"] == "450"
