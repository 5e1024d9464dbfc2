"""``everstep plan``: what is printed is what the policy says; bad specs end in a hint."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from everstep.cli.errors import CliError
from everstep.cli.main import app
from everstep.policy.own_file_system import PRICE

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
    "first_start_seconds": "26 min",
    "duration_seconds": " d ",
    "on_demand_usd_hour": "63.30 USD (list price, 2026-09-27)",
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
    start = value["first_start_seconds"]
    assert start == pytest.approx(1500 + 75 + 35)  # the middles of the simulator's ranges
    assert value["duration_seconds"] == pytest.approx(start + training / value["expected_goodput"])
    hours = (value["duration_seconds"] - start) / 3600 * 16
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


def figures_of(tmp_path: Path, changes: dict[str, Any], source: Path = BIG) -> dict[str, Any]:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({**json.loads(source.read_text()), **changes}))
    return dict(json.loads(planned(path, "--json"))["compute"][0]["figures"])


def test_a_type_without_a_known_price_costs_unknown_not_nothing(tmp_path: Path) -> None:
    found = figures_of(tmp_path, {"compute": [{"instance_type": "ml.p5e.48xlarge", "nodes": 16}]})
    for name in ("on_demand_usd_hour", "spot_usd_hour", "plan_usd_hour", "cost_usd"):
        assert found[name]["value"] is None, name
        assert found[name]["text"].startswith("unknown"), name


def test_each_limit_of_a_budget_is_told_in_hosts_time(tmp_path: Path) -> None:
    """16 hosts × 8 GPUs at 63.296 USD a host-hour, for more than a hundred days."""
    short = {"max_usd": 0.01, "max_gpu_hours": 128, "deadline": "2020-01-01T00:00:00Z"}
    found = figures_of(tmp_path, {"budget": short})
    assert found["budget_usd"]["value"]["seconds"] == pytest.approx(0.01 / 16 / 63.296 * 3600)
    assert found["budget_gpu_hours"]["text"].startswith("128 GPU hours: 1 h of these hosts; it")
    assert found["budget_deadline"]["value"]["seconds"] < 0
    for name in ("budget_usd", "budget_gpu_hours", "budget_deadline"):
        assert "it ends the run before its last step" in found[name]["text"]
    assert found["budget_usd"]["text"].startswith("0.01 USD: ")
    assert "refused: no price is configured for ml.p5.48xlarge" in found["budget_usd"]["text"]
    assert "; refused: has passed" in found["budget_deadline"]["text"]
    assert "refused" not in found["budget_gpu_hours"]["text"]
    ample = figures_of(tmp_path, {"budget": {"max_gpu_hours": 1e6}})["budget_gpu_hours"]
    assert "ends" not in ample["text"]


def test_a_budget_is_counted_on_demand_whatever_is_bought(tmp_path: Path) -> None:
    spot = {"instance_type": "ml.p5.48xlarge", "nodes": 16, "purchase": "spot"}
    found = figures_of(tmp_path, {"compute": [spot], "budget": {"max_usd": 1_500_000}})
    assert found["cost_usd"]["value"]["expected"] < 1_500_000  # at spot's price it would do
    assert "it ends the run" in found["budget_usd"]["text"]


def test_a_budget_pays_for_the_file_system_too(tmp_path: Path) -> None:
    """2,400 GiB at 0.14 USD a month, beside 16 hosts at 63.296 USD an hour."""
    data = {"prefix": "datasets/c4", "mode": "fsx", "scratch_gib": 2400}
    found = figures_of(tmp_path, {"data": data, "budget": {"max_usd": 1000}})["budget_usd"]
    hour = 16 * 63.296 + 2400 * 0.14 / 730
    assert found["value"]["seconds"] == pytest.approx(1000 / hour * 3600)
    assert found["source"].endswith("its own file system's")


def test_a_budget_that_validate_spec_refuses_is_refused_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Config prices the hosts, not the file system."""
    monkeypatch.setattr("everstep.cli.plan.prices", lambda _: {"ml.p5.48xlarge": 60.0})
    data = {"prefix": "datasets/c4", "mode": "fsx", "scratch_gib": 2400}
    found = figures_of(tmp_path, {"data": data, "budget": {"max_usd": 1000}})["budget_usd"]
    assert f"refused: no price is configured for {PRICE}" in found["text"]


def test_a_budget_is_told_where_nothing_else_is_foretold(tmp_path: Path) -> None:
    tiny = ROOT / "examples" / "tiny.json"
    found = figures_of(tmp_path, {"budget": {"max_gpu_hours": 2}}, tiny)
    assert found["budget_gpu_hours"]["text"] == "2 GPU hours: 1 h of these hosts"


def test_what_another_run_has_done_is_not_done_again(tmp_path: Path, big: dict[str, Any]) -> None:
    begin = {"checkpoint": "former/step-00200000.00001"}
    left = figures_of(tmp_path, {"start": begin})
    for name in ("tokens", "training_seconds"):
        assert left[name]["value"] == pytest.approx(big["figures"][name]["value"] / 5)
    weights = figures_of(tmp_path, {"start": {**begin, "weights_only": True}})
    assert weights["tokens"] == big["figures"]["tokens"]


def test_a_long_simulation_is_announced_and_spot_has_its_own_source(tmp_path: Path) -> None:
    raw = json.loads(BIG.read_text())
    raw["compute"] = [{"instance_type": "ml.p5.48xlarge", "nodes": 64, "purchase": "spot"}]
    raw["stop"]["steps"] = 4_000_000
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(raw))
    done = RUN.invoke(app, ["plan", str(path), "--no-quotas", "--json"], catch_exceptions=False)
    assert "simulating 20 runs on 64 hosts for " in done.stderr
    figures = json.loads(done.stdout)["compute"][0]["figures"]
    assert "; spot: AWS: fewer than 5 %" in figures["expected_goodput"]["source"]


def test_the_hint_of_what_cannot_fit_would_help(tmp_path: Path) -> None:
    """More copies on more hosts are as large as before."""
    path = tmp_path / "spec.json"
    raw = {**json.loads(BIG.read_text()), "parallelism": {"sharding": "NO_SHARD"}}
    path.write_text(json.dumps(raw))
    with pytest.raises(CliError) as raised:
        planned(path)
    assert "hint: FULL_SHARD, or parallelism.tensor" in str(raised.value)


def test_a_file_system_of_its_own_is_in_the_price(tmp_path: Path, big: dict[str, Any]) -> None:
    """GiB × hours × USD a GiB and month ÷ 730, here with the table's price: config has none."""
    data = {"prefix": "datasets/c4", "mode": "fsx", "scratch_gib": 2400}
    found = figures_of(tmp_path, {"data": data})
    hours = found["gpu_hours"]["value"] / (16 * 8)
    own = found["file_system_usd"]["value"]
    assert own == pytest.approx(2400 * hours * 0.14 / 730)
    assert "not confirmed" in found["file_system_usd"]["source"]
    cost, without = (of["cost_usd"]["value"]["expected"] for of in (found, big["figures"]))
    assert cost == pytest.approx(without + own)
    assert "file_system_usd" not in big["figures"]


def test_no_rate_is_told_where_the_peak_is_another_types(tmp_path: Path) -> None:
    """An H100's plain fp32 is a fifteenth of its bf16, TF32 is off: MFU 0.4 would be a fable."""
    train = json.loads(BIG.read_text())["train"]
    found = figures_of(tmp_path, {"train": {**train, "dtype": "fp32"}})
    assert found["tokens_per_s"]["value"] is None
    assert "fp32" in found["tokens_per_s"]["source"]
    assert "cost_usd" not in found


def test_of_a_program_of_ones_own_no_checkpoint_is_foretold(tmp_path: Path) -> None:
    found = figures_of(tmp_path, {"trainer": {"command": ["python", "mine.py"]}})
    assert found["checkpoint_bytes"]["value"] is None
    assert "checkpoint_interval_seconds" not in found
    assert found["on_demand_usd_hour"]["value"] == 63.296


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
    assert "0.115 USD (list price" in text
    assert "2.6 MiB" in text
    assert "checkpoint.every_steps 10; a step's time is not foretold" in text
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


def test_goodput_is_the_simulators(big: dict[str, Any]) -> None:
    """The same spec, days, step and runs, asked the other way."""
    value = {name: figure["value"] for name, figure in big["figures"].items()}
    days, step = value["training_seconds"] / 86_400, value["step_seconds"]
    asked = ["--spec", str(BIG), "--days", repr(days), "--set", f"step={step!r}", "--rates"]
    result = RUN.invoke(app, ["simulate", *asked, "usual", "--seeds", "20", "--json"])
    assert result.exception is None
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["Everstep"]["goodput"] == pytest.approx(value["expected_goodput"])
