"""The one message of a decision: what happened, why, what it cost, what to do. For people first."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from everstep.contracts.failures import Failure, FailureClass
from everstep.contracts.records import Launch, Run
from everstep.policy.cost import Spend, hours, spend_of
from everstep.policy.file_system import checkpoint_place, keeps_checkpoints
from everstep.policy.job_request import checkpoint_uri, report_uri
from everstep.policy.own_file_system import own_spend
from everstep.policy.rule import DEFAULTS

Kind = Literal["done", "give_up", "retry", "wait", "budget"]

SUBJECT_LENGTH = 99
"""SNS: printable ASCII on one line, less than 100 characters."""
HISTORY_LINES = 40
"""A message holds 256 KiB, the cause of an execution 32."""
CAUSE_LENGTH = 2000

_SAYS: dict[Kind, str] = {
    "done": "done",
    "give_up": "gave up",
    "retry": "goes on",
    "wait": "waits",
    "budget": "nears its budget",
}
_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}


class Notice(BaseModel):
    """``id`` is the decision's: a message that comes twice has the same one."""

    model_config = ConfigDict(frozen=True)

    id: str
    subject: str
    body: str


def notice(
    run: Run,
    kind: Kind,
    text: str,
    launches: Sequence[Launch] | None,
    *,
    failure: Failure | None = None,
    runbook_url: str = "docs/runbook.md",
    prices_usd: Mapping[str, float] | None = None,
    now: float = 0.0,
) -> Notice:
    """``launches``: those of training, oldest first, and the exports after them; None where nobody
    read them: then what they cost is not said. ``now``: epoch seconds, until when a file system of
    the run's own is paid for."""
    jobs = launches or []
    spend = None
    if launches is not None:
        prices = prices_usd or {}
        spend = spend_of(jobs, prices).plus(own_spend(run, prices, now))
    last = jobs[-1] if jobs else None
    where = last.item if last else f"waited-{run.waited_seconds:.0f}"
    ident = f"{run.run_id}/{kind}/{where}/{run.redrive_count}"
    page = runbook_url if failure is None else f"{runbook_url}#{failure.failure_class}"
    parts: list[list[str]] = [
        [f"Run {run.run_id} (team {run.team.name}): {text}"],
        _cause(failure),
        [f"What to do: {advice(run, kind, failure)}", f"Runbook: {page}"],
        _results(run, jobs),
        ["History:", *history(jobs)] if jobs else [],
        [f"Spent: {spend.words(hours(jobs))}."] if spend and (jobs or run.own_lustre) else [],
        [
            *([f"Report, in a minute: {report_uri(run)}"] if kind in ("done", "give_up") else []),
            *(f"{name}: {url}" for name, url in links(run, last)),
        ],
        [
            json.dumps(
                {
                    "id": ident,
                    "run_id": run.run_id,
                    "team": run.team.name,
                    "kind": kind,
                    "class": failure.failure_class if failure else None,
                    **_figures(jobs, spend),
                }
            )
        ],
    ]
    body = "\n\n".join("\n".join(lines) for lines in parts if lines)
    return Notice(id=ident, subject=_subject(run, kind, failure), body=body)


def _figures(jobs: Sequence[Launch], spend: Spend | None) -> dict[str, float | None]:
    """What nobody read is null, not nothing."""
    if spend is None:
        return dict.fromkeys(("attempts", "gpu_hours", "usd"))
    attempts = sum(x.spent_attempt for x in jobs if not x.export)
    return {"attempts": attempts, "gpu_hours": spend.gpu_hours, "usd": spend.usd}


def history(launches: Sequence[Launch]) -> list[str]:
    """One line a job; of a long history the first and the last ones."""
    if len(launches) > HISTORY_LINES:
        head, tail = launches[:5], launches[5 - HISTORY_LINES :]
        return [*history(head), f"       … {len(launches) - HISTORY_LINES} more …", *history(tail)]
    return [_line(x) for x in launches]


def _line(x: Launch) -> str:
    if x.export:
        what = f"export of {x.export.checkpoint}"
    elif x.last_step is not None:
        what = f"steps {x.resume_step}–{x.last_step}"
    else:
        what = "no step"
    if x.failure:
        end = f"{x.failure.failure_class}: {x.failure.cause}"
    else:
        end = "completed" if x.outcome and x.outcome.status == "Completed" else "not over"
    return f"  {x.launch:>3}  {x.where}, {what}, {end}"


def _subject(run: Run, kind: Kind, failure: Failure | None) -> str:
    why = f": {failure.failure_class}" if failure else ""
    text = f"[Everstep] {run.run_id} {_SAYS[kind]}{why}"
    return text.encode("ascii", "replace").decode()[:SUBJECT_LENGTH]


def _cause(failure: Failure | None) -> list[str]:
    if failure is None:
        return []
    where = [
        f"{word} {value}"
        for word, value in (("rank", failure.rank), ("step", failure.step))
        if value is not None
    ]
    place = f" ({', '.join(where)})" if where else ""
    return [f"Cause: {failure.failure_class}: {failure.cause[:CAUSE_LENGTH]}{place}"]


def advice(run: Run, kind: Kind, failure: Failure | None) -> str:
    """What a person should do, in a sentence."""
    if kind == "retry":
        return "nothing, the run goes on by itself."
    if kind == "wait":
        hours = f"{run.spec.retry.wait_deadline_hours:g}"
        return f"nothing, it goes on when there is room; it gives up after {hours} h of waiting."
    if kind == "done":
        return "nothing."
    if kind == "budget":
        return f"nothing, or, once it has ended, {raise_budget(run)}."
    if failure is not None and failure.failure_class is FailureClass.USER_STOP:
        return "nothing; press Redrive on the execution to go on."
    hint = (hint_of(failure, run) if failure else "") or "see the runbook"
    if failure is not None and failure.failure_class is FailureClass.BUDGET:
        return f"{hint} (a Redrive meets the same limit)."
    return f"{hint}. Redrive of the execution goes on where this stopped."


def hint_of(failure: Failure, run: Run) -> str:
    """The failure's own; how to raise the budget where that is what ended the run."""
    theirs = failure.hint if failure.rule.startswith("user:") else ""
    if failure.failure_class is FailureClass.BUDGET and not theirs:
        return raise_budget(run)
    return failure.hint.replace("everstep retry RUN", f"everstep retry {run.run_id}")


def raise_budget(run: Run) -> str:
    """The command for each limit that the spec sets: the others end nothing."""
    values = {"max_gpu_hours": "N", "max_usd": "N", "deadline": "TIME"}
    limits = [
        f"--set budget.{name}={value}"
        for name, value in values.items()
        if getattr(run.spec.budget, name) is not None
    ]
    hint = DEFAULTS[FailureClass.BUDGET][1]
    return f"{hint}: everstep retry {run.run_id} {', or '.join(limits)}" if limits else hint


def _results(run: Run, launches: Sequence[Launch]) -> list[str]:
    if not launches:
        return []
    if run.adopted is not None:
        place = (run.adopted.request.get("CheckpointConfig") or {}).get("S3Uri", "nowhere")
        return [f"Taken over from job {run.adopted.job}; checkpoints: {place}"]
    trained = [x for x in launches if not x.export]
    saved = max((x.committed_step or x.resume_step for x in trained), default=0)
    step = run.final_step or saved
    place = checkpoint_place(run) if keeps_checkpoints(run) else checkpoint_uri(run)
    lines = [f"Committed: step {step} of {run.spec.stop.steps}, below {place}/"]
    if run.export_uri:
        lines.append(f"Export: {run.export_uri}/")
    if run.model_package_arn:
        lines.append(f"Model package: {run.model_package_arn}")
    return lines


def links(run: Run, last: Launch | None) -> list[tuple[str, str]]:
    """To the console; region and partition are the execution's."""
    _, partition, _, region, *_ = f"{run.execution_arn}::::".split(":")
    host = _CONSOLES.get(partition, "console.aws.amazon.com")
    base = f"https://{region}.{host}"
    found = [
        (
            "Execution",
            f"{base}/states/home?region={region}#/v2/executions/details/{run.execution_arn}",
        )
    ]
    if last is not None:
        found.append(("Job", f"{base}/sagemaker/home?region={region}#/jobs/{last.job_name}"))
    return found
