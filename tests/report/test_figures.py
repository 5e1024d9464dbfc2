"""Figures add up, whatever the rows and lines are; each second and each step is in one place."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everstep.contracts.failures import DecisionKind, FailureClass
from everstep.contracts.progress import format_line
from everstep.contracts.records import Launch, RunStatus
from everstep.policy.goodput import goodput, loss_curve
from everstep.report.build import report
from everstep.report.elements import data, document, h, raw
from everstep.report.figures import Report
from everstep.report.page import page
from everstep.report.steps import StepLine, step_lines, thinned, times
from everstep.report.waterfall import Part
from tests.report import browser, sample

ASSETS = browser.HERE.parents[1] / "everstep" / "report" / "assets"


def made(**more: Any) -> Report:
    launches, lines = sample.three_failures()
    arguments: dict[str, Any] = {
        "now": sample.START + 20_000,
        "ended": sample.START + 10_120,
        "prices_usd": sample.PRICES,
        **more,
    }
    return report(sample.run(), launches, [], lines, **arguments)


def test_a_job_that_runs_is_paid_for_so_far() -> None:
    """Else the first job of a run, which may last for days, would cost nothing, and the goodput of
    the second would be above one."""
    launches, lines = sample.three_failures()
    last = launches[-1]
    began = last.planned_epoch + 60
    running = last.model_copy(update={"outcome": None, "started_epoch": began})
    row = sample.run(status=RunStatus.RUNNING)
    now = began + 3600
    found = report(row, [*launches[:-1], running], [], lines, now=now, prices_usd=sample.PRICES)
    before = sum(x.billable_seconds for x in found.attempts[:-1])
    assert found.attempts[-1].billable_seconds == 3600
    assert found.goodput.paid_seconds == before + 3600
    assert found.spend.usd == pytest.approx((before + 3600) / 3600 * 4 * 60)


def test_a_run_that_a_person_stopped_has_nothing_to_mend() -> None:
    found = report(sample.run(status=RunStatus.STOPPED), [], [], {}, now=sample.START + 9)
    assert found.advice.startswith("nothing")


def test_a_run_that_was_stopped_between_two_launches_was_not_ended_by_the_failure_before() -> None:
    launches, lines = sample.three_failures()
    launches = launches[:-1]
    assert launches[-1].failure is not None
    note = "stopped by a person: everstep stop, or Stop execution in the console"
    run = sample.run(RunStatus.STOPPED, note=note)
    found = report(run, launches, [], lines, now=sample.START + 9000)
    assert found.cause is None
    assert note in found.headline
    assert found.advice.startswith("nothing")


def test_every_second_of_the_sample_is_where_it_belongs() -> None:
    found = made()
    # 400 steps of 10 s at last; 101–130 and 201–240 were lost; seven steps waited 2 s for a save.
    seconds = {
        Part.USEFUL: 4000,
        Part.RECOMPUTED: 700,
        Part.CHECKPOINT: 14,
        Part.START: 300,
        Part.RESTART: (1700 - 1602) + (2000 - 1700) + (4150 - 4100) + (8000 - 7705),
        Part.WAITING: (4300 - 4150) + (7705 - 4300),
        Part.HANG: 4100 - 3404,
        Part.OTHER: 10_120 - 10_006,
    }
    assert found.waterfall == pytest.approx(seconds, abs=3)
    assert found.total_seconds == 10_120
    assert (found.failures, found.goodput.steps_lost) == (3, 70)
    assert found.goodput.useful_seconds == 4000
    billed = sum(x.billable_seconds for x in found.attempts)
    assert found.goodput.paid_seconds == billed
    assert found.spend.usd == pytest.approx(billed / 3600 * 4 * 60)
    assert found.spend.gpu_hours == pytest.approx(billed / 3600 * 32)
    assert found.tokens == 400 * sample.TOKENS
    assert [(r.launch, r.step) for r in found.curve.resumes] == [(2, 100), (3, 200), (4, 200)]
    assert [(s[0].step, s[-1].step) for s in found.curve.again] == [(101, 130), (201, 240)]


def test_goodput_and_losses_are_those_of_status() -> None:
    launches, lines = sample.three_failures()
    found = made()
    assert found.goodput == goodput(launches, times(lines), found.written_epoch)
    assert {p.step: p.loss for p in found.curve.points} == loss_curve(times(lines))


seconds = st.floats(min_value=-1e4, max_value=1e6, allow_nan=False)
few = st.floats(min_value=0, max_value=5000, allow_nan=False)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Launch], dict[int, list[StepLine]]]:
    """Launches and lines with clocks that disagree, holes, doubles and steps that go back."""
    launches, lines = [], {}
    for number in range(1, draw(st.integers(0, 5)) + 1):
        kind = draw(st.sampled_from([None, *FailureClass]))
        one = sample.launch(
            number,
            draw(seconds),
            draw(seconds),
            draw(st.integers(0, 50)),
            sample.failure(kind, "x") if kind else None,
            kind=draw(st.sampled_from(list(DecisionKind))),
            first_step_epoch=draw(st.none() | seconds),
            progress_epoch=draw(st.none() | seconds),
        )
        if draw(st.booleans()):
            one = one.model_copy(update={"outcome": None, "settled_epoch": None})
        launches.append(one)
        at = sample.START + draw(seconds)
        lines[number] = [
            StepLine(at + i * draw(few), draw(st.integers(0, 60)), draw(few), draw(few), 1.0)
            for i in range(draw(st.integers(0, 6)))
        ]
    return launches, lines


@given(
    rows=rows(),
    ended=st.none() | seconds,
    status=st.sampled_from(RunStatus),
    waited=st.floats(0, 1e5),
)
def test_parts_sum_to_the_whole_and_none_is_negative(
    rows: tuple[list[Launch], dict[int, list[StepLine]]],
    ended: float | None,
    status: RunStatus,
    waited: float,
) -> None:
    launches, lines = rows
    found = report(
        sample.run(status, waited_seconds=waited),
        launches,
        [],
        lines,
        now=sample.START + 1e6,
        ended=None if ended is None else sample.START + ended,
    )
    assert all(value >= 0 for value in found.waterfall.values())
    assert sum(found.waterfall.values()) == pytest.approx(found.total_seconds, abs=1e-3)
    at = found.created_epoch
    for span in found.spans:
        assert span.begin == at
        assert sum(span.parts.values()) == pytest.approx(span.end - span.begin, abs=1e-3)
        at = span.end
    assert not found.spans or at == found.ended_epoch
    page(found)


def test_a_hand_made_report_that_does_not_add_up_is_refused() -> None:
    wrong = made().model_dump()
    wrong["waterfall"][Part.USEFUL] += 1
    with pytest.raises(ValueError, match="parts sum to"):
        Report.model_validate(wrong)


def test_json_is_read_back_as_it_was() -> None:
    found = made()
    assert Report.model_validate_json(found.model_dump_json()) == found


def test_a_restart_in_the_job_is_restart_and_its_steps_are_recomputed() -> None:
    first = sample.steps(100, 1, 20)
    again = sample.steps(400, 11, 30)
    found = report(
        sample.run(final_step=30),
        [sample.launch(1, 0, 700, 0)],
        [],
        {1: [*first, *again]},
        now=sample.START + 700,
        ended=sample.START + 700,
    )
    assert found.waterfall[Part.RECOMPUTED] == pytest.approx(100)
    assert found.waterfall[Part.USEFUL] == pytest.approx(300)
    assert found.waterfall[Part.RESTART] == pytest.approx(100)
    assert [(s[0].step, s[-1].step) for s in found.curve.again] == [(11, 20)]


def test_a_run_without_a_log_says_so_and_still_adds_up() -> None:
    launches, _ = sample.three_failures()
    ran = [x.model_copy(update={"last_step": 99}) for x in launches]
    found = report(sample.run(), ran, [], {}, now=sample.START + 20_000)
    assert "no step lines of launch 1, 2, 3, 4" in found.notes[0]
    assert found.waterfall[Part.USEFUL] == 0
    assert "No step was told" in page(found)


def test_what_a_trainer_prints_may_be_anything() -> None:
    printed = [
        (1.0, "log text"),
        (4.0, format_line("step", step=3, loss=math.nan, step_seconds=math.inf, tokens=True)),
        (2.0, format_line("step", step=1, loss=2.5, step_seconds="fast", tokens_per_s=None)),
        (3.0, 'prefix {"everstep":"step","step":2,"step_seconds":-1} suffix'),
        (5.0, format_line("phase", phase="save", step=3)),
        (6.0, format_line("step", loss=1.0)),
    ]
    found = step_lines(printed)
    assert [(x.step, x.loss, x.seconds, x.tokens) for x in found] == [
        (1, 2.5, 0.0, None), (2, None, 0.0, None), (3, None, 0.0, None)
    ]  # fmt: skip
    whole = report(
        sample.run(), [sample.launch(1, 0, 60, 0)], [], {1: found}, now=sample.START + 60
    )
    assert whole.curve.not_finite == [2, 3]
    assert json.loads(json.dumps(whole.model_dump(mode="json"), allow_nan=False))


def test_figures_out_of_all_bounds_neither_end_the_report_nor_fill_the_page() -> None:
    printed = [(300.0, format_line("step", step=1, loss=1e300, tokens=10**400, step_seconds=1e300))]
    (line,) = step_lines(printed)
    assert (line.loss, line.tokens) == (1e300, None)
    own = line._replace(time_epoch=sample.START + 300)
    found = report(sample.run(), [sample.launch(1, 0, 600, 0)], [], {1: [own]}, now=sample.START)
    assert found.goodput_ratio is None  # more step time than there was
    assert "1e+300" in page(found)
    assert "0" * 100 not in page(found)


def test_a_thousand_lost_stretches_are_drawn_with_as_few_points_as_one() -> None:
    launches, lines = [], {}
    for n in range(1, 301):
        begin = n * 700.0
        launches.append(sample.launch(n, begin, begin + 600, n, sample.HOST))
        lines[n] = sample.steps(begin + 100, n, n + 40)
    found = report(sample.run(), launches, [], lines, now=sample.START + 300_000)
    assert len(found.curve.again) == 299
    assert sum(map(len, found.curve.again)) <= 1200
    assert all(s[0].step < s[-1].step for s in found.curve.again)
    assert [r.step for r in found.curve.resumes] == list(range(1, 301))


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(4, 60))
def test_thinning_keeps_ends_and_extremes(losses: list[float | None], most: int) -> None:
    points = [StepLine(float(i), i, loss=loss) for i, loss in enumerate(losses)]
    kept = thinned(points, most)
    assert len(kept) <= max(most, 4)
    assert kept == sorted(kept, key=lambda p: p.step)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    known = [loss for loss in losses if loss is not None]
    if known:
        told = [p.loss for p in kept if p.loss is not None]
        assert (max(told), min(told)) == (max(known), min(known))


def test_secrets_in_spec_and_environment_are_hidden() -> None:
    run = sample.run()
    trainer = run.spec.trainer.model_copy(
        update={
            "environment": {"WANDB_API_KEY": "0123456789abcdef", "MODE": "fast"},
            "command": ["python", "train.py", "--api-key=abcdef123456"],
        }
    )
    run = run.model_copy(update={"spec": run.spec.model_copy(update={"trainer": trainer})})
    text = page(report(run, [], [], {}, now=sample.START + 1))
    assert "0123456789abcdef" not in text
    assert "abcdef123456" not in text
    assert "WANDB_API_KEY" in text
    assert "fast" in text


@given(st.text())
def test_no_text_ends_its_element(text: str) -> None:
    whole = document(h("body", h("p", text, title=text), data({"x": text}, "x")))
    assert whole.count("<p ") == whole.count("</p>") == 1
    assert whole.count("<script") == whole.count("</script>") == 1
    inside = whole.partition('id="x">')[2].partition("</script>")[0]
    assert json.loads(inside) == {"x": text}
    whole.encode()


def test_a_script_of_ours_that_would_end_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="ends it"):
        raw("script", "x = '</SCRIPT>'")


def test_the_chart_library_is_the_packages_own() -> None:
    """The copy that handlers carry: a new version of the package asks for a new copy."""
    lock = json.loads((browser.HERE / "package-lock.json").read_text())
    version = lock["packages"]["node_modules/uplot"]["version"]
    assert (
        (ASSETS / "uPlot.iife.min.js")
        .read_text()
        .startswith(f"/*! https://github.com/leeoniya/uPlot (v{version}) */")
    )
    package = browser.HERE / "node_modules" / "uplot" / "dist"
    if why := browser.lacking():
        pytest.skip(why)  # no Chromium: make test installs it
    for name in ("uPlot.iife.min.js", "uPlot.min.css"):
        assert (ASSETS / name).read_bytes() == (package / name).read_bytes()
    licence = (package.parent / "LICENSE").read_text()
    assert (ASSETS / "uPlot-LICENSE.txt").read_text() == licence
    assert licence in page(made())


def test_locks_name_no_registry() -> None:
    text = (browser.HERE / "package-lock.json").read_text()
    assert "http://" not in text
    assert '"resolved"' not in text
