"""``everstep plan``: what is printed is what the policy says; bad specs end in a hint."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from everstep.cli.errors import CliError
from everstep.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
RUN = CliRunner()


def planned(path: Path, *more: str) -> str:
    result = RUN.invoke(app, ["plan", str(path), *more])
    if result.exception is not None:
        raise result.exception
    return result.stdout


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
    assert "memory   not planned" in text


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
