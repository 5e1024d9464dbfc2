"""The daily report: quotas that the runs in the table touch, what is in use, what is short."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from everstep.contracts.increases import Held, Increase
from everstep.contracts.records import Run
from everstep.policy.quota import needs_of


class Row(NamedTuple):
    """One quota. ``needed`` by runs that wait (the greatest single need where the quota is not
    shared); ``most`` by one job of any target of any run."""

    quota: str
    held: float
    used: float
    needed: float
    most: float
    runs: tuple[str, ...]
    """Those that could never have their need held by it."""
    shared: bool

    @property
    def short(self) -> float:
        """What is missing for all that wait to run now, or for one that never fits."""
        now = self.needed - max(0.0, self.held - self.used) if self.shared else 0.0
        return max(0.0, now if self.needed else 0.0, self.most - self.held)


class Report(BaseModel):
    model_config = ConfigDict(frozen=True)

    short: int
    """Quotas that are."""
    requests: int
    text: str

    @property
    def worth_saying(self) -> bool:
        return bool(self.short or self.requests)

    @property
    def subject(self) -> str:
        return f"quotas: {self.short} short, {_count(self.requests, 'increase')} under way"


def rows_of(
    runs: Iterable[Run],
    waiting: frozenset[str],
    held: Mapping[str, Held],
    used: Mapping[str, float],
) -> list[Row]:
    """Over every target of every run. A run that waits counts with its first target: the others
    are for when that one has no room."""
    found: dict[str, Row] = {}
    for run in runs:
        for index, target in enumerate(run.spec.compute):
            for need in needs_of(run.spec, target):
                quota = held.get(need.quota)
                if quota is None:
                    continue
                used_now = used.get(need.quota, 0.0) if need.shared else 0.0
                row = found.get(need.quota) or Row(
                    need.quota, quota.value, used_now, 0.0, 0.0, (), need.shared
                )
                counts = index == 0 and run.run_id in waiting
                waits = need.amount if counts else 0.0
                never = need.amount > quota.value and run.run_id not in row.runs
                found[need.quota] = row._replace(
                    needed=row.needed + waits if need.shared else max(row.needed, waits),
                    most=max(row.most, need.amount),
                    runs=(*row.runs, run.run_id) if never else row.runs,
                )
    return sorted(found.values(), key=lambda row: (-bool(row.short), row.quota))


def headroom_of(rows: Iterable[Row]) -> dict[str, float]:
    """Held − in use, of the quotas that jobs share."""
    return {row.quota: row.held - row.used for row in rows if row.shared}


def report(rows: Sequence[Row], increases: Sequence[Increase], runs: int, waiting: int) -> Report:
    """The text for people: short ones first, then the rest, then what was asked for."""
    lines = [f"{_count(runs, 'run')} in progress, {waiting} of them waiting.", ""]
    if rows:
        width = max(len(row.quota) for row in rows)
        lines.append(
            f"{'quota':<{width}}  {'held':>8}  {'in use':>8}  {'waiting':>8}  {'short':>8}"
        )
        for r in rows:
            missing = f"{r.short:g}" if r.short else "-"
            lines.append(
                f"{r.quota:<{width}}  {r.held:>8g}  {r.used:>8g}  {r.needed:>8g}  {missing:>8}"
            )
        lines.append("")
    for row in rows:
        if row.runs:
            names = ", ".join(row.runs[:5]) + (" …" if len(row.runs) > 5 else "")
            lines.append(
                f"Never fits {row.quota!r} = {row.held:g}: one job needs {row.most:g} ({names})."
            )
    for increase in increases:
        lines.append(f"Asked for by {increase.asked_by}: {increase}: {increase.status}.")
    short = sum(bool(row.short) for row in rows)
    if short:
        lines.append("Ask for more in Service Quotas, or set quota.request_increase in the spec.")
    elif not increases:
        lines.append("Nothing is short.")
    return Report(short=short, requests=len(increases), text="\n".join(lines).rstrip())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
