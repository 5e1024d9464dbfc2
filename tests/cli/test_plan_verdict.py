"""``everstep plan`` and ValidateSpec refuse the same specs, in the same words."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everstep.cli import plan
from everstep.cli.errors import CliError
from everstep.contracts.payloads import Start, State, Team
from lambdas.aws.services import Services
from lambdas.validate_spec import handler

NOW = 1_800_000_000.0
PRICES = {"ml.p5.48xlarge": 63.3, "ml.m5.large": 0.1}
TEAM = Team(
    name="team",
    job_role_arn="arn:aws:iam::123456789012:role/job",
    data_uri="s3://data/team",
    checkpoint_uri="s3://checkpoints/team",
    output_uri="s3://output/team",
    image_repository="123456789012.dkr.ecr.us-east-1.amazonaws.com/everstep",
)
places = st.fixed_dictionaries(
    {
        "instance_type": st.sampled_from(
            ["ml.p5.48xlarge", "ml.p4d.24xlarge", "ml.g5.48xlarge", "ml.m5.large", "ml.none"]
        ),
        "nodes": st.sampled_from([1, 2, 3, 16]),
    }
)
sizes = st.sampled_from([1, 2, 3, 4, 8])
specs = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["tiny", "llama2-7b", "llama2-70b", "llama3.1-405b", "unknown"]),
        "data": st.sampled_from(["corpus", "/no prefix"]),
        "stop": st.fixed_dictionaries({"steps": st.sampled_from([0, 10])}),
        "compute": st.lists(places, min_size=1, max_size=2),
        "train": st.fixed_dictionaries(
            {"global_batch": st.sampled_from([8, 100, 1024])},
            optional={"dtype": st.sampled_from(["bf16", "fp8"]), "sequence_length": st.just(4096)},
        ),
    },
    optional={
        "parallelism": st.fixed_dictionaries(
            {},
            optional={
                "tensor": sizes,
                "pipeline": sizes,
                "sharding": st.sampled_from(["FULL_SHARD", "HYBRID_SHARD", "NO_SHARD"]),
            },
        ),
        "trainer": st.just({"command": ["python", "mine.py"]}),
        "unknown": st.just(1),
    },
)


def planned(raw: Any, path: Path) -> str | None:
    path.write_text(json.dumps(raw))
    try:
        plan._checked(path)
    except CliError as error:
        return error.what
    return None


def validated(raw: Any) -> str | None:
    start = Start(execution_arn="arn", execution_name="a-run", team=TEAM, input=raw)
    env = SimpleNamespace(heartbeat_seconds=10, prices_usd=PRICES)
    services = SimpleNamespace(env=env, clock=lambda: NOW, checkpoints=None)
    step = handler.act(start, cast(Services, services))
    return str(step["message"]) if step["next"] == State.REFUSE_SPEC else None


@pytest.fixture
def _all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the cloud knows: data, weights, the run's row."""
    for name in ("dataset_problems", "weights_problems", "begin_problems"):
        monkeypatch.setattr(handler, name, lambda *_: [])
    monkeypatch.setattr(handler, "goes_on", lambda *_: None)
    monkeypatch.setattr(handler, "register", lambda *_: {"next": State.CHECK_QUOTA})


@pytest.mark.usefixtures("_all_is_there")
@given(raw=specs)
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_one_verdict_on_any_spec(raw: Any, tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    said, refused = planned(raw, path), validated(raw)
    assert (said is None) == (refused is None)
    if said is not None and refused is not None:
        assert said.splitlines()[1:] == refused.splitlines()[1:]  # the first names the file


@pytest.mark.usefixtures("_all_is_there")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parallelism": {"sharding": "NO_SHARD"}}, "parameters and optimizer need"),
        ({"model": "llama3.1-405b", "nodes": 1}, "a checkpoint's copy needs"),
        ({}, None),
    ],
)
def test_each_kind_of_refusal_is_reached(
    change: dict[str, Any], words: str | None, tmp_path: Path
) -> None:
    """So that the property above does not compare silence with silence."""
    where = {"instance_type": "ml.p5.48xlarge", "nodes": change.pop("nodes", 16)}
    raw = {
        "model": "llama2-70b",
        "data": "corpus",
        "stop": {"steps": 10},
        "train": {"global_batch": 128},
        "compute": [where],
        **change,
    }
    said, refused = planned(raw, tmp_path / "spec.json"), validated(raw)
    if words is None:
        assert said is refused is None
    else:
        assert words in (said or "")
        assert words in (refused or "")
