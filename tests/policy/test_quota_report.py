"""The report's text, whole."""

from typing import Any

from everstep.contracts.increases import Held, Increase
from everstep.contracts.records import Run
from everstep.contracts.run_spec import RunSpec
from everstep.policy.quota import LONGEST_RUN, PER_JOB, TOTAL
from everstep.policy.quota_report import Report, report, rows_of
from tests.policy.test_job_request import EXECUTION, TEAM

P5 = "ml.p5.48xlarge for training job usage"
G5 = "ml.g5.48xlarge for training job usage"
HELD = {LONGEST_RUN: 432_000, PER_JOB: 20, TOTAL["on_demand"]: 20, P5: 8, G5: 0}


def run(run_id: str, *compute: dict[str, Any]) -> Run:
    spec = {"model": "tiny", "data": "d", "stop": {"steps": 1}, "compute": list(compute)}
    return Run(
        run_id=run_id,
        execution_arn=EXECUTION,
        team=TEAM,
        spec=RunSpec.model_validate(spec),
        created_epoch=0,
    )


def p5(nodes: int) -> dict[str, Any]:
    return {"instance_type": "ml.p5.48xlarge", "nodes": nodes}


def made(
    runs: list[Run], waiting: set[str], used: dict[str, float], *increases: Increase
) -> Report:
    held = {name: Held(name=name, value=value, code="L-1") for name, value in HELD.items()}
    rows = rows_of(runs, frozenset(waiting), held, used)
    return report(rows, increases, len(runs), len(waiting))


def test_no_runs_is_nothing_to_say() -> None:
    found = made([], set(), {})
    assert not found.worth_saying
    assert found.text == "0 runs in progress, 0 of them waiting.\n\nNothing is short."


def test_room_for_all_is_nothing_to_say_and_still_a_whole_report() -> None:
    found = made([run("a", p5(4))], set(), {P5: 4, TOTAL["on_demand"]: 4})
    assert not found.worth_saying
    assert (
        found.text
        == """\
1 run in progress, 0 of them waiting.

quota                                             held    in use   waiting     short
Longest run time for a training job             432000         0         0         -
Maximum number of instances per training job        20         0         0         -
Number of instances across all training jobs        20         4         0         -
ml.p5.48xlarge for training job usage                8         4         0         -

Nothing is short."""
    )


def test_what_is_short_comes_first_with_the_figures_and_what_was_asked_for() -> None:
    runs = [
        run("training", p5(6)),
        run("waits", p5(4), {"instance_type": "ml.g5.48xlarge", "nodes": 2}),
        run("too-big", p5(9)),
    ]
    asked = Increase(
        quota=P5,
        code="L-1",
        desired=9,
        request_id="r1",
        case_id="c7",
        status="CASE_OPENED",
        asked_by="too-big",
        asked_epoch=0,
        checked_epoch=0,
    )
    found = made(runs, {"waits", "too-big"}, {P5: 6, TOTAL["on_demand"]: 6}, asked)
    assert found.subject == "quotas: 2 short, 1 increase under way"
    assert found.text == GOLDEN


GOLDEN = """\
3 runs in progress, 2 of them waiting.

quota                                             held    in use   waiting     short
ml.g5.48xlarge for training job usage                0         0         0         2
ml.p5.48xlarge for training job usage                8         6        13        11
Longest run time for a training job             432000         0    432000         -
Maximum number of instances per training job        20         0         9         -
Number of instances across all training jobs        20         6        13         -

Never fits 'ml.g5.48xlarge for training job usage' = 0: one job needs 2 (waits).
Never fits 'ml.p5.48xlarge for training job usage' = 8: one job needs 9 (too-big).
Asked for by too-big: increase of quota 'ml.p5.48xlarge for training job usage' to 9 \
(request r1, support case c7): CASE_OPENED.
Ask for more in Service Quotas, or set quota.request_increase in the spec."""
