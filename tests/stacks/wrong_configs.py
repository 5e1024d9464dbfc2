"""Configs that are refused: what is put where, where the problem is said to be, a word of it."""

import copy
import math
import tomllib
from typing import Any

from stacks.config import CONFIG_FOLDER

ROLE = "arn:aws:iam::444455556666:role/"
LAYER = "lambdas.powertools_layer"
KEY = "arn:aws:kms:us-east-1:444455556666:key/x"
BUCKETS = {
    "data_bucket": "a-data", "checkpoint_bucket": "b-data", "output_bucket": "c-data",
    "data_key": KEY,
}  # fmt: skip
IMPORTED: dict[str, Any] = {
    "zones": ["us-east-1a", "us-east-1b"],
    "cidr": "10.42.0.0/16",
    "training_mask": 18,
    "vpc_id": "vpc-0123456789abcdef0",
    "subnet_ids": {
        "us-east-1a": "subnet-0123456789abcdef0",
        "us-east-1b": "subnet-0123456789abcdef1",
    },
}
SAME_SUBNET = dict.fromkeys(IMPORTED["zones"], "subnet-0123456789abcdef0")


def whole() -> dict[str, Any]:
    """prod, with every section that there is."""
    raw = copy.deepcopy(tomllib.loads((CONFIG_FOLDER / "prod.toml").read_text()))
    raw["planned"] = {
        "instance_type": "ml.p5.48xlarge", "nodes": 64, "purchase": "spot", "data_mode": "fsx",
    }  # fmt: skip
    raw["budget"] = {"monthly_usd": 1000}
    return raw


def put(raw: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for name in folders:
        raw = raw[int(name)] if isinstance(raw, list) else raw[name]
    raw[last] = value


WRONG: list[tuple[str, Any, str, str]] = [
    # path, value, where the problem is said to be, a word of it
    ("account", "12345", "account", "pattern"),
    ("account", 123456789012, "account", "string"),
    ("region", "us-east1", "region", "pattern"),
    ("removal", "delete", "removal", "retain"),
    ("log_retention_days", 100, "log_retention_days", "90 is the nearest"),
    ("alarm_email", "oncall", "alarm_email", "pattern"),
    ("regoin", "us-east-1", "regoin", "did you mean 'region'"),
    ("network.zone", ["us-east-1a"], "network.zone", "did you mean 'zones'"),
    ("network.zones", ["us-west-2a"], "network.zones.0", "not a zone of us-east-1"),
    ("network.zones", ["us-east-1a", "us-east-1a"], "network.zones", "twice"),
    ("network.zones", [], "network.zones", "at least 1"),
    ("network.cidr", "10.42.0.0/12", "network.cidr", "IPv4"),
    ("network.cidr", "8.8.0.0/16", "network.cidr", "private"),
    ("network.training_mask", 17, "network.training_mask", "addresses"),
    ("network.nat_gateways", 4, "network.nat_gateways", "more NAT gateways"),
    ("network.interface_endpoints", ["s3"], "network.interface_endpoints.0", "free"),
    ("network.interface_endpoints", ["ECR API"], "network.interface_endpoints.0", "no service"),
    ("file_system.capacity_gib", 3000, "file_system.capacity_gib", "2400 or 4800"),
    ("file_system.capacity_gib", 600, "file_system.capacity_gib", "1200"),
    ("region", "eu-west-9", "region", "did you mean 'eu-west-"),
    ("region", "us-gov-north-1", "region", "no region that has SageMaker"),
    ("network.interface_endpoints", ["ecr.apis"], "network.interface_endpoints.0", "'ecr.api'"),
    (
        "network.no_internet", True,
        "network.interface_endpoints", "sagemaker.api cannot be reached",
    ),
    ("teams.0.remote_debug", True, "teams.0.remote_debug", "neither NAT nor an endpoint"),
    ("network.vpc_id", "vpc-1", "network.vpc_id", "pattern"),
    ("network.subnet_ids", {"us-east-1a": "subnet-0123456789abcdef0"},
     "network.subnet_ids", "subnets of no VPC"),
    ("file_system.throughput_mbps_per_tib", 300,
     "file_system.throughput_mbps_per_tib", "125, 250, 500, 1000"),
    ("file_system.zone", "us-east-1f", "file_system.zone", "one of us-east-1a, us-east-1b"),
    ("file_system.deployment", "SCRATCH_1", "file_system.deployment", "SCRATCH_2"),
    ("file_system.throughput_mbps", 4000, "file_system.throughput_mbps", "means nothing"),
    ("file_system.capacity_gib", None, "file_system.capacity_gib", "required on SSD"),
    ("planned.instance_type", "ml.p5.49xlarge", "planned.instance_type", "ml.p5.48xlarge"),
    (
        "planned.nodes", 600, "network.training_mask",
        "(32 EFA interfaces + 1) × 600 = 19800 addresses, and a /18 has 16384 − 5",
    ),
    (
        "planned", {"instance_type": "ml.g5.48xlarge", "purchase": "training_plan"},
        "planned.instance_type", "no training plan holds",
    ),
    (
        "planned",
        {
            "instance_type": "ml.p5.48xlarge", "purchase": "training_plan",
            "warm_pool_seconds": 60,
        },
        "planned.warm_pool_seconds", "no pool to keep",
    ),
    ("planned.warm_pool_seconds", 600, "planned.warm_pool_seconds", "no warm pool for a spot"),
    ("planned.zone", "us-east-1f", "planned.zone", "one of us-east-1a"),
    ("planned.zone", "us-east-1b", "planned.zone", "the file system lies in us-east-1a"),
    ("planned.instance_type", "ml.m5.12xlarge", "planned.efa", "has no EFA"),
    ("planned.purchase", "reserved", "planned.purchase", "training_plan"),
    ("alarm_email", None, "alarm_email", "needed by the budget"),
    ("budget.monthly_usd", 0, "budget.monthly_usd", "greater than"),
    ("budget.alert_percent", [0], "budget.alert_percent.0", "greater than"),
    ("tags", {"project": "everstep"}, "tags.environment", "needed by the budget"),
    (
        "file_system.throughput_mbps_per_tib", 200,
        "file_system.throughput_mbps_per_tib", "125, 250, 500, 1000",
    ),
    ("file_system.efa", True, "file_system.efa", "capacity_gib = 19200"),
    ("teams", [], "teams", "at least 1"),
    ("teams.1.name", "research", "teams.1.name", "twice"),
    ("teams.0.name", "Research Team", "teams.0.name", "pattern"),
    (
        "teams.0.adopt_job_roles", ["notebook-jobs"],
        "teams.0.adopt_job_roles.0", "pattern",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws:iam::111122223333:role/x"],
        "teams.0.adopt_job_roles.0", "not a role of account 444455556666",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws:iam::444455556666:role/x"] * 2,
        "teams.0.adopt_job_roles.1", "already named by team research",
    ),
    ("teams.0.adopt_job_roles", ["arn:aws:iam::444455556666:role/*"],
     "teams.0.adopt_job_roles.0", "pattern"),
    ("watchdog.heartbeat_seconds", 240, "watchdog.heartbeat_seconds", "300 or more"),
    ("watchdog.period_seconds", 0, "watchdog.period_seconds", "greater than"),
    ("lambdas.powertools_layer", "latest", "lambdas.powertools_layer", "pattern"),
    (
        "lambdas.powertools_layer", "arn:{partition}:lambda:{zone}:1:layer:Mine:3",
        "lambdas.powertools_layer", "{zone} is not known",
    ),
    ("rules", [{"id": "x", "pattern": "a (b", "class": "quota"}], "rules.0.pattern", "regular"),
    ("rules", [{"id": "x", "pattern": "abc", "class": "qouta"}], "rules.0.class", "quota"),
    ("rules", [{"id": "x", "pattern": "abc", "clas": "quota", "class": "quota"}], "rules.0.clas",
     "unknown field"),
    ("rules", [{"id": "x", "pattern": "abc", "class": "quota"}] * 2, "rules", "used twice: x"),
    (
        "rules", [{"id": f"x{i}", "pattern": "a" * 300, "class": "quota"} for i in range(9)],
        "rules", "more than 2048",
    ),
    ("prices_usd", {"ml.p5.48xlarge": -1}, "prices_usd.ml.p5.48xlarge", "greater than"),
]  # fmt: skip

NASTY: list[tuple[str, Any, str, str]] = [
    # path, value, where the problem is said to be, a word of it
    # Digits and letters that are none of AWS's.
    ("account", "４４４４５５５５６６６６", "account", "pattern"),
    ("account", "444455556666\n", "account", "pattern"),
    ("alarm_email", "ünï@exämple.com", "alarm_email", "pattern"),
    ("teams.0.name", "équipe", "teams.0.name", "pattern"),
    # Types that TOML has, and that would have been bent into others.
    ("log_retention_days", True, "log_retention_days", "valid integer"),
    ("log_retention_days", "365", "log_retention_days", "valid integer"),
    ("network.no_internet", "false", "network.no_internet", "valid boolean"),
    ("network.nat_gateways", True, "network.nat_gateways", "valid integer"),
    ("file_system.efa", "off", "file_system.efa", "valid boolean"),
    ("planned.nodes", True, "planned.nodes", "valid integer"),
    ("watchdog.period_seconds", True, "watchdog.period_seconds", "valid integer"),
    ("run_file_systems", 1, "run_file_systems", "valid boolean"),
    # Numbers that are none, or that nothing holds.
    ("budget.monthly_usd", math.inf, "budget.monthly_usd", "finite"),
    ("budget.monthly_usd", math.nan, "budget.monthly_usd", "finite"),
    ("budget.monthly_usd", 1e-300, "budget.monthly_usd", "greater than"),
    ("budget.monthly_usd", 1e300, "budget.monthly_usd", "less than"),
    ("budget.alert_percent", [50, 50], "budget.alert_percent", "twice"),
    ("prices_usd", {"ml.p5.48xlarge": math.inf}, "prices_usd.ml.p5.48xlarge", "finite"),
    ("file_system.capacity_gib", 2400 * 10**9, "file_system.capacity_gib", "less than"),
    ("watchdog.heartbeat_seconds", 10**12, "watchdog.heartbeat_seconds", "less than"),
    # Networks.
    ("network.cidr", "127.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "169.254.0.0/16", "network.cidr", "private"),
    ("network.cidr", "0.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "240.0.0.0/16", "network.cidr", "private"),
    ("network.cidr", "198.19.0.0/16", "network.cidr", "private"),
    ("network.cidr", "172.17.0.0/16", "network.cidr", "overlaps 172.17.0.0/16"),
    ("network.zones", ["us-east-1z"], "network.zones.0", "not a zone"),
    ("network.interface_endpoints", ["kms", "kms"], "network.interface_endpoints.1", "twice"),
    ("network", IMPORTED | {"subnet_ids": SAME_SUBNET}, "network.subnet_ids", "a subnet twice"),
    ("network", IMPORTED | {"no_internet": True}, "network.no_internet", "not ours to change"),
    # Names beside each other: a team's folder, role and constructs.
    ("teams.0.name", "checkpoints", "teams.0.name", "every team's checkpoints"),
    ("teams.0.name", "exports", "teams.0.name", "every team's exports"),
    ("teams", [{"name": "a-1"}, {"name": "a1"}], "teams.1.name", "too like 'a-1'"),
    (
        "teams.0.adopt_job_roles", [ROLE + "everstep-prod-applied-job"],
        "teams.0.adopt_job_roles.0", "would reach that team's data",
    ),
    (
        "teams.0.adopt_job_roles", ["arn:aws-cn:iam::444455556666:role/x"],
        "teams.0.adopt_job_roles.0", "in partition aws",
    ),
    (
        "teams.0.adopt_job_roles", [ROLE + "x" * 65],
        "teams.0.adopt_job_roles.0", "65 characters, IAM takes 64",
    ),
    (
        "teams.0.adopt_job_roles", [f"{ROLE}{i:02}{'x' * 60}" for i in range(20)],
        "teams.*.adopt_job_roles", "a Lambda function's environment",
    ),
    ("access.principals", [ROLE + "*"], "access.principals.0", "pattern"),
    ("access.principals", [ROLE + "a b"], "access.principals.0", "pattern"),
    ("access.principals", ["arn:aws-cn:iam::444455556666:role/x"],
     "access.principals.0", "no principal of partition aws"),
    ("access.principals", [ROLE + "x", ROLE + "x"], "access.principals.1", "twice"),
    ("access.principals", [f"{ROLE}{i}{'p' * 200}" for i in range(10)],
     "access.principals", "IAM takes 2048"),
    # Tags.
    ("tags.aws:x", "y", "tags.aws:x", "reserved"),
    ("tags.Everstep:Team", "applied", "tags.Everstep:Team", "reserved"),
    ("tags.Team", "applied", "tags.Team", "a researcher's team"),
    ("tags.", "y", "tags.", "AWS takes 1 to 128"),
    ("tags.environment", "v" * 257, "tags.environment", "257 characters"),
    ("tags.emoji", "🚀", "tags.emoji", "does not take"),
    ("tags.Project", "x", "tags.Project", "no case in keys"),
    # Layers.
    (LAYER, "arn:aws:lambda:}x:1:layer:X:1", LAYER, "without its partner"),
    (LAYER, "arn:{partition:lambda:us-east-1:1:layer:X:1", LAYER, "without its partner"),
    (LAYER, "arn:aws:lambda:eu-west-1:123456789012:layer:X:1", LAYER, "no layer of us-east-1"),
    (LAYER, "arn:aws-cn:lambda:us-east-1:123456789012:layer:X:1", LAYER, "or partition"),
    (LAYER, "arn:aws:lambda:us-east-1:123456789012:layer:P-python39-arm64:1", LAYER, "python39"),
    # What a former stack left.
    ("existing", BUCKETS | {"data_bucket": "a..b"}, "existing.data_bucket", "two dots"),
    ("existing", BUCKETS | {"data_bucket": "192.168.0.1"}, "existing.data_bucket", "address"),
    ("existing", BUCKETS | {"data_bucket": "xn--abc"}, "existing.data_bucket", "prefix"),
    ("existing", BUCKETS | {"data_bucket": "a-s3alias"}, "existing.data_bucket", "suffix"),
    ("existing", BUCKETS | {"output_bucket": "a-data"},
     "existing.output_bucket", "data_bucket too"),
    ("existing", BUCKETS | {"data_key": KEY.replace("aws", "aws-cn")},
     "existing.data_key", "is not in us-east-1"),
    # Words that something else reads.
    ("prices_usd", {"ml.p5.48xlrage": 1.0}, "prices_usd.ml.p5.48xlrage", "'ml.p5.48xlarge'"),
    ("runbook_url", "javascript:alert(1)", "runbook_url", "pattern"),
    ("runbook_url", "", "runbook_url", "pattern"),
    ("teams", [{"name": f"team-{i}"} for i in range(15)], "teams", "at most 14"),
]  # fmt: skip


def put_nasty(raw: dict[str, Any], path: str, value: Any) -> None:
    """Into prod as it is. Keys of tags and prices have dots of their own."""
    at: Any = raw
    *folders, last = path.split(".", 2) if path.startswith("teams.") else path.split(".", 1)
    for name in folders:
        at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
    at[last] = value
    if path.startswith(("network", "existing")):
        del raw["planned"]
