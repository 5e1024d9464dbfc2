"""``everstep watch``: what is shown at 80 columns and in a pipe, and what it survives.

The golden files are what people see: `python -m tests.cli.test_watch` writes them anew.
"""

import json
from io import StringIO
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from rich.console import Console
from typer.testing import CliRunner

from everstep.cli import watch
from everstep.cli.cloud import Cloud, LogEvent
from everstep.cli.errors import CliError
from everstep.cli.executions import Execution
from everstep.cli.main import app
from everstep.cli.watch_draw import Teller, screen, span, sparkline
from everstep.cli.watch_model import Picture, reading, thinned
from everstep.cli.watch_stage import DOES
from everstep.contracts.progress import Phase, format_line
from everstep.contracts.records import Launch, Run, RunStatus
from tests.cli import watched
from tests.cli.watched import MOMENTS, NOW, RUN_ID

GOLDEN = Path(__file__).parent / "golden"


def lines_of(p: Picture) -> str:
    return "\n".join([*Teller().lines(p), ""])


def screen_of(p: Picture) -> str:
    return screen(p, 80, 24).plain + "\n"


@pytest.mark.parametrize("moment", MOMENTS)
def test_golden_screens(moment: str) -> None:
    found = MOMENTS[moment]()
    assert screen_of(found) == (GOLDEN / f"watch-{moment}.screen.txt").read_text()
    assert lines_of(found) == (GOLDEN / f"watch-{moment}.pipe.txt").read_text()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 16), (132, 50), (80, 12)])
def test_one_screen_whatever_its_size(moment: str, width: int, height: int) -> None:
    lines = screen(MOMENTS[moment](), width, height).plain.splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_the_newest_launch_is_on_the_screen_that_is_short() -> None:
    shown = screen(MOMENTS["gave_up"](), 80, 15).plain.splitlines()
    assert [line.split()[0] for line in shown if "Failed" in line][-1] == "20"
    assert any("earlier" in line for line in shown)


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, coloured in ((None, True), ("1", False)):
        if variable:
            monkeypatch.setenv("NO_COLOR", variable)
        console = Console(force_terminal=True, width=80, color_system="standard")
        with console.capture() as shown:
            console.print(screen(MOMENTS["steps"]()))
        assert ("\x1b[3" in shown.get()) is coloured


def test_a_terminal_without_utf8_gets_ascii() -> None:
    shown = screen(MOMENTS["steps"](), ascii_only=True).plain.splitlines()
    assert shown[1].isascii()
    assert shown[2].isascii()


def test_a_pipe_gets_changes_and_steps_now_and_then() -> None:
    teller, first = Teller(), MOMENTS["steps"]()
    assert len(teller.lines(first)) == 3
    assert teller.lines(first) == []
    soon = first.model_copy(update={"step": 51_501, "now": NOW + 2})
    assert teller.lines(soon) == []
    later = soon.model_copy(update={"now": NOW + 31})
    (line,) = teller.lines(later)
    assert "step 51501/250000" in line
    away = later.model_copy(update={"trouble": "no answer"})
    assert teller.lines(away) == [f"{line[:9]}no answer"]
    assert teller.lines(away) == []
    assert teller.lines(later) == [f"{line[:9]}connected again"]


def test_what_a_diverged_trainer_prints_breaks_no_curve() -> None:
    assert thinned([1.0, float("nan"), 3.0, float("inf")], 10) == [1.0, 3.0]
    assert thinned([float(n) for n in range(10)], 5) == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert sparkline([], 10) == ""
    assert sparkline([2.0, 2.0], 10) == "▁▁"
    assert sparkline([1.0, 2.0, 3.0], 3) == "▁▅█" or sparkline([1.0, 2.0, 3.0], 3) == "▁▄█"


def test_spans_are_read_at_a_glance() -> None:
    words = [span(s) for s in (-5, 42, 720, 9000, 400_000)]
    assert words == ["0 s", "42 s", "12 min", "2.5 h", "4.6 days"]


def test_only_step_lines_are_readings() -> None:
    assert reading(1.0, "hello") is None
    assert reading(1.0, format_line("phase", phase="save", step=3)) is None
    found = reading(1.0, format_line("step", step=3, loss=2.5, tokens_per_s=100, mfu="n/a"))
    assert found is not None
    assert (found.step, found.loss, found.tokens_per_s, found.mfu) == (3, 2.5, 100.0, None)


def test_a_new_launch_does_not_show_the_last_steps_of_the_former_one() -> None:
    """Launch 2 is planned; every line in the log is launch 1's."""
    planned = watched.launch(2, resume_step=51_000, planned_epoch=NOW - 5)
    old = watched.readings(51_001, 51_200, NOW - 30_000)
    found = watched.shown(watched.run(), [watched.failed(1, watched.RETRY), planned], old)
    assert (found.step, found.attempts[-1].steps) == (51_000, "51000→")
    assert found.losses


def test_a_redriven_run_is_not_over_because_its_row_still_says_so() -> None:
    row = watched.run(status=RunStatus.GAVE_UP)
    assert not watched.shown(row, [watched.failed(1, watched.OVER)], execution="RUNNING").ended
    assert watched.shown(row, [watched.failed(1, watched.OVER)], execution="FAILED").ended


def test_a_job_that_says_nothing_is_next_to_be_stopped() -> None:
    """At three in the morning: is it alive, and if not, who does what and when?"""
    silent = watched.launch(
        2,
        resume_step=51_000,
        phase=Phase.STEP,
        phase_since_epoch=NOW - 400,
        started_epoch=NOW - 1500,
        max_runtime_seconds=432_000,
        planned_epoch=NOW - 2000,
        step_times=[2.0],
    )
    found = watched.shown(watched.run(), [silent], watched.readings(51_001, 51_200, NOW - 800))
    said = screen(found).plain
    assert "launch 2 trains, last step 7 min ago" in said
    assert "no new step: stopped as a hang, and started again, in 3 min" in said
    slow = silent.model_copy(update={"phase": Phase.WARMUP, "phase_since_epoch": NOW - 1800})
    found = watched.shown(watched.run(), [slow])
    assert found.doing == "launch 2 starts up: no step yet"
    assert (found.next, found.next_at) == ("stopped if it still starts up", NOW + 1800)


def test_who_looks_is_told_what_to_do_and_not_an_hour_of_arrival_that_will_not_be() -> None:
    said = screen(MOMENTS["gave_up"]()).plain
    assert "do     look at the hosts; docs/runbook.md#infrastructure" in said
    assert "do     nothing" in screen(MOMENTS["waits"]()).plain
    assert "\ndo " not in screen(MOMENTS["steps"]()).plain
    silent = watched.launch(1, phase=Phase.STEP, phase_since_epoch=NOW - 900, step_times=[2.0])
    assert watched.shown(watched.run(), [silent]).eta_seconds is None


def test_a_narrow_screen_has_the_class_rather_than_the_place() -> None:
    said = screen(MOMENTS["steps"](), 50, 24).plain
    assert "infrastructure" in said
    assert "16 × ml" not in said


def test_every_phase_has_words() -> None:
    assert set(DOES) == {None, *Phase}


def test_a_run_whose_history_is_gone_is_over(cloud: dict[str, Any]) -> None:
    """Ninety days after its end Step Functions knows nothing; the table does."""
    cloud["run"] = watched.run(status=RunStatus.GAVE_UP, note="gave up")
    found = watch.Watcher(Cloud("dev", clock=lambda: NOW), RUN_ID).look()
    assert (found.ended, found.status, found.state) == (True, "gave_up", "GiveUp")


def throttled() -> ClientError:
    error = {"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}
    return ClientError(error, "Query")


def denied() -> ClientError:
    return ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Query")


class Script:
    """A watcher that gives what it is told to, or raises it."""

    def __init__(self, *looks: Any) -> None:
        self._looks = iter(looks)

    def look(self) -> Picture:
        one = next(self._looks)
        if isinstance(one, Exception):
            raise one
        return one


def test_throttling_and_a_lost_connection_are_said_and_waited_for() -> None:
    gone, pauses = EndpointConnectionError(endpoint_url="https://x"), list[float]()
    script = Script(MOMENTS["steps"](), throttled(), gone, MOMENTS["steps"](), MOMENTS["done"]())
    seen = list(watch.looks(script, 3.0, pauses.append, lambda: NOW + 90))  # type: ignore[arg-type]
    said = "no answer since 00:53:20 UTC, what is shown is of then; asked again in"
    assert [p.trouble.partition(" s: ")[0] for p in seen] == ["", f"{said} 6", f"{said} 12", "", ""]
    assert seen[1].step == 51_500
    assert pauses == [3.0, 6.0, 12.0, 3.0]
    teller = Teller()
    teller.lines(seen[0])
    assert teller.lines(seen[1])[0].startswith("00:54:50 no answer since 00:53:20"), (
        "stamped with the time of the trouble, not of the last answer"
    )


def test_a_server_that_hangs_is_waited_for_aloud() -> None:
    """It takes the connection and says nothing: no error comes, for a while."""
    answers, steps = Event(), MOMENTS["steps"]()

    class Hangs(Script):
        def look(self) -> Picture:
            found = super().look()
            if found.ended:
                assert answers.wait(30)
            return found

    script = Hangs(steps, MOMENTS["done"]())
    seen = watch.looks(script, 3.0, lambda _: None, lambda: NOW + 7, 0.01)  # type: ignore[arg-type]
    assert next(seen) is steps
    for _ in range(2):
        waiting = next(seen)
        assert waiting.trouble.startswith("no answer since 00:53:20 UTC")
        assert (waiting.step, waiting.now) == (steps.step, NOW + 7)
    answers.set()
    *_, last = seen
    assert (last.status, last.trouble) == ("done", "")


def test_a_first_answer_that_does_not_come_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def look() -> Picture:
        while "no answer yet" not in said:
            said.extend(capsys.readouterr().err.partition(":")[:1])
        return MOMENTS["done"]()

    said: list[str] = []
    hangs = SimpleNamespace(look=look)
    (last,) = watch.looks(hangs, 3.0, lambda _: None, slow=0.01)  # type: ignore[arg-type]
    assert last.status == "done"


def test_no_question_of_a_watch_takes_longer_than_half_a_minute() -> None:
    config = Cloud("dev", tries=watch.TRIES, read_timeout=watch.READ_SECONDS)._config
    seconds = config.connect_timeout + config.read_timeout
    assert config.retries["max_attempts"] * seconds <= 40


@pytest.mark.parametrize("error", [denied(), NoCredentialsError()])
def test_what_does_not_pass_ends_it(error: Exception) -> None:
    script = Script(MOMENTS["steps"](), error)
    with pytest.raises(type(error)):
        list(watch.looks(script, 3.0, lambda _: None))  # type: ignore[arg-type]


def test_the_first_look_must_work() -> None:
    with pytest.raises(ClientError):
        list(watch.looks(Script(throttled()), 3.0, lambda _: None))  # type: ignore[arg-type]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run's rows, which a test changes between two looks."""
    state: dict[str, Any] = {"run": None, "launches": [], "events": [], "execution": None}
    monkeypatch.setattr(Cloud, "find_run", lambda *_: state["run"])
    monkeypatch.setattr(Cloud, "launches", lambda *_: state["launches"])
    monkeypatch.setattr(Cloud, "exports", lambda *_: [])
    monkeypatch.setattr(watch, "committed_step", lambda *_: 0)
    monkeypatch.setattr(Cloud, "log_events", lambda *_: state["events"])
    monkeypatch.setattr(watch.executions, "describe", lambda *_: state["execution"])
    monkeypatch.setattr(watch.executions, "find", lambda *_: state["execution"])
    return state


def test_each_log_line_is_one_reading_and_only_new_ones_are_asked_for(
    cloud: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def events(_: Cloud, job: str, since: float, pattern: str) -> list[LogEvent]:
        asked.append(since)
        text = format_line("step", step=7, loss=2.0)
        return [LogEvent(NOW - 3, "algo-1-1", text, "id-7")]

    monkeypatch.setattr(Cloud, "log_events", events)
    cloud["run"] = watched.run()
    cloud["launches"] = [watched.launch(1, planned_epoch=NOW - 9)]
    cloud["execution"] = Execution("arn", "RUNNING")
    watcher = watch.Watcher(Cloud("dev", clock=lambda: NOW), RUN_ID)
    first, second = watcher.look(), watcher.look()
    assert (first.step, first.losses, second.losses) == (7, [2.0], [2.0])
    assert asked == [NOW - 1800, NOW - 13]


def test_saved_is_what_the_bucket_and_the_log_say_before_the_table_does(
    cloud: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch's row learns of its checkpoints when it has ended: after days."""
    asked: list[int] = []

    def bucket(_: Cloud, run: Run, launches: list[Launch]) -> int:
        asked.append(len(launches))
        return 400

    monkeypatch.setattr(watch, "committed_step", bucket)
    cloud["run"], cloud["execution"] = watched.run(), Execution("arn", "RUNNING")
    cloud["launches"] = [watched.launch(1, planned_epoch=NOW - 9)]
    watcher = watch.Watcher(Cloud("dev", clock=lambda: NOW), RUN_ID)
    assert watcher.look().saved_step == 400
    text = format_line("committed", step=500, checkpoint="step-00000500.00001")
    cloud["events"] = [LogEvent(NOW - 1, "algo-1-1", text, "id-500")]
    assert watcher.look().saved_step == 500
    cloud["events"] = []
    assert watcher.look().saved_step == 500
    assert asked == [1]


def test_a_run_that_arrives_before_its_job_is_out_of_time_is_told_so() -> None:
    moment = MOMENTS["steps"]()
    assert moment.eta_seconds is not None
    assert moment.next == "arrives at its last step"
    assert moment.next_at == pytest.approx(NOW + moment.eta_seconds, abs=5)
    soon = watched.launch(1, started_epoch=NOW - 900, max_runtime_seconds=1000)
    late = watched.shown(watched.run(), [soon], watched.readings(1, 50))
    assert (late.next, late.next_at) == ("run time is over: goes on in a next job", NOW + 100)


def test_the_hosts_of_every_group_cost_while_they_run() -> None:
    group = {"name": "data", "instance_type": watched.TYPE, "count": 16}
    alone = watched.launch(1, started_epoch=NOW - 3600)
    both = watched.launch(1, started_epoch=NOW - 3600, groups=[group])
    shown = [watched.shown(watched.run(), [x]).spent for x in (alone, both)]
    assert [words.partition(" GPU")[0] for words in shown] == ["128.00", "256.00"]


def test_a_stopped_run_has_no_cause_to_mend() -> None:
    stopped = watched.run(status=RunStatus.STOPPED)
    found = watched.shown(stopped, [watched.launch(1)], execution="ABORTED")
    assert (found.state, found.next) == ("ABORTED", f"everstep retry {RUN_ID} goes on")


def test_a_narrow_screen_has_the_figures_and_no_bar() -> None:
    bar = screen(MOMENTS["steps"](), 45, 24).plain.splitlines()[1]
    assert bar == "20.6%  step 51500 of 250000  4.6 days left"


def test_json_is_an_object_a_change_and_the_exit_code_says_how_it_ended(
    cloud: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([MOMENTS["steps"](), MOMENTS["steps"](), MOMENTS["gave_up"]()])
    monkeypatch.setattr(watch.Watcher, "look", lambda _: next(moments))
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    done = CliRunner().invoke(app, ["watch", RUN_ID, "--json"])
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["status"] for one in seen] == ["running", "gave_up"]
    assert seen[0]["share"] == pytest.approx(0.206)
    assert done.exit_code == 1
    moments = iter([MOMENTS["done"]()])
    assert CliRunner().invoke(app, ["watch", RUN_ID]).exit_code == 0


def test_a_terminal_is_drawn_over_and_keeps_the_last_screen(
    cloud: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80, height=24, highlight=False)
    moments = iter([MOMENTS["steps"](), MOMENTS["done"]()])
    monkeypatch.setattr(watch, "Console", lambda **_: console)
    monkeypatch.setattr(watch.Watcher, "look", lambda _: next(moments))
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    assert CliRunner().invoke(app, ["watch", RUN_ID]).exit_code == 0
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert "20.6%" in drawn
    assert "100.0%" in drawn.rpartition("20.6%")[2]
    assert drawn.endswith("\x1b[?25h"), "the cursor is back"


def test_ctrl_c_leaves_the_run_alone_and_says_so(
    cloud: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.Watcher, "look", lambda _: MOMENTS["steps"]())
    monkeypatch.setattr(watch.time, "sleep", interrupted)
    done = CliRunner().invoke(app, ["watch", RUN_ID])
    assert done.exit_code == 130
    assert f"run {RUN_ID} goes on" in done.stderr.replace("\n", " ")


def test_a_run_that_is_not_there_or_was_refused(cloud: dict[str, Any]) -> None:
    with pytest.raises(CliError) as raised:
        CliRunner().invoke(app, ["watch", "nobody"], catch_exceptions=False)
    assert raised.value.code == 3
    cloud["execution"] = Execution("arn", "FAILED", "InvalidSpec", "stop.steps: is missing")
    done = CliRunner().invoke(app, ["watch", "refused"])
    assert done.exit_code == 1
    assert "stop.steps: is missing" in done.stderr


if __name__ == "__main__":
    for name, moment in MOMENTS.items():
        (GOLDEN / f"watch-{name}.screen.txt").write_text(screen_of(moment()))
        (GOLDEN / f"watch-{name}.pipe.txt").write_text(lines_of(moment()))
