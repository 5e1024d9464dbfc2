"""Rows and step lines of a run → its report's figures. Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from everstep import __version__
from everstep.contracts.failures import Failure, FailureClass
from everstep.contracts.records import Launch, Run, RunStatus
from everstep.policy.cost import billed_seconds, hours, spend_on
from everstep.policy.goodput import goodput
from everstep.policy.job_request import checkpoint_uri
from everstep.policy.notice import advice, links
from everstep.policy.own_file_system import own_spend, spend_of_run
from everstep.policy.redact import redact
from everstep.policy.restarts import restart_time
from everstep.report.figures import Attempt, Curve, Point, Report, Resume
from everstep.report.steps import MOST_POINTS, Lines, StepLine, lasting, thinned, times
from everstep.report.waterfall import Part, spans


def report(
    run: Run,
    launches: Sequence[Launch],
    exports: Sequence[Launch],
    lines: Lines,
    *,
    now: float,
    ended: float | None = None,
    prices_usd: Mapping[str, float] | None = None,
    runbook_url: str = "docs/runbook.md",
) -> Report:
    """``ended``: when the execution did, where that is known. ``lines`` by launch number."""
    prices = prices_usd or {}
    end = _end(run, [*launches, *exports], now, ended)
    cut = spans(run, launches, lines, end)
    waterfall = dict.fromkeys(Part, 0.0)
    for span in cut:
        for part, seconds in span.parts.items():
            waterfall[part] += seconds
    paid = goodput(launches, times(lines), now)
    failure = _failure(run, launches)
    final = _final(lines)
    failed = sum(x.failure is not None for x in launches)
    url = runbook_url if failure is None else f"{runbook_url}#{failure.failure_class}"
    return Report(
        run_id=run.run_id,
        team=run.team.name,
        status=run.status,
        headline=_headline(run, launches, failed, failure),
        cause=failure.cause if failure else None,
        advice=_advice(run, failure),
        runbook_url=url,
        links=dict(links(run, launches[-1] if launches else None)),
        created_epoch=run.created_epoch,
        ended_epoch=end,
        written_epoch=now,
        step=_step(run, launches, final),
        steps=None if run.adopted else run.spec.stop.steps,
        tokens=_tokens(run, final) if final else None,
        loss=final.loss if final else None,
        mfu=_median([x.mfu for own in lines.values() for x in own if x.mfu is not None]),
        failures=failed,
        attempts=[_attempt(run, launches, i, lines, prices, now) for i in range(len(launches))],
        exports=[_attempt(run, exports, i, {}, prices, now) for i in range(len(exports))],
        goodput=paid,
        goodput_ratio=paid.ratio,
        total_seconds=end - run.created_epoch,
        waterfall=waterfall,
        spans=cut,
        curve=_curve(run, launches, lines),
        spend=spend_of_run(run, [*launches, *exports], prices, now),
        own_file_system=own_spend(run, prices, now) if run.own_lustre else None,
        hours_of=hours([*launches, *exports]),
        environment=_environment(run, launches),
        spec=_redacted(run.spec.model_dump(mode="json", exclude_defaults=True)),
        notes=list(_notes(run, launches, lines)),
    )


def _end(run: Run, jobs: Sequence[Launch], now: float, ended: float | None) -> float:
    if not run.ended:
        return max(now, run.created_epoch)
    known = [x.outcome.ended_epoch for x in jobs if x.outcome and x.outcome.ended_epoch]
    known += [x.settled_epoch for x in jobs if x.settled_epoch]
    return max([run.created_epoch, *known] if ended is None else [run.created_epoch, ended])


def _failure(run: Run, launches: Sequence[Launch]) -> Failure | None:
    """Why it ended, if it did not arrive; while it goes on, the last trouble it had."""
    if run.status is RunStatus.DONE:
        return None
    if run.failure is not None:
        return run.failure
    last = launches[-1] if launches else None
    if last is None or last.failure is None:
        return None
    if run.status is RunStatus.STOPPED and last.failure.failure_class is not FailureClass.USER_STOP:
        return None  # it would have gone on after that one: the stop is the cause, as the note says
    return last.decision.of(last.failure) if last.decision else last.failure


def _headline(run: Run, launches: Sequence[Launch], failed: int, failure: Failure | None) -> str:
    count = f"{len(launches)} launch{'' if len(launches) == 1 else 'es'}"
    if run.status is RunStatus.DONE:
        step = "" if run.final_step is None else f" at step {run.final_step:,}"
        over = f"; {failed} failure{'' if failed == 1 else 's'} came between" if failed else ""
        return f"Arrived{step} after {count}{over}."
    if run.status is RunStatus.RUNNING:
        return f"Under way: {count} so far, {failed} of them failed."
    if run.status is RunStatus.WAITING:
        return f"Waits: {run.waiting.reason if run.waiting else 'for room'}."
    word = "Stopped" if run.status is RunStatus.STOPPED else "Gave up"
    why = f": {failure.failure_class}" if failure else f": {run.note}" if run.note else ""
    return f"{word} after {count}{why}"


def _advice(run: Run, failure: Failure | None) -> str:
    if run.status is RunStatus.DONE:
        return advice(run, "done", None)
    if run.status is RunStatus.WAITING:
        return advice(run, "wait", failure)
    if run.status is RunStatus.RUNNING:
        return "nothing, the run goes on by itself."
    if run.status is RunStatus.STOPPED and failure is None:
        return "nothing; press Redrive on the execution to go on."
    return advice(run, "give_up", failure)


def _final(lines: Lines) -> StepLine | None:
    every = [line for own in lines.values() for line in own]
    return max(every, key=lambda x: (x.step, x.time_epoch), default=None)


def _step(run: Run, launches: Sequence[Launch], final: StepLine | None) -> int | None:
    if run.final_step is not None:
        return run.final_step
    known = [x.last_step for x in launches if x.last_step is not None]
    return max([*known, *([final.step] if final else [])], default=None)


def _tokens(run: Run, line: StepLine) -> int | None:
    """As the trainer counted them; else what the spec says that a step has."""
    if line.tokens is not None:
        return line.tokens
    if run.adopted is not None:
        return None
    return line.step * run.spec.train.global_batch * run.spec.train.sequence_length


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _attempt(
    run: Run,
    rows: Sequence[Launch],
    index: int,
    lines: Lines,
    prices: Mapping[str, float],
    now: float,
) -> Attempt:
    x, former = rows[index], rows[index - 1] if index else None
    last = max((line.step for line in lines.get(x.launch, ())), default=x.last_step)
    target = run.spec.target(x.target)
    return Attempt(
        launch=x.launch,
        job=x.job_name,
        where=_where(x),
        purchase="on_demand" if x.export else target.purchase,
        resume_step=x.resume_step,
        last_step=last,
        planned_epoch=x.planned_epoch,
        ended_epoch=x.outcome.ended_epoch if x.outcome else None,
        outcome=x.outcome.status if x.outcome else None,
        billable_seconds=round(billed_seconds(x, now)),
        spend=spend_on(x, prices, now),
        failure=x.failure,
        decision=x.decision.kind if x.decision else None,
        reason=x.decision.reason if x.decision else None,
        wait_seconds=x.decision.wait_seconds if x.decision else 0,
        service_restarts=x.service_restarts,
        restart=restart_time(former, x) if former is not None and not x.export else None,
    )


def _where(x: Launch) -> str:
    """All groups of its hosts."""
    groups = [(x.nodes, x.instance_type), *((g.count, g.instance_type) for g in x.groups)]
    return ", ".join(f"{count} × {kind}" for count, kind in groups)


def _curve(run: Run, launches: Sequence[Launch], lines: Lines) -> Curve:
    last = lasting(lines)
    went: list[StepLine] = []
    lost: list[list[StepLine]] = []
    for launch in sorted(lines):
        before = -1
        for index, line in enumerate(lines[launch]):
            if (launch, index) in last:
                went.append(line)
                continue
            if not lost or index != before + 1 or line.step <= lost[-1][-1].step:
                lost.append([])
            lost[-1].append(line)
            before = index
    went.sort(key=lambda line: line.step)
    counted = all(_tokens(run, line) is not None for line in went)

    def x_of(line: StepLine) -> float:
        return float((_tokens(run, line) if counted else None) or line.step)

    def points(some: Sequence[StepLine], most: int = MOST_POINTS) -> list[Point]:
        return [
            Point(x=x_of(p), step=p.step, loss=p.loss, tokens_per_s=p.tokens_per_s)
            for p in thinned(some, most)
        ]

    def resumes() -> list[Resume]:
        found = []
        for launch in launches:
            if not launch.resume_step:
                continue
            before = bisect_right(went, launch.resume_step, key=lambda line: line.step)
            if before:
                step = launch.resume_step
                found.append(Resume(launch=launch.launch, step=step, x=x_of(went[before - 1])))
        return found

    told = any(line.loss is not None for line in went)
    return Curve(
        unit="tokens" if counted and went else "steps",
        points=points(went),
        again=[points(stretch, max(4, MOST_POINTS // len(lost))) for stretch in lost],
        resumes=resumes(),
        not_finite=[line.step for line in went if line.loss is None][:100] if told else [],
    )


def _environment(run: Run, launches: Sequence[Launch]) -> dict[str, str]:
    _, partition, _, region, account, *_ = f"{run.execution_arn}::::::".split(":")
    places = dict.fromkeys(map(_where, launches))
    found = {
        "Everstep": __version__,
        "execution": run.execution_arn,
        "partition, region, account": ", ".join(x for x in (partition, region, account) if x),
        "job role": run.team.job_role_arn,
        "image": f"{run.spec.trainer.image} ({run.team.image_repository})",
        "command": " ".join(run.spec.trainer.command),
        "hosts used": ", ".join(places) or "none",
        "data": f"{run.team.data_uri}/{run.spec.data.prefix}",
        "checkpoints": f"{checkpoint_uri(run)}/",
        "output": f"{run.team.output_uri}/{run.run_id}/",
    }
    if run.adopted is not None:
        found["taken over from"] = run.adopted.arn
        for name in ("image", "command", "data", "checkpoints"):
            del found[name]
    for name, pinned in (run.images or {}).items():
        found[f"image {name}"] = pinned.uri
    if run.export_uri:
        found["export"] = f"{run.export_uri}/"
    if run.model_package_arn:
        found["model package"] = run.model_package_arn
    return {name: redact(value) for name, value in found.items()}


def _redacted(value: Any) -> Any:
    """References stay; a secret that got past validation does not. Names are read with values, as
    ``NAME=value``, by which most secrets are known."""
    if isinstance(value, dict):
        return {key: _named(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner) for inner in value]
    return redact(value) if isinstance(value, str) else value


def _named(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return _redacted(value)
    return redact(f"{key}={value}").removeprefix(f"{key}=")


def _notes(run: Run, launches: Sequence[Launch], lines: Lines) -> list[str]:
    silent = [
        str(x.launch) for x in launches if x.last_step is not None and not lines.get(x.launch)
    ]
    found = []
    if silent:
        found.append(
            f"The log holds no step lines of launch {', '.join(silent)}: their steps are missing "
            "from the curves, and their time counts as other."
        )
    if any(not line.seconds for own in lines.values() for line in own):
        found.append(
            "Some step lines have no step_seconds: their time counts as other, not as useful."
        )
    if run.adopted is not None:
        found.append("This run began as a job made elsewhere: only its limits are Everstep's spec.")
    return found
