"""``everstep simulate``: figures that add up, inputs with their sources, bad input refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from everstep.cli import simulate_view
from everstep.simulate.inputs import load_inputs, load_rates, rate_names
from everstep.simulate.run import PARTS
from everstep.simulate.study import Row
from tests.cli.test_errors import ROOT, check_refused, everstep

QUICK = ("simulate", "--gpus", "1024", "--days", "10", "--seeds", "3")


def test_json_adds_up_and_names_its_sources() -> None:
    done = everstep(*QUICK, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["gpus"] == 1024
    assert told["nodes"] == 128
    rows = {row["name"]: row for row in told["rows"]}
    assert {
        "no auto-retry",
        "RetryStrategy only",
        "Everstep, 3 h saves",
        "Everstep",
        "oracle",
        "Everstep, auto, hot",
        "oracle, hot",
    } <= set(rows)
    assert "Everstep, auto saves" not in rows  # the spec gives no interval: it is the row above
    for row in rows.values():
        assert set(row["parts"]) == set(PARTS)
        assert sum(row["parts"].values()) == pytest.approx(1)
        assert row["goodput"] == pytest.approx(row["parts"]["useful"])
        assert row["low"] <= row["goodput"] <= row["high"]
    assert rows["no auto-retry"]["goodput"] < rows["Everstep"]["goodput"]
    assert rows["Everstep"]["goodput"] < rows["oracle"]["goodput"]
    assert told["interval"]["daly"] <= told["interval"]["young"]
    assert any(x["name"] == "halve the restart time" and x["gain"] > 0 for x in told["levers"])
    for name, figure in told["inputs"].items():
        assert figure["source"], name


def test_the_end_of_a_run_time_is_not_what_broke(capsys: pytest.CaptureFixture[str]) -> None:
    parts = dict.fromkeys(PARTS, 0.0)
    row = Row("Everstep", None, 1, 1, 1, 1, 1, parts, 12.0, 5.0, {}, 0.0, {})
    simulate_view._policies(SimpleNamespace(rows=[row]))  # type: ignore[arg-type]
    head, line = capsys.readouterr().out.splitlines()[:2]
    shown = dict(zip(head.split()[-4:], line.split()[-3:], strict=False))
    assert (shown["broke"], line.split()[-2]) == ("7", "5")


def test_a_person_sees_every_input_and_where_it_is_from() -> None:
    done = everstep(*QUICK)
    assert done.returncode == 0, done.stderr
    for name, figure in load_inputs().items():
        assert f"{name} " in done.stdout
        assert f"{figure.kind}: {figure.source}" in done.stdout
    assert load_rates("llama3").source in done.stdout
    assert "points behind" in done.stdout or "behind the oracle" in done.stdout
    assert "Daly" in done.stdout
    assert "Young" in done.stdout


def test_every_input_says_how_it_is_known() -> None:
    for name, figure in load_inputs().items():
        assert figure.kind in {"measured", "published", "reported", "code", "assumed"}, name
        assert 0 <= figure.low <= figure.high, name
        assert len(figure.source) > 15, name
    assert all(load_rates(name).source for name in rate_names())


def test_a_specs_own_settings_are_simulated(tmp_path: Path) -> None:
    spec = json.loads((ROOT / "examples" / "llama2-70b.json").read_text())
    spec["checkpoint"] = {"every_minutes": 7}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    done = everstep("simulate", "--spec", str(file), "--days", "5", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["nodes"] == spec["compute"][0]["nodes"]
    rows = {row["name"]: row for row in told["rows"]}
    assert rows["Everstep"]["interval_minutes"] == 7
    assert "Everstep, bare spec" not in rows


def test_an_input_is_replaced() -> None:
    done = everstep(*QUICK, "--json", "--set", "stall=1", "--set", "person=60")
    told = json.loads(done.stdout)["inputs"]
    assert told["stall"] == {"low": 1.0, "high": 1.0, "kind": "given", "source": "by you"}
    assert told["person"]["high"] == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rates", "meta"), "unknown rates 'meta'"),
        (("--rates", "-3"), "unknown rates '-3'"),
        (("--rates", "nan"), "unknown rates 'nan'"),
        (("--checkpoint-minutes", "inf"), "inf is no number"),
        (("--rates", "999999", "--days", "1000", "--gpus", "16384"), "failures a run"),
        (("--spares", "cold"), "unknown spares 'cold'"),
        (("--gpus", "1000000"), "1 to 5000 hosts"),
        (("--gpus", "0"), "1 to 5000 hosts"),
        (("--instance-type", "ml.p5.48xl"), "unknown instance type 'ml.p5.48xl'"),
        (("--set", "stal=1"), "unknown input 'stal'"),
        (("--set", "stall=fast"), "'fast' is no number"),
        (("--set", "stall"), "is no number"),
        (("--set", "share_hang=2"), "share_hang"),
        (("--spec", "no/such.json"), "No such file"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], said: str) -> None:
    check_refused(everstep("simulate", *arguments), 2, said)


def test_a_bad_spec_is_refused_with_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"modle": "tiny"}')
    check_refused(everstep("simulate", "--spec", str(file)), 2, "did you mean 'model'?")
