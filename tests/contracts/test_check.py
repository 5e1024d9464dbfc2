"""check_spec: every problem at once, each with path, value and hint; and no secret said again."""

import json
from typing import Any

import pytest

from everstep.contracts.check import check_spec, resolve_model
from everstep.contracts.mesh import mesh_of
from everstep.contracts.problems import Problem, describe
from everstep.contracts.training_spec import Parallelism
from tests.contracts.wrong_specs import BAD, P5, SMALLEST, spec


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
