"""The same figures in the progress line, TensorBoard and MLflow; traces of the steps asked for."""

import gzip
import json
import re
from pathlib import Path

import pytest

from everstep.contracts.flops import flops_per_token, peak_flops
from everstep.contracts.models import PRESETS
from everstep.contracts.progress import METRICS, metric_definitions
from tests.trainer.harness import Alone, of_kind
from trainer.errors import ConfigError


def test_a_step_line_has_every_metric_and_the_definitions_read_it(alone: Alone) -> None:
    lines = of_kind(alone(stop__steps=2), "step")
    known = [name for name in METRICS if name != "mfu"]  # no GPU, no peak to compare with
    assert [name for name in lines[-1] if name in METRICS] == known
    text = json.dumps(lines[-1], separators=(",", ":"))
    for definition in metric_definitions():
        found = re.search(definition["Regex"], text)
        name = definition["Name"].removeprefix("everstep:")
        assert (found is None) == (name == "mfu")
        if found:
            assert float(found[1]) == pytest.approx(lines[-1][name])
    assert lines[-1]["memory_gib"] > 0
    assert 0 < lines[-1]["data_seconds"] < lines[-1]["step_seconds"]


def test_stall_of_a_save_is_in_the_step_that_waited(alone: Alone) -> None:
    lines = of_kind(alone(stop__steps=5, checkpoint__every_steps=3), "step")
    assert [line["step"] for line in lines if line["save_seconds"] > 0] == [4]


def test_tensorboard_holds_what_the_lines_say(alone: Alone, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="an optional module of the trainer")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = of_kind(
        alone(env={"output_uri": str(tmp_path)}, stop__steps=3, report__tensorboard="true"), "step"
    )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    for name in ("loss", "tokens_per_s", "grad_norm", "lr"):
        seen = [(e.step, e.value) for e in events.Scalars(name)]
        assert seen == [(line["step"], pytest.approx(line[name])) for line in lines]


def test_mlflow_keeps_one_run_over_launches(alone: Alone, tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="an optional module of the trainer")
    from mlflow.tracking import MlflowClient

    uri = (tmp_path / "mlruns").as_uri()
    first = alone(env={"run_id": "r1"}, stop__steps=3, report__mlflow=uri)
    second = alone(env={"run_id": "r1", "launch": 2}, stop__steps=6, report__mlflow=uri)
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("everstep")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(run.info.run_id, "loss")
    steps = of_kind(first, "step") + of_kind(second, "step")
    assert [(m.step, m.value) for m in history] == [(s["step"], s["loss"]) for s in steps]
    assert run.data.params["train.lr"] == "0.003"


def test_an_unreachable_tracking_server_costs_no_step(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="an optional module of the trainer")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    lines = alone(stop__steps=2, report__mlflow="http://127.0.0.1:9")
    assert of_kind(lines, "done")


def test_a_place_that_needs_a_missing_module_is_refused(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install mlflow"):
        alone(stop__steps=2, report__mlflow="file:///tmp/x")


def test_the_trace_covers_the_steps_asked_for(alone: Alone, tmp_path: Path) -> None:
    alone(env={"output_uri": str(tmp_path)}, stop__steps=4, report__profile="2-3")
    path = tmp_path / "00001" / "profile" / "steps-2-3-rank-00000.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()))
    updates = [e for e in trace["traceEvents"] if e.get("name") == "Optimizer.step#AdamW.step"]
    assert len(updates) == 2


@pytest.mark.parametrize(
    ("field", "steps", "said"),
    [("profile", "3-2", "ends before it begins"), ("memory_snapshot", "1-2", "no GPU")],
)
def test_what_cannot_be_recorded_is_refused(
    alone: Alone, field: str, steps: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        alone(stop__steps=2, **{f"report__{field}": steps})


def test_flops_of_published_models() -> None:
    """Llama 2 7B, 4,096 tokens: 6 × 6.6e9 matrix parameters + 12 · 32 · 4096 · 4096."""
    model = PRESETS["llama2-7b"]
    assert flops_per_token(model, 4096) == pytest.approx(6 * 6.607e9 + 6.44e9, rel=1e-3)
    assert flops_per_token(model, 4096, frozen=True) == pytest.approx(
        4 * 6.607e9 + 6.44e9, rel=1e-3
    )
    assert peak_flops("NVIDIA H100 80GB HBM3") == 989e12
    assert peak_flops("NVIDIA A100-SXM4-40GB") == 312e12
    assert peak_flops("Tesla T4") is None
