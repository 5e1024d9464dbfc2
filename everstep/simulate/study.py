"""Policies side by side on the same failures; the best interval; what each input is worth."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, quantiles, stdev

from everstep.policy.checkpoint_interval import optimum
from everstep.simulate.closed_form import young as young_of
from everstep.simulate.draws import strikes
from everstep.simulate.policies import ByHand, Everstep, Make, Oracle, RetryStrategy
from everstep.simulate.production import Production
from everstep.simulate.run import PARTS, Tally
from everstep.simulate.scenario import Scenario, Spares, with_measured_interval

THREE_HOURS = 3 * 3600.0
FEW = 40
"""Seeds of sweeps: paired with the same failures, their differences need no more."""
POINTS = 13


@dataclass(frozen=True)
class Row:
    """One policy over all seeds. Shares of the wall's clock; counts a run."""

    name: str
    interval_minutes: float | None
    goodput: float
    low: float
    high: float
    """95 % confidence of the mean."""
    p5: float
    p95: float
    """Of single runs."""
    parts: dict[str, float]
    interruptions: float
    run_times: float
    """Of them, ends of a job's run time."""
    restarts: dict[str, float]
    people: float
    gave_up: dict[str, float]
    """Why, where the policy itself did."""


@dataclass(frozen=True)
class Interval:
    """Seconds. ``curve``: (interval, goodput)."""

    young: float
    daly: float
    best: float
    curve: list[tuple[float, float]]
    at_best: float
    at_daly: float
    at_young: float


@dataclass(frozen=True)
class Lever:
    """What one change is worth, in goodput; 95 % of the paired difference."""

    name: str
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Study:
    rows: list[Row]
    interval: Interval
    levers: list[Lever]
    gaps: dict[str, dict[str, float]]
    """Row → part → how much more of it than the oracle's (useful: less), where both have the same
    spares."""
    mtbf_hours: float
    spares_needed: int
    """Hosts in replacement at once, exceeded one moment in a thousand."""
    decisions: int
    """Calls of the production ``decide`` that were needed."""


def study(scenario: Scenario, plain: Scenario | None = None) -> Study:
    """``plain``: the same on RunSpec's own defaults, where ``scenario`` is not."""
    fates = [strikes(scenario, i) for i in range(scenario.seeds)]
    known: dict[int, Production] = {}

    def tallies(one: Scenario, make: Make, most: int | None = None) -> list[Tally]:
        asked = known.get(id(one.spec))
        if asked is None:
            asked = known[id(one.spec)] = Production(one.spec, one.inputs["step"].mean)
        return [make(one, fate, asked).simulate() for fate in fates[:most]]

    interval = _interval(scenario, tallies)
    best = with_measured_interval(scenario)
    rows = [
        _row(name, one, tallies(one, make), make is not Oracle)
        for name, one, make in _policies(scenario, best, plain)
    ]
    levers = list(_levers(scenario, best, tallies))
    return Study(
        rows=rows,
        interval=interval,
        levers=sorted(levers, key=lambda x: -x.gain),
        gaps=_gaps(rows),
        mtbf_hours=scenario.mtbf / 3600,
        spares_needed=_spares_needed(scenario),
        decisions=sum(x.asked for x in known.values()),
    )


def expected(scenario: Scenario) -> Row:
    """What the scenario's own spec may expect, without the comparisons."""
    asked = Production(scenario.spec, scenario.inputs["step"].mean)
    found = [Everstep(scenario, strikes(scenario, i), asked) for i in range(scenario.seeds)]
    return _row("Everstep", scenario, [x.simulate() for x in found], True)


Tallies = Callable[..., list[Tally]]


def _policies(
    given: Scenario, best: Scenario, plain: Scenario | None
) -> Iterator[tuple[str, Scenario, Make]]:
    yield "no auto-retry", given, ByHand
    yield "RetryStrategy only", given, RetryStrategy
    yield "Everstep, 3 h saves", replace(given, interval=THREE_HOURS), Everstep
    if plain is not None:
        yield "Everstep, bare spec", plain, Everstep
    yield "Everstep", given, Everstep
    if best.interval != given.interval:
        yield "Everstep, auto saves", best, Everstep
    yield "oracle", given, Oracle
    for spares in (Spares.WARM, Spares.HOT):
        if given.spares is Spares.NONE:
            held = replace(best, spares=spares)
            yield f"Everstep, auto, {spares}", held, Everstep
            yield f"oracle, {spares}", held, Oracle


def _row(name: str, scenario: Scenario, found: Sequence[Tally], saves: bool) -> Row:
    shares = [x.parts["useful"] / scenario.horizon for x in found]
    mean, low, high = _mean(shares)
    count = len(found)
    cuts = quantiles(shares, n=20, method="inclusive") if count > 1 else [mean]
    return Row(
        name=name,
        interval_minutes=max(scenario.interval, scenario.inputs["durable"].mean) / 60
        if saves
        else None,
        goodput=mean,
        low=low,
        high=high,
        p5=cuts[0],
        p95=cuts[-1],
        parts={p: fmean(x.parts[p] for x in found) / scenario.horizon for p in PARTS},
        interruptions=fmean(x.interruptions for x in found),
        run_times=fmean(x.run_times for x in found),
        restarts=_average((x.restarts for x in found), count),
        people=fmean(x.people for x in found),
        gave_up=_average((x.gave_up for x in found), count),
    )


def _average(counts: Iterator[Mapping[str, int]], over: int) -> dict[str, float]:
    whole: Counter[str] = Counter()
    for one in counts:
        whole.update(one)
    return {str(name): n / over for name, n in whole.most_common()}


STUDENT = (12.706, 4.303, 3.182, 2.776)
"""97.5 % quantile of Student's t with 1 to 4 degrees of freedom."""
NORMAL = 1.959964


def _student(freedom: int) -> float:
    """Beyond the table by Fisher's expansion, right to a thousandth."""
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NORMAL
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _mean(values: Sequence[float]) -> tuple[float, float, float]:
    """With 95 % confidence: Student's t, as a plan has twenty runs and a user may ask for three. Of
    one run there is none."""
    mean, count = fmean(values), len(values)
    half = _student(count - 1) * stdev(values) / sqrt(count) if count > 1 else 0.0
    return mean, mean - half, mean + half


def _goodput(scenario: Scenario, found: Sequence[Tally]) -> float:
    return fmean(x.parts["useful"] for x in found) / scenario.horizon


def _interval(scenario: Scenario, tallies: Tallies) -> Interval:
    stall, durable = scenario.inputs["stall"].mean, scenario.inputs["durable"].mean
    mtbf = min(scenario.mtbf, scenario.horizon)
    young = max(durable, young_of(stall, mtbf))
    daly = max(durable, optimum(stall, mtbf))

    def at(seconds: float) -> float:
        one = replace(scenario, interval=seconds)
        return _goodput(one, tallies(one, Everstep, FEW))

    low, high = max(durable, daly / 6, 1.0), max(THREE_HOURS, 6 * daly)
    step = (log(high) - log(low)) / (POINTS - 1)
    curve = [(x, at(x)) for x in (exp(log(low) + i * step) for i in range(POINTS))]
    best = _peak(curve)
    return Interval(young, daly, best, curve, at(best), at(daly), at(young))


def _peak(curve: Sequence[tuple[float, float]]) -> float:
    """Of the parabola through the best point and its neighbours, in the logarithm."""
    i = max(range(len(curve)), key=lambda j: curve[j][1])
    if i in (0, len(curve) - 1):
        return curve[i][0]
    (x0, y0), (x1, y1), (_, y2) = ((log(x), y) for x, y in curve[i - 1 : i + 2])
    bend = y0 - 2 * y1 + y2
    return exp(x1 + 0.5 * (x1 - x0) * (y0 - y2) / bend) if bend < 0 else curve[i][0]


RESTART = (
    "provision_in_job",
    "provision_warm_hosts",
    "provision_service_repair",
    "provision_new_hosts",
    "provision_hot_spare",
    "provision_warm_spare",
    "load",
    "first_step",
)
NOTICE = ("notice_exit", "collective_timeout", "watchdog_look", "stop_job", "end_of_job", "decide")


def _levers(given: Scenario, best: Scenario, tallies: Tallies) -> Iterator[Lever]:
    def half(*names: str) -> Scenario:
        return given.but(**dict.fromkeys(names, 0.5))

    changes = [("measured save interval", best)] if best.interval != given.interval else []
    changes += [
        ("halve the restart time", half(*RESTART)),
        ("halve hosts' provisioning alone", half("provision_new_hosts")),
        ("halve loading and first step", half("load", "first_step")),
        ("halve notice and decision", half(*NOTICE)),
        ("halve a save's stall", half("stall")),
        ("halve the time until a save is safe", half("durable")),
        ("saves at no cost", given.but(stall=0, durable=0)),
        ("noticed and decided at once", given.but(**dict.fromkeys(NOTICE, 0.0))),
        ("halve a person's time", half("person")),
        ("always room for new hosts", given.but(share_no_capacity=0, share_no_capacity_spot=0)),
        ("never a hang", given.but(share_hang=0)),
    ]
    if given.spares is Spares.NONE:
        changes.append(("warm spares", replace(given, spares=Spares.WARM)))
        changes.append(("hot spares", replace(given, spares=Spares.HOT)))
        both = replace(best, spares=Spares.HOT)
        changes.append(("hot spares and measured saves", both))
    base = [x.parts["useful"] / given.horizon for x in tallies(given, Everstep, FEW)]
    for name, changed in changes:
        if changed.inputs["share_hang"] != given.inputs["share_hang"]:
            found = _redrawn(changed)
        else:
            found = tallies(changed, Everstep, FEW)
        shares = [x.parts["useful"] / given.horizon for x in found]
        yield Lever(name, *_mean([a - b for a, b in zip(shares, base, strict=True)]))
    for name, factor in (("half as many failures", 0.5), ("twice as many failures", 2.0)):
        found = _redrawn(replace(given, rates=given.rates.scaled(factor)))
        shares = [x.parts["useful"] / given.horizon for x in found]
        yield Lever(name, *_mean([a - b for a, b in zip(shares, base, strict=True)]))


def _redrawn(scenario: Scenario) -> list[Tally]:
    """With failures of its own, from the same random numbers."""
    asked = Production(scenario.spec, scenario.inputs["step"].mean)
    count = min(FEW, scenario.seeds)
    return [Everstep(scenario, strikes(scenario, i), asked).simulate() for i in range(count)]


def _gaps(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    named = {row.name: row for row in rows}
    found = {}
    for row in rows:
        if not row.name.startswith("Everstep"):
            continue
        oracle = named[
            row.name.replace("Everstep, auto, ", "oracle, ")
            if row.name.endswith((", warm", ", hot"))
            else "oracle"
        ]
        found[row.name] = {p: row.parts[p] - oracle.parts[p] for p in PARTS}
    return found


def _spares_needed(scenario: Scenario) -> int:
    """Poisson: hosts that fail × the time until another one has come."""
    rates = scenario.all_rates.per_node_second
    hosts = sum(rate for name, rate in rates.items() if name not in _PROGRAM) * scenario.nodes
    mean = hosts * scenario.inputs["provision_new_hosts"].mean
    term = total = exp(-mean)
    count = 0
    while total < 0.999:
        count += 1
        term *= mean / count
        total += term
    return count


_PROGRAM = frozenset({"software_bug", "nccl_watchdog_unknown", "dependency", "planned"})
