"""Looks: rich for a person at a terminal, plain lines for a pipe, JSON where asked for."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from everstep.cli.view import RunView
from everstep.policy.cost import hours

# emoji: rich would draw one for the ":key:" of a log line or an ARN, without markup too
out = Console(soft_wrap=True, highlight=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def say(text: str) -> None:
    """Talk: never mixed into data."""
    err.print(tame(text), markup=False)


def tame(text: str) -> str:
    """For a terminal: what a program or a file holds moves no cursor and rings no bell."""
    return "".join(c if c.isprintable() or c in "\n\t" else escaped(c) for c in text)


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def emit(data: Any) -> None:
    """Data as JSON on standard output."""
    print(json.dumps(data, indent=2, default=str))


def tabbed(values: Iterable[Any]) -> None:
    """A row for ``cut`` and ``awk``: rich would turn tabs into spaces."""
    print("\t".join("" if x is None else tame(" ".join(str(x).split())) for x in values))


def show_status(view: RunView) -> None:
    summary = view.summary()
    step = summary["step"] if summary["step"] is not None else 0
    out.print(f"run      {summary['run_id']}", markup=False)
    out.print(f"status   {summary['status']}", markup=False)
    of = "" if summary["steps"] is None else f" of {summary['steps']}"
    out.print(f"step     {step}{of}", markup=False)
    if summary["loss"] is not None:
        out.print(f"loss     {summary['loss']}", markup=False)
    out.print(f"spent    {view.spend.words(hours(view.launches))}", markup=False)
    if summary["waiting"]:
        out.print(f"waiting  {summary['waiting']}", markup=False)
    if summary["note"]:
        out.print(f"note     {tame(summary['note'])}", markup=False)
    if not summary["launches"]:
        return
    if not out.is_terminal:
        for x in summary["launches"]:
            tabbed(x[k] for k in x if k != "restart")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("launch", "where", "steps", "outcome", "class", "decision"):
        table.add_column(column)
    for x in summary["launches"]:
        last = "–" if x["last_step"] is None else str(x["last_step"])
        table.add_row(
            str(x["launch"]),
            x["where"],
            f"{x['resume_step']}→{last}",
            str(x["outcome"] or x["phase"] or "planned"),
            str(x["class"] or ""),
            str(x["decision"] or ""),
        )
    out.print(table)


def show_runs(rows: list[dict[str, Any]]) -> None:
    """Newest first; in a pipe tab-separated, with all of the note."""
    if not out.is_terminal:
        for row in rows:
            tabbed(row.values())
        return
    table = Table(box=None, pad_edge=False)
    for column in ("run", "state", "step", "tries", "team", "cost", "started"):
        table.add_column(column, no_wrap=column != "run", overflow="fold")
    for row in rows:
        table.add_row(
            row["run_id"],
            row["state"],
            _progress(row["step"], row["steps"]),
            str(row["attempts"]),
            row["team"],
            f"{row['gpu_hours']:.1f} {row['hours_of'].replace('hours', 'h')}"
            if row["usd"] is None
            else f"{row['usd']:.2f} USD",
            f"{datetime.fromisoformat(row['started']):%d %b %H:%M}",
        )
    out.print(table)


def _progress(step: int | None, steps: int | None) -> str:
    if step is None:
        return "–"
    return str(step) if not steps else f"{step}/{steps}"


def show_end(view: RunView) -> None:
    """Timeline, steps lost, goodput, final loss: how a run is told when it is over."""
    out.print("\ntimeline", style="bold")
    for seconds, text in view.timeline():
        out.print(f"  {seconds:7.1f} s  {tame(text)}", markup=False)
    paid, losses = view.goodput, view.losses
    final = max(losses, default=None)
    out.print("")
    out.print(
        f"status      {view.run.status} (step {view.run.final_step} of "
        f"{view.run.spec.stop.steps}, {len(view.launches)} launches)",
        markup=False,
    )
    out.print(f"steps lost  {paid.steps_lost} (done again after a resume)", markup=False)
    ratio = "unknown" if paid.ratio is None else f"{paid.ratio:.1%}"
    out.print(
        f"goodput     {ratio} ({paid.useful_seconds:.1f} s of useful steps in "
        f"{paid.paid_seconds:.0f} s paid for)",
        markup=False,
    )
    if final is not None:
        out.print(f"final loss  {losses[final]:.6f} at step {final}", markup=False)
