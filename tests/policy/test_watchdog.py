"""Each phase's budget; what is progress and what only looks like it; restarts by the service."""

from typing import Any

import pytest

from everstep.contracts.failures import StopReason
from everstep.contracts.progress import Phase, format_line
from everstep.contracts.run_spec import Watch
from everstep.policy.watchdog import (
    Line,
    Seen,
    idles,
    judge,
    observe,
    quiet_since,
    silent,
    step_budget,
    straggles,
)

WATCH = Watch(
    pending=10,
    starting=20,
    downloading=30,
    warmup=40,
    step=50,
    validation=60,
    save=70,
    uploading=80,
    stopping=90,
)
T = 1_000_000.0


def line(at: float, kind: str = "step", **fields: Any) -> Line:
    return Line(T + at, format_line(kind, **fields))


def phase(at: float, name: str) -> Line:
    return line(at, "phase", phase=name)


def training(*lines: Line, seen: Seen | None = None, since: float = 0) -> Seen:
    return observe(seen or Seen(), "Training", T + since, lines)


def stop_at(seen: Seen, at: float) -> StopReason | None:
    return judge(WATCH, "InProgress", seen, T + at).stop


BUDGETS = [
    (observe(Seen(), "Pending", T, []), 10, StopReason.START_TIMEOUT),
    (observe(Seen(), "Starting", T, []), 20, StopReason.START_TIMEOUT),
    (observe(Seen(), "Downloading", T, []), 30, StopReason.START_TIMEOUT),
    (training(), 40, StopReason.HANG),
    (training(line(0, step=1)), 50, StopReason.HANG),
    (training(phase(0, "validation")), 60, StopReason.HANG),
    (training(phase(0, "save")), 70, StopReason.HANG),
    (observe(Seen(), "Uploading", T, []), 80, StopReason.HANG),
    (training(line(0, step=1), phase(0, "stopping")), 90, StopReason.HANG),
]


@pytest.mark.parametrize(("seen", "budget", "reason"), BUDGETS)
def test_each_phase_has_its_budget(seen: Seen, budget: int, reason: StopReason) -> None:
    assert stop_at(seen, budget) is None
    assert stop_at(seen, budget + 1) is reason


def test_every_phase_of_the_words_has_a_budget() -> None:
    assert {p.value for p in Phase} <= set(Watch.model_fields)


def test_the_words_for_a_person_name_phase_step_and_budget() -> None:
    detail = judge(WATCH, "InProgress", training(line(0, step=12)), T + 51).detail
    assert detail == "51 s in phase step after step 12, budget watch.step is 50 s"


@pytest.mark.parametrize("status", ["Completed", "Failed", "Stopped"])
def test_an_ended_job_is_only_over(status: str) -> None:
    verdict = judge(WATCH, status, training(), T + 10**6)
    assert (verdict.terminal, verdict.stop) == (True, None)


def test_a_job_that_the_service_is_stopping_is_not_stopped_again() -> None:
    seen = observe(training(line(0, step=1)), "Stopping", T + 60, [])
    assert judge(WATCH, "Stopping", seen, T + 10**6).stop is None


def test_a_trainer_that_freezes_while_it_stops_itself_is_a_hang() -> None:
    seen = training(line(0, step=9), phase(1, "stopping"))
    assert stop_at(seen, 92) is StopReason.HANG


# --- progress ----------------------------------------------------------------------------------


def test_a_step_is_progress() -> None:
    seen = training(line(0, step=1), line(45, step=2), line(90, step=3))
    assert (seen.last_step, seen.progress_epoch, seen.first_step_epoch) == (3, T + 90, T)
    assert stop_at(seen, 140) is None


def test_the_same_step_printed_again_is_no_progress() -> None:
    seen = training(line(0, step=7), *(line(i, step=7) for i in range(1, 60)))
    assert stop_at(seen, 51) is StopReason.HANG


def test_logging_without_stepping_is_no_progress() -> None:
    noise = [Line(T + i, f"INFO still alive {i}") for i in range(60)]
    noise += [phase(i, "step") for i in range(60)] + [line(i, "metrics", step=i) for i in range(60)]
    assert stop_at(training(line(0, step=7), *noise), 51) is StopReason.HANG


def test_a_phase_said_again_does_not_renew_its_budget() -> None:
    seen = training(*(phase(i, "save") for i in range(0, 70, 5)))
    assert stop_at(seen, 71) is StopReason.HANG


def test_looking_twice_at_the_same_lines_changes_nothing() -> None:
    lines = [line(0, step=1), line(5, step=2), phase(5, "save"), phase(9, "step"), line(12, step=3)]
    for count in range(len(lines) + 1):
        once = training(*lines[:count])
        again = [x for x in lines[:count] if x.time_epoch >= (once.progress_epoch or 0)]
        assert training(*again, seen=once) == once


def test_a_look_every_minute_sees_what_one_look_at_the_end_sees() -> None:
    lines = [
        phase(1, "warmup"),
        line(10, step=1),
        line(70, step=2),
        phase(80, "save"),
        line(130, step=3),
        phase(200, "validation"),
    ]
    seen = Seen()
    for minute in range(5):
        known = [
            x
            for x in lines
            if x.time_epoch <= T + 60 * minute and x.time_epoch >= (seen.progress_epoch or 0)
        ]
        seen = training(*known, seen=seen)
    assert seen == training(*lines)


# --- the service -------------------------------------------------------------------------------


def test_an_unknown_secondary_status_is_not_terminal_and_changes_nothing() -> None:
    seen = training(line(0, step=7))
    after = observe(seen, "Levitating", T + 30, [])
    assert after == seen
    assert not judge(WATCH, "InProgress", after, T + 40).terminal
    assert judge(WATCH, "Levitating", after, T + 40).stop is None


def test_under_an_unknown_secondary_status_a_step_is_still_progress() -> None:
    seen = observe(training(line(0, step=7)), "Levitating", T + 30, [line(49, step=8)])
    assert stop_at(seen, 98) is None


def test_nothing_known_is_never_stopped() -> None:
    assert stop_at(observe(Seen(), "Levitating", T, []), 10**9) is None


def test_after_an_hour_away_a_job_is_judged_by_the_times_in_its_log() -> None:
    first = training(line(0, step=0))
    healthy = training(*(line(i * 40, step=i) for i in range(1, 91)), seen=first)
    assert stop_at(healthy, 3600 + 40) is None
    frozen = training(line(40, step=1), seen=training(line(0, step=0)))
    assert stop_at(frozen, 3600) is StopReason.HANG


def test_a_restart_by_the_service_gets_the_budgets_of_a_start_again() -> None:
    seen = training(line(0, step=500))
    seen = observe(seen, "Starting", T + 100, [line(1, step=501)])
    assert (seen.phase, seen.progress_epoch, seen.last_step) == (Phase.STARTING, None, 500)
    assert stop_at(seen, 119) is None
    seen = training(since=150, seen=seen)
    assert (seen.phase, seen.phase_since_epoch) == (Phase.WARMUP, T + 150)


def test_lines_from_before_a_restart_are_not_the_restarted_jobs() -> None:
    old = [line(0, step=500), phase(1, "save")]
    seen = observe(training(*old), "Starting", T + 100, [])
    seen = training(*old, since=1000, seen=seen)
    assert seen.phase is Phase.WARMUP
    assert stop_at(seen, 1030) is None


def test_a_restart_that_no_one_saw_begin_is_a_restart_too() -> None:
    seen = training(since=1000, seen=training(line(0, step=500)))
    assert (seen.phase, seen.phase_since_epoch) == (Phase.WARMUP, T + 1000)
    assert stop_at(seen, 1040) is None


def test_after_a_restart_the_first_step_counts_even_if_it_was_done_before() -> None:
    seen = observe(training(line(0, step=500)), "Starting", T + 100, [])
    seen = training(line(200, step=500), since=150, seen=seen)
    assert (seen.phase, seen.progress_epoch) == (Phase.STEP, T + 200)


def test_starting_over_several_statuses_is_one_budget() -> None:
    seen = observe(Seen(), "Starting", T, [])
    for at, name in ((5, "LaunchingMLInstances"), (15, "PreparingTrainingStack")):
        seen = observe(seen, name, T + at, [])
    assert stop_at(seen, 21) is StopReason.START_TIMEOUT


# --- budgets from the run's own steps, silence, stragglers, idle GPUs --------------------------


OWN = Watch(step_factor=10, step_floor=100, step_ceiling=1000)


def steps_of(*seconds: float) -> Seen:
    return training(*(line(i, step=i, step_seconds=s) for i, s in enumerate(seconds)))


@pytest.mark.parametrize(
    ("seconds", "budget"),
    [((), 1000), ((1, 2, 3), 100), ((20, 30, 400), 300), ((500,), 1000)],
)
def test_a_steps_budget_is_a_multiple_of_the_median_between_floor_and_ceiling(
    seconds: tuple[float, ...], budget: int
) -> None:
    assert step_budget(OWN, steps_of(*seconds).step_times) == budget


def test_an_explicit_step_budget_wins() -> None:
    assert step_budget(OWN.model_copy(update={"step": 7}), [100.0]) == 7


def test_only_the_newest_steps_count_and_bad_figures_do_not() -> None:
    seen = steps_of(*([9.0] * 30), *([1.0] * 30))
    assert seen.step_times == [1.0] * 21
    bad = training(line(0, step=1, step_seconds="x"), line(1, step=2, step_seconds=-1))
    assert bad.step_times == []


def test_the_words_say_where_a_budget_of_our_own_comes_from() -> None:
    verdict = judge(OWN, "InProgress", steps_of(20, 30, 40), T + 2 + 301)
    assert verdict.stop is StopReason.HANG
    assert "10 × the median of 30 s a step" in str(verdict.detail)


def test_a_restart_that_no_one_saw_has_the_whole_start_up_budget_again() -> None:
    seen = observe(Seen(), "Starting", T, [])
    same = observe(seen, "Starting", T + 19, [])
    assert stop_at(same, 21) is StopReason.START_TIMEOUT
    again = observe(seen, "Starting", T + 19, [], restarts=1)
    assert stop_at(again, 21) is None
    assert stop_at(again, 40) is StopReason.START_TIMEOUT
    assert again.service_restarts == 1


def report(at: float, rank: int = 3, ratio: float = 2.0) -> Line:
    return line(at, "straggler", rank=rank, ratio=ratio)


FIVE = [report(t) for t in range(1, 6)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (FIVE, True),
        (FIVE[:4], False),
        ([*FIVE[:4], report(5, rank=4)], False),
        ([*FIVE[:4], report(5, ratio=1.2)], False),
        ([*FIVE[:2], report(3, ratio=1.0), *FIVE[3:]], False),
        ([*FIVE[:4], FIVE[3]], False),
        ([report(t * 2000) for t in range(5)], False),
        ([line(t, "straggler", rank="3", ratio=2) for t in range(9)], False),
    ],
)
def test_a_straggler_is_one_rank_past_the_threshold_in_reports_in_a_row(
    lines: list[Line], found: bool
) -> None:
    verdict = straggles(Watch(), training(*lines))
    assert (verdict is not None) is found
    if verdict is not None:
        assert verdict.stop is StopReason.STRAGGLER
        assert "rank 3 took 2.00 × the median step in 5 reports" in str(verdict.detail)


def test_a_report_that_is_read_twice_counts_once() -> None:
    seen = training(*FIVE[:3])
    assert training(*FIVE[:3], seen=seen).slow_reports == 3


@pytest.mark.parametrize(
    ("busy", "after", "found"),
    [
        (0.0, 1800, True),
        (5.0, 1800, True),
        (5.1, 1800, False),
        (None, 1800, False),
        (0.0, 60, False),
    ],
)
def test_idle_gpus_are_those_of_a_trainer_that_says_it_steps(
    busy: float | None, after: float, found: bool
) -> None:
    seen = training(line(0, step=1), line(after - 1, step=2))
    verdict = idles(Watch(), seen, busy, T + after)
    assert (verdict is not None) is found
    saving = training(line(0, step=1), phase(after - 1, "save"))
    assert idles(Watch(), saving, busy, T + after) is None
    assert idles(Watch(idle=None), seen, busy, T + after) is None


def test_silence_is_asked_for_only_where_the_spec_says_and_a_container_runs() -> None:
    watch = Watch(silence=100)
    assert quiet_since(watch, training(), T + 101) == T + 1
    assert quiet_since(watch, training(), T + 99) is None
    assert quiet_since(watch, training(line(50, step=1)), T + 101) is None
    assert quiet_since(watch, observe(Seen(), "Starting", T, []), T + 10**6) is None
    assert quiet_since(Watch(), training(), T + 10**6) is None
    assert "no host logged a line for 100 s" in str(silent(watch, training()).detail)


@pytest.mark.parametrize(("seen", "budget", "stop"), BUDGETS)
def test_what_may_wait_for_files_names_the_file_system(
    seen: Seen, budget: int, stop: StopReason
) -> None:
    verdict = judge(WATCH, "InProgress", seen, T + budget + 1, file_system="fs-0123")
    assert verdict.stop is stop
    assert verdict.detail is not None
    without = (Phase.PENDING, Phase.STARTING, Phase.UPLOADING, Phase.STOPPING)
    assert ("on fs-0123" in verdict.detail) == (seen.phase not in without)


@pytest.mark.parametrize(
    "said", ["1e999", "Infinity", "NaN", "1e300", "9" * 400, "9" * 5000, "true", '"2"', "null"]
)
def test_no_figure_that_a_program_prints_reaches_a_row_that_cannot_hold_it(said: str) -> None:
    """DynamoDB takes neither an infinity nor a NaN, nor more than 38 digits."""
    seen = training(
        Line(T, f'{{"everstep":"step","step":3,"step_seconds":{said}}}'),
        Line(T, f'{{"everstep":"straggler","rank":1,"ratio":{said}}}'),
        Line(T, f'{{"everstep":"step","step":{"9" * 400}}}'),
        Line(T, '{"everstep":"step","step":4,"x":' + "[" * 100_000),
    )
    assert (seen.last_step, seen.step_times, seen.slow_ratio) == (3, [], Seen().slow_ratio)
