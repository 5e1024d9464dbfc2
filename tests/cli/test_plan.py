"""``everstep plan``: what is printed is what the policy says; bad specs end in a hint."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from everstep.cli.errors import CliError
from everstep.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
RUN = CliRunner()


def planned(path: Path, *more: str) -> str:
    """Service Quotas is asked only where ``more`` says so."""
    asks = [] if "--quotas" in more else ["--no-quotas"]
    result = RUN.invoke(app, ["plan", str(path), *asks, *more])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_a_small_run_is_not_rounded_to_nothing() -> None:
    shown = planned(ROOT / "examples" / "tiny.json", "--tokens-per-s", "1000", "--json")
    found = json.loads(shown)["compute"][0]["figures"]["gpu_hours"]
    assert 0 < found["value"] < 1
    assert found["text"] == f"{found['value']:.3g} host hours"


def test_json_holds_mesh_memory_and_verdict() -> None:
    found: dict[str, Any] = json.loads(planned(ROOT / "examples" / "llama2-7b.json", "--json"))
    first = found["compute"][0]
    assert found["parameters"] == 6_738_415_616
    assert first["mesh"] == {"pipeline": 1, "replicate": 1, "shard": 32, "tensor": 1}
    memory = first["memory_bytes"]
    assert memory["total"] == sum(v for k, v in memory.items() if k != "total")
    assert first["fits"] == (memory["total"] <= first["gpu_bytes"])


@pytest.mark.parametrize("name", ["llama2-7b", "llama2-13b", "llama2-70b"])
def test_the_examples_fit_their_machines(name: str) -> None:
    for place in json.loads(planned(ROOT / "examples" / f"{name}.json", "--json"))["compute"]:
        assert place["fits"], place["would_fit"]


def test_a_person_reads_lines() -> None:
    text = planned(ROOT / "examples" / "tiny.json")
    assert "ranks" in text
    assert "not planned: no GPU" in text


BIG = ROOT / "examples" / "llama2-70b.json"
FORETOLD = {
    "tokens": "1.05 T tokens",
    "tokens_per_s": "tokens/s, at MFU 0.4, assumed",
    "step_seconds": " s",
    "training_seconds": " d ",
    "checkpoint_bytes": "770.9 GiB",
    "checkpoint_host_bytes": "48.2 GiB of host memory",
    "checkpoint_interval_seconds": "Daly's optimum of a 6.3 s stall",
    "expected_failures": "over the run",
    "expected_goodput": "the rest: restart",
    "duration_seconds": " d ",
    "on_demand_usd_hour": "63.30 USD (list price, 2026-09-01)",
    "spot_usd_hour": "11.25 to 55.04 USD",
    "plan_usd_hour": "41.53 USD (EC2 Capacity Blocks, 2026-07-22)",
    "gpu_hours": "",
    "cost_usd": " M USD (",
    "quota: ml.p5.48xlarge for training job usage": "needs 16, held: not asked (--no-quotas)",
    "quota: ml.p5.48xlarge for training warm pool usage": "needs 16",
    "quota: Number of instances across all training jobs": "needs 16",
    "quota: Maximum number of instances per training job": "needs 16",
    "quota: Longest run time for a training job": "needs 432000",
}


@pytest.fixture(scope="module")
def big() -> dict[str, Any]:
    (place,) = json.loads(planned(BIG, "--json"))["compute"]
    return dict(place)


def test_all_of_a_70b_run_is_foretold_with_its_sources(big: dict[str, Any]) -> None:
    figures = big["figures"]
    assert set(figures) == set(FORETOLD)
    for name, words in FORETOLD.items():
        assert words in figures[name]["text"], name
        assert len(figures[name]["source"]) > 10, name
    assert (big["ranks"], big["fits"]) == (128, True)
    # torch_facts: the states of 70B on 128 ranks are 2.01 + 4.02 GiB; tests/trainer/test_memory.py
    # holds the same arithmetic to the elements on a true-size mesh.
    assert big["memory_bytes"]["parameters"] == pytest.approx(68_976_648_192 * 4 / 128, rel=0.01)
    assert big["memory_bytes"]["optimizer"] == pytest.approx(68_976_648_192 * 8 / 128, rel=0.01)


def test_figures_hang_together(big: dict[str, Any]) -> None:
    value = {name: figure["value"] for name, figure in big["figures"].items()}
    training = value["tokens"] / value["tokens_per_s"]
    assert value["training_seconds"] == pytest.approx(training)
    assert value["step_seconds"] == pytest.approx(training / 250_000)
    assert value["duration_seconds"] == pytest.approx(training / value["expected_goodput"])
    hours = value["duration_seconds"] / 3600 * 16
    assert value["gpu_hours"] == pytest.approx(8 * hours)
    cost = value["cost_usd"]
    assert cost["expected"] == pytest.approx(hours * 63.296)
    assert cost["low"] < cost["expected"] < cost["high"]
    assert cost["high"] / cost["low"] >= 0.45 / 0.30
    assert 5 < value["expected_failures"] < 100  # 1,714 node-days at 2.3 to 13.9 a thousand
    assert 0.9 < value["expected_goodput"] < 1


def test_a_person_reads_every_figure_and_its_source() -> None:
    text = planned(BIG, "--explain")
    plain = planned(BIG)
    figures = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert figures == [line for line in plain.splitlines() if line]
    assert text.count("   from: ") == len(figures)
    for words in FORETOLD.values():
        assert words in plain
    assert "fits                   yes" in plain


def test_what_is_measured_goes_before_what_is_assumed() -> None:
    (place,) = json.loads(planned(BIG, "--json", "--tokens-per-s", "100000"))["compute"]
    figures = place["figures"]
    assert figures["tokens_per_s"]["value"] == 100_000
    assert "measured" in figures["tokens_per_s"]["text"]
    cost = figures["cost_usd"]["value"]
    assert cost["high"] / cost["low"] < 1.2  # no MFU in its range
    half = json.loads(planned(BIG, "--json", "--mfu", "0.2"))["compute"][0]["figures"]
    assert half["tokens_per_s"]["text"].endswith("at MFU 0.2")


def test_a_budget_that_ends_the_run_is_said(tmp_path: Path) -> None:
    raw = json.loads(BIG.read_text())
    raw["budget"] = {"max_usd": 1_000_000}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(raw))
    assert "it ends the run before its last step" in planned(path)


def test_quotas_are_compared_where_they_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        def __init__(self, *clients: Any) -> None: ...

        def values(self) -> dict[str, float]:
            return {"ml.p5.48xlarge for training job usage": 8.0}

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("everstep.cli.plan.Quotas", Held)
    text = planned(BIG, "--quotas")
    assert "ml.p5.48xlarge for training job usage: needs 16, held 8: too small" in text
    assert "held: no such quota is listed" in text

    def refuse(self: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListServiceQuotas")

    monkeypatch.setattr(Held, "values", refuse)
    assert "held: not asked (AWS said: " in planned(BIG, "--quotas")
    monkeypatch.setattr("everstep.cli.cloud.Cloud.can_ask", False)
    assert "held: not asked (no credentials here)" in planned(BIG, "--quotas")


def test_what_cannot_be_foretold_says_what_would_help() -> None:
    text = planned(ROOT / "examples" / "tiny.json")
    assert "not foretold" in text
    assert "0.12 USD (list price" in text
    explained = planned(ROOT / "examples" / "tiny.json", "--explain")
    assert "say --tokens-per-s" in explained


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--rates", "never"), "unknown rates 'never'"),
        (("--mfu", "0.4", "--tokens-per-s", "5"), "both --mfu and --tokens-per-s"),
    ],
)
def test_flags_that_make_no_sense_are_refused(more: tuple[str, ...], says: str) -> None:
    with pytest.raises(CliError, match=says):
        planned(BIG, *more)


def test_a_stack_that_cannot_be_planned_is_refused() -> None:
    with pytest.raises(CliError, match="'nope' is not in config/") as raised:
        RUN.invoke(app, ["plan", "--stack", "--env", "nope"], catch_exceptions=False)
    assert raised.value.code == 2
    with pytest.raises(CliError, match="both a spec and --stack"):
        planned(ROOT / "examples" / "tiny.json", "--stack")


def test_a_spec_that_cannot_fit_is_refused(tmp_path: Path) -> None:
    raw = json.loads((ROOT / "examples" / "llama2-70b.json").read_text())
    raw["parallelism"] = {"sharding": "NO_SHARD"}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(CliError, match="parameters and optimizer need"):
        planned(path)
