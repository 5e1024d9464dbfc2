"""Sections of words: what happened and what to do, failures, cost, background."""

import json
from collections.abc import Iterator, Sequence

from everstep.contracts.records import RunStatus
from everstep.report import words
from everstep.report.blocks import section, table
from everstep.report.elements import Child, Element, h
from everstep.report.figures import Attempt, Report

_STATUS = {
    RunStatus.DONE: "arrived",
    RunStatus.GAVE_UP: "gave up",
    RunStatus.STOPPED: "stopped",
    RunStatus.RUNNING: "running",
    RunStatus.WAITING: "waiting",
}


def top(report: Report) -> Element:
    """The first screen: what happened, what to do, how it stands."""
    cause = (
        h("p", h("strong", "Why: "), h("span", report.cause, class_="said"), data_figure="cause")
        if report.cause
        else None
    )
    return h(
        "header",
        h(
            "p",
            h("span", _STATUS[report.status], class_=f"chip {report.status}"),
            f" team {report.team}, {words.clock(report.created_epoch)}",
            class_="quiet",
        ),
        h("h1", report.run_id),
        h("p", report.headline, class_="headline", data_figure="headline"),
        cause,
        h(
            "p",
            h("strong", "What to do: "),
            report.advice,
            [" Here: ", h("code", f"everstep retry {report.run_id}")]
            if report.status in (RunStatus.GAVE_UP, RunStatus.STOPPED)
            else None,
            class_="todo",
            data_figure="advice",
        ),
        h("p", list(_places(report)), class_="places"),
        [h("p", note, class_="quiet", role="note") for note in report.notes],
        h("dl", _tiles(report), class_="tiles"),
    )


def _places(report: Report) -> Iterator[Child]:
    """Where to look next."""
    links = dict(report.links)
    if report.cause is not None:
        links = {"Runbook": report.runbook_url, **links}
    for name, url in links.items():
        if url.startswith(("https://", "http://")):
            yield h("a", name, href=url, rel="noreferrer")
        else:
            yield h("span", f"{name}: {url}")


def _tiles(report: Report) -> Iterator[Element]:
    of = "" if report.steps is None else f" of {report.steps:,}"
    lost, launches = report.goodput.steps_lost, len(report.attempts)
    tiles = (
        ("step", "Step", f"{words.count(report.step)}{of}", f"{words.count(report.tokens)} tokens"),
        ("loss", "Loss", words.loss(report.loss), "at the last step"),
        (
            "goodput",
            "Goodput",
            words.share(report.goodput_ratio),
            f"{words.seconds(report.goodput.useful_seconds)} of useful steps in "
            f"{words.seconds(report.goodput.paid_seconds)} paid for",
        ),
        ("total", "Took", words.seconds(report.total_seconds), "from acceptance to end"),
        (
            "failures",
            "Failures",
            str(report.failures),
            f"{launches} launch{'' if launches == 1 else 'es'}, "
            f"{lost} step{'' if lost == 1 else 's'} done again",
        ),
        (
            "spend",
            "Cost",
            words.money(report.spend),
            f"{report.spend.gpu_hours:,.2f} {report.hours_of}",
        ),
    )
    for name, title, value, note in tiles:
        yield h(
            "div",
            h("dt", title),
            h("dd", value, class_="value", data_figure=name),
            h("dd", note, class_="quiet"),
        )


def failures(report: Report) -> Element:
    failed = [x for x in report.attempts if x.failure is not None]
    if not failed:
        return section("Failures", h("p", "None."))
    return section("Failures", h("ol", [_failure(x) for x in failed], class_="failures"))


def _failure(x: Attempt) -> Element:
    failure = x.failure
    assert failure is not None
    place = [
        f"{n} {v}" for n, v in (("rank", failure.rank), ("step", failure.step)) if v is not None
    ]
    sure = "" if failure.confidence >= 0.7 else " (unsure: look at the log)"
    after = f", after {words.seconds(x.wait_seconds)}" if x.wait_seconds else ""
    next_ = f"{x.decision}{after}: {x.reason}" if x.decision else "not decided yet"
    return h(
        "li",
        h(
            "p",
            h("strong", f"Launch {x.launch}: {failure.failure_class}"),
            h("span", f" {words.clock(x.ended_epoch)}", class_="quiet"),
        ),
        h(
            "p",
            h("span", failure.cause, class_="said", data_figure=f"cause-{x.launch}"),
            f" ({', '.join(place)})" if place else "",
            sure,
        ),
        h("p", "Decision: ", h("span", next_, data_figure=f"decision-{x.launch}")),
        h("p", f"Hint: {failure.hint}", class_="quiet") if failure.hint else None,
        h("p", f"Rule {failure.rule}, job {x.job}", class_="quiet"),
    )


def cost(report: Report) -> Element:
    jobs = [*report.attempts, *report.exports]
    rows = [
        (
            x.job,
            f"{x.where}, {x.purchase.replace('_', ' ')}",
            words.seconds(x.billable_seconds),
            f"{x.spend.gpu_hours:,.2f}",
            words.money(x.spend),
        )
        for x in jobs
    ]
    if report.own_file_system is not None:
        rows.append(
            ("its own file system", "FSx for Lustre", "", "", words.money(report.own_file_system))
        )
    seconds = sum(x.billable_seconds for x in jobs)
    total = ("together", "", words.seconds(seconds), f"{report.spend.gpu_hours:,.2f}",
             words.money(report.spend))  # fmt: skip
    return section(
        "Cost",
        table(("job", "hosts", "billed", report.hours_of, "on demand"), [*rows, total]),
        h(
            "p",
            "Billed seconds are SageMaker's own, a spot job's fewer by its saving; of a job that "
            "runs, the seconds so far. On-demand prices are config's (plans cost less). Warm pools "
            "between jobs, other storage and the control plane are not in it.",
            class_="quiet",
        ),
        _exports(report.exports),
    )


def _exports(exports: Sequence[Attempt]) -> Element | None:
    if not exports:
        return None
    rows = [(x.job, x.outcome or "not over", x.failure.cause if x.failure else "") for x in exports]
    return h("div", h("h3", "Exports"), table(("job", "outcome", "why"), rows))


def background(report: Report) -> Element:
    restarts = [
        (
            str(x.launch),
            str(x.restart.rung or "–"),
            *(
                words.seconds(value) if value is not None else "–"
                for value in (
                    x.restart.notice,
                    x.restart.decide,
                    x.restart.wait,
                    x.restart.provision,
                    x.restart.load,
                    x.restart.first_step,
                    x.restart.total,
                )
            ),
        )
        for x in report.attempts
        if x.restart is not None
    ]
    columns = ("launch", "rung", "notice", "decide", "wait", "provision", "load", "first step",
               "in all")  # fmt: skip
    spec = json.dumps(report.spec, indent=2, ensure_ascii=False)
    return section(
        "Background",
        h("details", h("summary", "Restarts by part"), table(columns, restarts))
        if restarts
        else None,
        h(
            "details",
            h("summary", "Environment"),
            h(
                "dl",
                [(h("dt", name), h("dd", value)) for name, value in report.environment.items()],
                class_="facts",
            ),
        ),
        h("details", h("summary", "Spec, without defaults and secrets"), h("pre", spec)),
    )
