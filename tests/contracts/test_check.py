"""check_spec: every problem at once, each with path, value and hint; and no secret said again."""

import copy
import json
from typing import Any

import pytest

from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.mesh import mesh_of
from everstep.contracts.models import PRESETS
from everstep.contracts.problems import Problem, describe
from everstep.contracts.training_spec import Parallelism

SMALLEST: dict[str, Any] = {
    "model": "tiny",
    "data": "datasets/stdlib",
    "compute": [{"instance_type": "ml.m5.large"}],
    "stop": {"steps": 100},
}


def spec(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SMALLEST), **changes}


def problems_of(raw: Any) -> list[Problem]:
    return check_spec(raw)[1]


def only(raw: Any) -> Problem:
    found, problems = check_spec(raw)
    assert found is None
    assert len(problems) == 1, describe(problems)
    return problems[0]


def test_the_smallest_spec_is_shorter_than_ten_lines_and_good() -> None:
    assert len(json.dumps(SMALLEST, indent=2).splitlines()) > 5
    text = (
        '{"model": "tiny",\n "data": "datasets/stdlib",\n'
        ' "compute": [{"instance_type": "ml.m5.large"}],\n "stop": {"steps": 100}}'
    )
    assert len(text.splitlines()) < 10
    found, problems = check_spec(json.loads(text))
    assert problems == []
    assert found is not None
    assert found.stop.steps == 100
    assert found.model.preset == "tiny"


P5 = {"instance_type": "ml.p5.48xlarge", "nodes": 2}


def _mesh(**parallelism: int) -> dict[str, Any]:
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
    ("kv heads", spec(model="llama2-70b", **_mesh(tensor=16)), "parallelism.tensor", 16),
    (
        "vocabulary",
        spec(model={"preset": "llama2-7b", "vocab_size": 32001}, **_mesh(tensor=8)),
        "parallelism.tensor",
        8,
    ),
    (
        "sequence",
        spec(model="llama2-7b", **_mesh(tensor=8), train={"sequence_length": 4100}),
        "parallelism.tensor",
        8,
    ),
    ("layers", spec(**_mesh(pipeline=4)), "parallelism.pipeline", 4),
    ("stages", spec(**_mesh(pipeline=2, virtual_stages=2)), "parallelism.pipeline", 2),
    ("nothing to interleave", spec(**_mesh(virtual_stages=2)), "parallelism.virtual_stages", 2),
    (
        "tied embeddings",
        spec(
            model={"config": PRESETS["tiny"].model_dump() | {"tied_embeddings": True}},
            **_mesh(pipeline=2),
        ),
        "parallelism.pipeline",
        2,
    ),
    (
        "microbatches",
        spec(
            model="llama2-7b",
            **_mesh(pipeline=8),
            train={"global_batch": 8, "micro_batch": 1},
        ),
        "train.global_batch",
        8,
    ),
    (
        "rounds",
        spec(
            model="llama2-7b",
            **_mesh(pipeline=8, virtual_stages=2),
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
            **_mesh(tensor=2),
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
        spec(model="llama2-7b", **_mesh(tensor=2), train={"dtype": "fp8", "global_batch": 256}),
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


@pytest.mark.parametrize(("raw", "path", "value"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_input_is_refused_with_path_value_and_hint(raw: Any, path: str, value: Any) -> None:
    problem = only(raw)
    assert problem.path == path
    assert problem.hint
    assert problem.message
    if value is not None:
        assert problem.value == value


@pytest.mark.parametrize("raw", [None, [], "text", 3, True, [["deep"]]])
def test_what_is_no_object_is_refused_with_an_example(raw: Any) -> None:
    problem = only(raw)
    assert problem.path == "$"
    assert check_spec(json.loads(problem.hint.partition(": ")[2]))[0] is not None


@pytest.mark.parametrize("name", ["model", "data", "compute", "stop"])
def test_a_missing_section_is_named_with_an_example(name: str) -> None:
    raw = spec()
    del raw[name]
    problem = only(raw)
    assert (problem.path, problem.message) == (name, "is required")
    example = json.loads("{" + problem.hint.removeprefix("add ") + "}")
    assert check_spec({**raw, **example})[0] is not None


def test_every_problem_is_found_at_once() -> None:
    raw = {
        "modle": "tiny",
        "data": "/x",
        "compute": [{"instance_type": "ml.p9.large"}, {"instance_type": "ml.m5.large", "nodes": 0}],
        "stop": {"steps": -1},
        "train": {"lr": 0, "unknown": 1},
    }
    paths = {p.path for p in problems_of(raw)}
    assert paths == {
        "modle",
        "model",
        "data.prefix",
        "compute.1.nodes",
        "stop.steps",
        "train.lr",
        "train.unknown",
    }


def test_rules_across_fields_speak_beside_errors_of_shape() -> None:
    paths = {p.path for p in problems_of(spec(model="nope", stop={"steps": 0}))}
    assert paths == {"model.preset", "stop.steps"}


def test_a_typo_gets_the_word_that_was_meant() -> None:
    assert "'steps'" in next(
        p.hint for p in problems_of(spec(stop={"stepz": 1})) if p.path == "stop.stepz"
    )
    assert "ml.p5.48xlarge" in only(spec(compute=[{"instance_type": "ml.p5.48xlrge"}])).hint
    assert "llama2-7b" in only(spec(model="lama2-7b")).hint


def test_a_text_about_very_many_problems_stays_short() -> None:
    raw = spec(**{f"field{i}": "x" * 500 for i in range(2000)}, **{"y" * 100_000: 1})
    assert len(describe(problems_of(raw))) <= 20_000


# --- secrets ---------------------------------------------------------------------------------

TOKEN = "hf_" + "a" * 34
KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
WORD = "correct-horse-battery"

LEAKS: list[tuple[str, Any, str]] = [
    ("in the environment by form", spec(trainer={"environment": {"A": TOKEN}}), TOKEN),
    ("in the environment by name", spec(trainer={"environment": {"DB_PASSWORD": WORD}}), WORD),
    ("a number by name", spec(trainer={"environment": {"DB_PASSWORD": 91827364}}), "91827364"),
    ("in hyperparameters", spec(trainer={"hyperparameters": {"wandb_api_key": WORD}}), WORD),
    ("in tags", spec(tags={"owner": KEY}), KEY),
    ("in an unknown field", spec(hf_token=WORD), WORD),
    ("in an unknown field, nested", spec(extra={"deep": [{"secret": WORD}]}), WORD),
    ("in an unknown field of a section", spec(stop={"steps": 1, "api_key": WORD}), WORD),
    ("in the command", spec(trainer={"command": ["python", f"--key={TOKEN}"]}), TOKEN),
    ("in a field of another type", spec(stop={"steps": TOKEN}), TOKEN),
    ("as the preset", spec(model=TOKEN), TOKEN),
    ("as the instance type", spec(compute=[{"instance_type": KEY}]), KEY),
    ("as a key", spec(tags={TOKEN: "x"}), TOKEN),
    ("as an unknown section", spec(**{TOKEN: 1}), TOKEN),
    ("as the whole input", TOKEN, TOKEN),
    ("in a list that is the whole input", [{"token": WORD}], WORD),
    (
        "a private key",
        spec(
            trainer={
                "environment": {
                    "PEM": f"-----BEGIN RSA PRIVATE KEY-----\n{WORD}\n-----END RSA PRIVATE KEY-----"
                }
            }
        ),
        WORD,
    ),
    (
        "beside an error of the same section",
        spec(trainer={"imag": 1, "environment": {"GITHUB_TOKEN": WORD}}),
        WORD,
    ),
    ("in a section of a wrong kind", spec(train=[TOKEN]), TOKEN),
]


@pytest.mark.parametrize(("raw", "secret"), [x[1:] for x in LEAKS], ids=[x[0] for x in LEAKS])
def test_a_literal_secret_is_refused_and_never_said_again(raw: Any, secret: str) -> None:
    found, problems = check_spec(raw)
    assert found is None
    assert any("secret" in p.message for p in problems)
    said = describe(problems) + repr(problems) + "".join(p.model_dump_json() for p in problems)
    assert secret not in said


@pytest.mark.parametrize(
    "environment",
    [
        {"TOKENIZERS_PARALLELISM": "false"},
        {"TOKENIZER": "llama"},
        {"MAX_TOKEN": "4096"},
        {"eos_token": "<|endoftext|>"},
        {"HF_TOKEN": "arn:aws:secretsmanager:us-east-1:111122223333:secret:hf-AbCdEf"},
        {"WANDB_API_KEY": "arn:aws:ssm:us-east-1:111122223333:parameter/wandb"},
        {"HF_TOKEN": ""},
    ],
)
def test_a_reference_or_a_word_like_token_is_no_secret(environment: dict[str, str]) -> None:
    assert problems_of(spec(trainer={"environment": environment})) == []


# --- helpers that others use -------------------------------------------------------------------


def test_a_hint_does_not_say_what_is_done_already() -> None:
    assert (
        "multiple of replicate × tensor × pipeline = 3"
        in only(spec(compute=[P5], parallelism={"replicate": 3})).hint
    )
    assert "leave parallelism.shard out" in only(spec(compute=[P5], parallelism={"shard": 3})).hint


def test_shard_takes_what_the_other_dimensions_leave() -> None:
    assert mesh_of(Parallelism(replicate=2), 16) == (1, 2, 8, 1)
    assert mesh_of(Parallelism(replicate=2, shard=8), 16) == (1, 2, 8, 1)
    assert mesh_of(Parallelism(replicate=3), 16) is None
    assert mesh_of(Parallelism(replicate=32), 16) is None


def test_a_preset_takes_the_vocabulary_and_dropout_of_the_spec() -> None:
    found, _ = check_spec(spec(model={"preset": "tiny", "vocab_size": 77, "dropout": 0.1}))
    assert found is not None
    shape = resolve_model(found.model)
    assert (shape.vocab_size, shape.dropout, shape.dim) == (77, 0.1, 64)
