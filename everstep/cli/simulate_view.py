"""How a simulation is shown: tables and bars of text, the inputs and their sources below."""

from rich.markup import escape
from rich.table import Table

from everstep.cli.output import out
from everstep.simulate.run import PARTS
from everstep.simulate.scenario import Scenario
from everstep.simulate.study import Row, Study

MARKS = dict(zip(PARTS, "█rcRhswp", strict=True))
COLOURS = dict(
    zip(PARTS, ("green", "red", "cyan", "yellow", "magenta", "blue", "white", "red"), strict=True)
)
SHORT = dict(
    zip(
        PARTS,
        ["useful", "redone", "saves", "restart", "hang", "slow", "wait", "person"],
        strict=True,
    )
)
WIDTH = 50


def show(scenario: Scenario, found: Study, with_bare: bool) -> None:
    first = scenario.spec.compute[0]
    out.print(
        f"{scenario.gpus:,} GPUs ({first.nodes} × {first.instance_type}, {first.purchase}), "
        f"{scenario.days:g} days, {scenario.seeds} runs a policy from seed {scenario.seed}; "
        f"something breaks every {found.mtbf_hours:.1f} h\n"
        f"rates {scenario.rates.name}: {scenario.rates.source}\n",
        markup=False,
    )
    _policies(found)
    _chart(found)
    _gave_up(found)
    _interval(scenario, found)
    _gap(found)
    _levers(found)
    _inputs(scenario, with_bare)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    return table


def _policies(found: Study) -> None:
    table = _table("policy", "saves", "goodput", "95 %", "5–95 %", "broke", "ran out", "people")
    for row in found.rows:
        saves = "–" if row.interval_minutes is None else f"{row.interval_minutes:.3g} min"
        table.add_row(
            row.name,
            saves,
            f"{row.goodput:.1%}",
            f"±{(row.high - row.low) / 2:.2%}",
            f"{row.p5:.1%}–{row.p95:.1%}",
            f"{row.interruptions - row.run_times:.0f}",
            f"{row.run_times:.0f}",
            f"{row.people:.1f}",
        )
    out.print(table)
    out.print(
        "goodput: useful step time ÷ wall-clock time. broke: failures a run. ran out: jobs that "
        "reached their longest run time, no failure. people: times that a run stood still for "
        "one.\n",
        markup=False,
    )


def _chart(found: Study) -> None:
    """A bar a policy; letters, so that it reads without colours, in a pipe and on paper."""
    width = max(len(row.name) for row in found.rows)
    for row in found.rows:
        out.print(f"{escape(row.name):<{width}} {_bar(row)}")
    out.print(" ".join(f"{MARKS[part]} {part}" for part in PARTS) + "\n", markup=False)
    table = _table("% of the time", *SHORT.values())
    for row in found.rows:
        table.add_row(row.name, *(f"{row.parts[part] * 100:.1f}" for part in PARTS))
    out.print(table)
    out.print("")


def _bar(row: Row) -> str:
    said, done, drawn = "", 0.0, 0
    for part in PARTS:
        done += row.parts[part]
        upto = round(done * WIDTH)
        mark, colour = MARKS[part], COLOURS[part]
        said += f"[{colour}]{mark * (upto - drawn)}[/]" if upto > drawn else ""
        drawn = upto
    return said


def _gave_up(found: Study) -> None:
    for row in found.rows:
        if row.gave_up and row.name in ("Everstep", "Everstep, bare spec", "Everstep, auto saves"):
            most = list(row.gave_up.items())[:4]
            why = "\n".join(f"  {n:6.1f} a run  {reason}" for reason, n in most)
            out.print(f"{row.name} called a person, by its own reasons:\n{why}", markup=False)
    out.print("")


def _interval(scenario: Scenario, found: Study) -> None:
    x = found.interval
    out.print(
        f"save every: best simulated {x.best / 60:.1f} min ({x.at_best:.1%}), Daly "
        f"{x.daly / 60:.1f} min ({x.at_daly:.1%}), Young {x.young / 60:.1f} min "
        f"({x.at_young:.1%}); the spec's {scenario.interval / 60:.3g} min",
        markup=False,
    )
    most = max(y for _, y in x.curve)
    for seconds, share in x.curve:
        bar = "█" * max(1, round(40 * share / most)) if most else ""
        out.print(f"  {seconds / 60:7.1f} min {share:6.1%} {bar}", markup=False)
    out.print("")


def _gap(found: Study) -> None:
    table = _table("behind the oracle", "points", *(SHORT[p] for p in PARTS if p != "useful"))
    for name, gap in found.gaps.items():
        parts = (f"{gap[p] * 100:+.1f}" for p in PARTS if p != "useful")
        table.add_row(name, f"{-gap['useful'] * 100:.1f}", *parts)
    out.print(table)
    out.print(
        "The oracle knows what will break and what cures it; it still pays for hosts, loading and "
        f"room. Spares: {found.spares_needed} hosts hold for 99.9 % of the time; the restart "
        "ladder has no rung for them, as SageMaker gives a job none: what-ifs.\n",
        markup=False,
    )


def _levers(found: Study) -> None:
    table = _table("what if (one change to row Everstep)", "points", "95 %")
    for lever in found.levers:
        half = (lever.high - lever.low) / 2
        table.add_row(lever.name, f"{lever.gain * 100:+.2f}", f"±{half * 100:.2f}")
    out.print(table)
    out.print("")


def _inputs(scenario: Scenario, with_bare: bool) -> None:
    out.print("inputs (seconds; --set NAME=VALUE replaces one)", style="bold")
    for name, x in scenario.inputs.items():
        span = f"{x.low:g}" if x.low == x.high else f"{x.low:g}–{x.high:g}"
        out.print(f"  {name:<28} {span:>12}  {x.kind}: {x.source}", markup=False)
    if with_bare:
        out.print(
            "spec: RunSpec's defaults, but warm_pool_seconds 1800 (as in examples/); row 'bare "
            "spec' has no pool. 20 attempts, refilled by each that pays off.",
            markup=False,
        )
