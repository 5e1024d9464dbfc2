"""Specs that are refused: what is in them, and where the problem is said to be."""

import copy
from typing import Any

from everstep.contracts.models import PRESETS

SMALLEST: dict[str, Any] = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "stop": {"steps": 100},
}


def spec(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SMALLEST), **changes}


P5 = {"instance_type": "ml.p5.48xlarge", "nodes": 2}


def on_sixteen(**parallelism: int) -> dict[str, Any]:
    """On 16 ranks."""
    return {"compute": [P5], "parallelism": parallelism}


BAD: list[tuple[str, dict[str, Any], str, Any]] = [
    ("unknown section", spec(modle="tiny"), "modle", "tiny"),
    ("unknown field", spec(stop={"steps": 1, "step": 2}), "stop.step", 2),
    (
        "unknown field in a list",
        spec(compute=[{"instance_type": "ml.m5.large", "node": 2}]),
        "compute.0.node",
        2,
    ),
    (
        "unknown field in a shape",
        spec(
            model={
                "config": {
                    "dim": 64,
                    "layers": 1,
                    "heads": 2,
                    "kv_heads": 2,
                    "ffn_dim": 64,
                    "vocab_size": 9,
                    "width": 3,
                }
            }
        ),
        "model.config.width",
        3,
    ),
    ("wrong type", spec(stop={"steps": "many"}), "stop.steps", "many"),
    ("out of range", spec(stop={"steps": 0}), "stop.steps", 0),
    (
        "too long a run",
        spec(stop={"steps": 1, "max_runtime_hours": 673}),
        "stop.max_runtime_hours",
        673,
    ),
    ("steps without end", spec(stop={"steps": 1e30}), "stop.steps", 1e30),
    ("true steps", spec(stop={"steps": True}), "stop.steps", True),
    ("steps as text", spec(stop={"steps": "100"}), "stop.steps", "100"),
    ("a batch of all there is", spec(train={"global_batch": 1e20}), "train.global_batch", 1e20),
    ("a book a line", spec(train={"sequence_length": 1e15}), "train.sequence_length", 1e15),
    (
        "saves without end",
        spec(checkpoint={"every_minutes": 1e-300}),
        "checkpoint.every_minutes",
        1e-300,
    ),
    ("an export by nothing", spec(finish={"export": True, "command": []}), "finish.command", []),
    ("not a number", spec(budget={"max_usd": float("nan")}), "budget.max_usd", None),
    ("infinite", spec(retry={"backoff_seconds": float("inf")}), "retry.backoff_seconds", None),
    ("no way to get machines", spec(compute=[]), "compute", []),
    ("section of a wrong kind", spec(train=[1]), "train", [1]),
    ("null section", spec(stop=None), "stop", None),
    ("unknown word", spec(train={"dtype": "fp16"}), "train.dtype", "fp16"),
    ("unknown preset", spec(model="lama2-7b"), "model.preset", "lama2-7b"),
    ("preset and shape", spec(model={}), "model", None),
    (
        "unknown type",
        spec(compute=[{"instance_type": "ml.p5.48xlrge"}]),
        "compute.0.instance_type",
        "ml.p5.48xlrge",
    ),
    (
        "spot and pool",
        spec(
            compute=[{"instance_type": "ml.m5.large", "purchase": "spot", "warm_pool_seconds": 60}]
        ),
        "compute.0.warm_pool_seconds",
        60,
    ),
    (
        "plan without an ARN",
        spec(compute=[{**P5, "purchase": "training_plan"}]),
        "compute.0.training_plan_arn",
        None,
    ),
    (
        "an ARN that is none",
        spec(compute=[{**P5, "purchase": "training_plan", "training_plan_arn": "x"}]),
        "compute.0.training_plan_arn",
        "x",
    ),
    ("mesh", spec(compute=[P5], parallelism={"shard": 3}), "parallelism", None),
    ("batch", spec(compute=[P5], train={"global_batch": 20}), "train.global_batch", 20),
    (
        "the same dataset twice",
        spec(data={"prefix": "a", "mixture": [{"prefix": "b"}, {"prefix": "b/"}]}),
        "data.mixture.1.prefix",
        "b/",
    ),
    (
        "weight of nothing",
        spec(data={"prefix": "a", "mixture": [{"prefix": "b", "weight": 0}]}),
        "data.mixture.0.weight",
        0,
    ),
    (
        "weight of almost nothing",
        spec(data={"prefix": "a", "mixture": [{"prefix": "b"}, {"prefix": "c", "weight": 1e-5}]}),
        "data.mixture.1.weight",
        1e-5,
    ),
    (
        "mixture that climbs",
        spec(data={"prefix": "a", "mixture": [{"prefix": "b/../../c"}]}),
        "data.mixture.0.prefix",
        "b/../../c",
    ),
    (
        "dataset that climbs",
        spec(data={"prefix": "a/../../applied"}),
        "data.prefix",
        "a/../../applied",
    ),
    (
        "validation on what is trained on",
        spec(data={"prefix": "a", "mixture": [{"prefix": "b"}], "validation": "b"}),
        "data.validation",
        "b",
    ),
    (
        "separator outside the vocabulary",
        spec(data={"prefix": "a", "document_separator": 10**6}),
        "data.document_separator",
        10**6,
    ),
    ("kv heads", spec(model="llama2-70b", **on_sixteen(tensor=16)), "parallelism.tensor", 16),
    (
        "vocabulary",
        spec(model={"preset": "llama2-7b", "vocab_size": 32001}, **on_sixteen(tensor=8)),
        "parallelism.tensor",
        8,
    ),
    (
        "sequence",
        spec(model="llama2-7b", **on_sixteen(tensor=8), train={"sequence_length": 4100}),
        "parallelism.tensor",
        8,
    ),
    ("layers", spec(**on_sixteen(pipeline=4)), "parallelism.pipeline", 4),
    ("stages", spec(**on_sixteen(pipeline=2, virtual_stages=2)), "parallelism.pipeline", 2),
    (
        "nothing to interleave",
        spec(**on_sixteen(virtual_stages=2)),
        "parallelism.virtual_stages",
        2,
    ),
    (
        "tied embeddings",
        spec(
            model={"config": PRESETS["tiny"].model_dump() | {"tied_embeddings": True}},
            **on_sixteen(pipeline=2),
        ),
        "parallelism.pipeline",
        2,
    ),
    (
        "microbatches",
        spec(
            model="llama2-7b",
            **on_sixteen(pipeline=8),
            train={"global_batch": 8, "micro_batch": 1},
        ),
        "train.global_batch",
        8,
    ),
    (
        "rounds",
        spec(
            model="llama2-7b",
            **on_sixteen(pipeline=8, virtual_stages=2),
            train={"global_batch": 24, "micro_batch": 1},
        ),
        "train.global_batch",
        24,
    ),
    (
        "weights that climb",
        spec(model={"preset": "tiny", "weights": "models/../../other"}),
        "model.weights",
        "models/../../other",
    ),
    (
        "adapters of random weights",
        spec(model={"preset": "tiny", "lora": {"rank": 4, "alpha": 8}}),
        "model.lora",
        None,
    ),
    (
        "adapters cut over tensor ranks",
        spec(
            model={"preset": "llama2-7b", "weights": "a/b", "lora": {"rank": 4, "alpha": 8}},
            **on_sixteen(tensor=2),
            train={"global_batch": 256},
        ),
        "parallelism.tensor",
        2,
    ),
    (
        "fp8 on a CPU",
        spec(train={"dtype": "fp8"}),
        "compute.0.instance_type",
        "ml.m5.large",
    ),
    (
        "fp8 on an A100",
        spec(train={"dtype": "fp8"}, compute=[{"instance_type": "ml.p4d.24xlarge"}]),
        "compute.0.instance_type",
        "ml.p4d.24xlarge",
    ),
    (
        "fp8 cut over tensor ranks",
        spec(
            model="llama2-7b", **on_sixteen(tensor=2), train={"dtype": "fp8", "global_batch": 256}
        ),
        "parallelism.tensor",
        2,
    ),
    (
        "preload without a file system",
        spec(data={"prefix": "a", "preload": True}),
        "data.preload",
        True,
    ),
    ("export of what is in s3", spec(checkpoint={"export": True}), "checkpoint.export", True),
    ("prefix that climbs", spec(data="/a"), "data.prefix", "/a"),
    ("tag with a quote", spec(tags={"a": "it's"}), "tags.a", "it's"),
    ("our own tag", spec(tags={"everstep:run": "x"}), "tags.everstep:run", "x"),
    ("long tag", spec(tags={"a": "b" * 257}), "tags.a", "b" * 257),
    ("variable name", spec(trainer={"environment": {"1A": "x"}}), "trainer.environment.1A", "x"),
    (
        "our own variable",
        spec(trainer={"environment": {"EVERSTEP_RUN_ID": "x"}}),
        "trainer.environment.EVERSTEP_RUN_ID",
        "x",
    ),
    (
        "long variable",
        spec(trainer={"environment": {"A": "b" * 513}}),
        "trainer.environment.A",
        "b" * 513,
    ),
    (
        "many variables",
        spec(trainer={"environment": {f"A{i}": "" for i in range(91)}}),
        "trainer.environment",
        91,
    ),
    (
        "arguments under mpi",
        spec(trainer={"launcher": "mpi", "command": ["train.py", "--x"]}),
        "trainer.command",
        ["train.py", "--x"],
    ),
    ("no command", spec(trainer={"command": []}), "trainer.command", []),
    ("no image", spec(trainer={"image": ""}), "trainer.image", ""),
    (
        "long hyperparameter",
        spec(trainer={"hyperparameters": {"a": "b" * 2501}}),
        "trainer.hyperparameters.a",
        "b" * 2501,
    ),
    (
        "hyperparameter that is no string",
        spec(trainer={"hyperparameters": {"a": 1}}),
        "trainer.hyperparameters.a",
        1,
    ),
    (
        "many hyperparameters",
        spec(trainer={"hyperparameters": {f"a{i}": "" for i in range(101)}}),
        "trainer.hyperparameters",
        None,
    ),
]
"""What, the spec, the problem's path, its value."""

ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/x"
PLAN = {"purchase": "training_plan", "training_plan_arn": ARN}
FOREIGN = {"trainer": {"command": ["python", "fork.py"]}}


def group(kind: str = "ml.c5.18xlarge", name: str = "data", **more: Any) -> dict[str, Any]:
    return {"name": name, "instance_type": kind, **more}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "spot and pool": (
        {"purchase": "spot", "warm_pool_seconds": 60},
        {},
        "warm_pool_seconds",
        "no warm pool for a spot job",
    ),
    "plan and pool": (
        {**PLAN, "warm_pool_seconds": 60},
        {},
        "warm_pool_seconds",
        "no pool to keep",
    ),
    "groups and pool": (
        {"groups": [group()], "warm_pool_seconds": 60},
        FOREIGN,
        "warm_pool_seconds",
        "no warm pool for a heterogeneous cluster",
    ),
    "pool above the guide's hour": (
        {"warm_pool_seconds": 3601},
        {},
        "warm_pool_seconds",
        "less than or equal to 3600",
    ),
    "plan without its ARN": ({"purchase": "training_plan"}, {}, "training_plan_arn", "go together"),
    "ARN without a plan": ({"training_plan_arn": ARN}, {}, "training_plan_arn", "go together"),
    "spot with a plan's ARN": (
        {"purchase": "spot", "training_plan_arn": ARN},
        {},
        "training_plan_arn",
        "go together",
    ),
    "plan of a type that none holds": (
        {**PLAN, "instance_type": "ml.g5.48xlarge"},
        {},
        "instance_type",
        "no training plan holds this type",
    ),
    "groups in a plan": ({**PLAN, "groups": [group()]}, FOREIGN, "groups", "one type"),
    "unknown type of a group": (
        {"groups": [group("ml.c5.17xlarge")]},
        FOREIGN,
        "groups.0.instance_type",
        "unknown instance type",
    ),
    "six groups": (
        {"groups": [group(name=f"g{n}") for n in range(5)]},
        FOREIGN,
        "groups",
        "at most 4",
    ),
    "a second training group": (
        {"groups": [group(name="train")]},
        FOREIGN,
        "groups.0.name",
        "second group",
    ),
    "two groups of one name": (
        {"groups": [group(), group()]},
        FOREIGN,
        "groups.1.name",
        "second group",
    ),
    "data for no group": (
        {"groups": [group()], "data_groups": ["dta"]},
        FOREIGN,
        "data_groups",
        "is no group of this job",
    ),
    "data for groups where there are none": (
        {"data_groups": ["train"]},
        {},
        "data_groups",
        "is no group of this job",
    ),
    "data for a group without a channel": (
        {"groups": [group()], "data_groups": ["data"]},
        {**FOREIGN, "data": {"prefix": "a", "mode": "s3"}},
        "data_groups",
        "has no channel",
    ),
    "other GPUs beside the reference trainer": (
        {"groups": [group("ml.g5.48xlarge")]},
        {},
        "groups",
        "wait for the slowest",
    ),
    "CPU hosts beside the reference trainer": (
        {"groups": [group()]},
        {},
        "groups",
        "nothing to do",
    ),
    "the same GPUs beside the reference trainer": (
        {"groups": [group("ml.p5.48xlarge")]},
        {},
        "groups",
        "more nodes",
    ),
    "torchrun over groups": (
        {"groups": [group()]},
        {"trainer": {"command": ["train.py"], "launcher": "torchrun"}},
        "launcher",
        "hosts that do not train",
    ),
    "Trainium with the reference trainer": (
        {"instance_type": "ml.trn1.32xlarge"},
        {},
        "instance_type",
        "not on Trainium",
    ),
}
"""What → of its target, of other sections, the end of the problem's path, words of it."""
