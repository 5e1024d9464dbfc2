"""What ``everstep plan`` foretells of one place, each figure with where it comes from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from everstep.cli.errors import fail
from everstep.cli.output import say
from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.run_spec import RunSpec
from everstep.policy import cost, forecast, prices
from everstep.policy.forecast import Pace, Saving
from everstep.policy.own_file_system import PRICE, planned_usd
from everstep.policy.quota import needs_of
from everstep.report.words import count, seconds, share

GIB = 2**30
DAY = 86_400.0
LONGEST_DAYS = 1000.0
SEEDS = 20
LONG = 100
"""Failures a run, from which on a person is told to wait."""
SPOT = "spot_reclaims_per_node_month"
FIRST_START = ("provision_new_hosts", "load", "first_step")
"""Of the simulator's table: what a run's first launch takes before its first step."""


class Figure(NamedTuple):
    """``value`` for a program, ``text`` for a person, ``source`` for whoever doubts it."""

    value: Any
    text: str
    source: str


Figures = dict[str, Figure]


class Asked(NamedTuple):
    """What the command line says beside the spec."""

    mfu: float | None
    tokens_per_s: float | None
    rates: str
    quotas: Mapping[str, float] | None
    """Held, by name. None: not asked."""
    not_asked: str
    prices_usd: Mapping[str, float]
    """Of config."""


def figures(spec: RunSpec, number: int, asked: Asked) -> Figures:
    """Of ``compute[number]`` alone."""
    target = spec.compute[number]
    best = forecast.pace(spec, target, asked.mfu or forecast.MFU, asked.tokens_per_s)
    expected = None if best is None else _Expected(spec, number, best, asked)
    stall, durable = _save_costs()
    save = forecast.saving(spec, target, stall, durable, best.step_seconds if best else None)
    found = {**_pace(best, asked), **_saving(spec, number, save)}
    found |= expected.figures() if expected else {}
    found |= _prices(spec, number, asked)
    if best is not None and expected is not None:
        found |= _cost(spec, number, best, expected, asked)
    return found | _quotas(spec, number, asked)


def _pace(best: Pace | None, asked: Asked) -> Figures:
    if best is None:
        why = (
            "no accelerator of a known peak, fp32 (the known peaks are bf16's), or a program of "
            "your own: say --tokens-per-s"
        )
        return {"tokens_per_s": Figure(None, "not foretold", why)}
    if asked.tokens_per_s is not None:
        by, rate_source = "measured", "--tokens-per-s"
    else:
        mfu = asked.mfu or forecast.MFU
        by = f"at MFU {mfu:g}" + ("" if asked.mfu else ", assumed")
        rate_source = (
            f"MFU {mfu:g} × {best.peak_flops or 0:.3g} FLOP/s (dense bf16, all GPUs: "
            f"everstep/contracts/flops.py) ÷ {best.flops_per_token:.3g} FLOP a token (PaLM, "
            "appendix B; 4 a frozen weight); MFU "
            + ("by --mfu" if asked.mfu else forecast.MFU_SOURCE)
        )
    return {
        "tokens": Figure(
            best.tokens,
            f"{count(best.tokens)} tokens",
            "(stop.steps − start.checkpoint's) × global_batch × sequence_length",
        ),
        "tokens_per_s": Figure(
            best.tokens_per_s, f"{count(best.tokens_per_s)} tokens/s, {by}", rate_source
        ),
        "step_seconds": Figure(
            best.step_seconds, seconds(best.step_seconds), "tokens a step ÷ tokens/s"
        ),
        "training_seconds": Figure(
            best.train_seconds,
            seconds(best.train_seconds),
            "steps × step time: no failure, no save",
        ),
    }


def usd(amount: float) -> str:
    """Below one, three digits that count."""
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.3g}"


def _size(size: int) -> str:
    return f"{size / GIB:,.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.1f} MiB"


def _saving(spec: RunSpec, number: int, save: Saving) -> Figures:
    target = spec.compute[number]
    if not forecast.of_ours(spec):
        why = "a program of your own writes what it likes, when it likes: docs/trainer-contract.md"
        return {"checkpoint_bytes": Figure(None, "not foretold", why)}
    host = INSTANCE_TYPES[target.instance_type].host_gib * GIB
    per = forecast.BYTES_A_WEIGHT[spec.train.optimizer]
    kept = (
        f"one checkpoint ÷ {target.nodes} hosts: the copy of an asynchronous save stays resident, "
        f"reused by the next; of {host / GIB:,.0f} GiB. Loaders and the framework come on top"
    )
    held = save.host_bytes / host
    return {
        "checkpoint_bytes": Figure(
            save.bytes,
            _size(save.bytes),
            f"{per} bytes a trained weight: fp32, and AdamW's two moments; SGD has none",
        ),
        "checkpoint_host_bytes": Figure(
            save.host_bytes,
            f"{_size(save.host_bytes)} of host memory ({share(held)})"
            + ("" if held < 0.8 else ": too much, take more hosts or a larger type"),
            kept,
        ),
        "checkpoint_interval_seconds": Figure(
            save.interval_seconds or None,
            f"{seconds(save.interval_seconds)}: {save.reason}"
            if save.interval_seconds
            else f"{save.reason}; a step's time is not foretold",
            "policy/checkpoint_interval.py; a save's stall and duration are the simulator's, "
            "published for a 7B model (everstep/simulate/data/inputs.json)",
        ),
    }


class _Expected:
    """The simulator's answer, driven by the production policy."""

    def __init__(self, spec: RunSpec, number: int, best: Pace, asked: Asked) -> None:
        # numpy and the simulator take a second to import
        from everstep.simulate.inputs import load_inputs, load_rates
        from everstep.simulate.scenario import MOST_FAILURES, Scenario, interval_of
        from everstep.simulate.study import expected

        alone = spec.model_copy(update={"compute": [spec.compute[number]]})
        self.days = min(LONGEST_DAYS, max(0.1, best.train_seconds / DAY))
        scenario = Scenario(
            spec=alone,
            days=self.days,
            rates=load_rates(asked.rates),
            inputs=load_inputs(),
            interval=0.0,
            seeds=SEEDS,
        ).setting(step=best.step_seconds)
        if scenario.failures > MOST_FAILURES:
            fail(
                f"{scenario.failures:,.0f} failures over {self.days:,.0f} days",
                f"at most {MOST_FAILURES:,} are simulated: lower --rates",
            )
        scenario = replace(scenario, interval=interval_of(alone, scenario.inputs))
        if scenario.horizon > LONG * scenario.mtbf:
            where = f"{scenario.nodes:,} hosts for {self.days:,.0f} days"
            say(f"simulating {SEEDS} runs on {where}: some seconds")
        self.spot = f"; spot: {scenario.inputs[SPOT].source}" if scenario.spot else ""
        self.row, self.rates = expected(scenario), scenario.rates
        self.goodput = max(self.row.goodput, 1e-3)
        self.train_seconds = best.train_seconds
        runs = self.train_seconds / self.goodput / DAY / self.days
        self.failures = (self.row.interruptions - self.row.run_times) * runs
        self.run_times = self.row.run_times * runs
        self._start = [(name, scenario.inputs[name]) for name in FIRST_START]
        self.wall_seconds = self._first_seconds + self.train_seconds / self.goodput

    @property
    def _first_seconds(self) -> float:
        return sum(figure.mean for _, figure in self._start)

    def figures(self) -> Figures:
        by = (
            f"{SEEDS} simulated runs of {self.days:.1f} days by the production policy "
            f"(everstep simulate --spec …); rates {self.rates.name}: {self.rates.source}{self.spot}"
        )
        lost = sorted(
            ((part, value) for part, value in self.row.parts.items() if part != "useful" and value),
            key=lambda one: -one[1],
        )
        eaten = ", ".join(f"{part} {share(value)}" for part, value in lost[:4])
        low, high = (sum(getattr(x, end) for _, x in self._start) for end in ("low", "high"))
        each = "; ".join(
            f"{n} {x.low:g} to {x.high:g} s, {x.kind}: {x.source}" for n, x in self._start
        )
        return {
            "first_start_seconds": Figure(
                self._first_seconds,
                f"{seconds(self._first_seconds)} ({seconds(low)} to {seconds(high)})",
                f"as a restart on new hosts in everstep simulate: {each}. The image's pull is "
                "taken to be in it; waiting for capacity, and a copy of the data to the hosts "
                "(file mode), are not",
            ),
            "expected_failures": Figure(
                self.failures,
                (f"{self.failures:,.1f}" if self.failures >= 1 else f"{self.failures:.2g}")
                + " over the run"
                + (f"; {self.run_times:,.1f} ends of a job's run time" if self.run_times else ""),
                f"{by}; at the end of stop.max_runtime_hours a next job goes on",
            ),
            "expected_goodput": Figure(
                self.goodput,
                f"{share(self.row.goodput)} ({share(self.row.p5)} to {share(self.row.p95)}); "
                f"the rest: {eaten or 'nothing'}",
                f"{by}; 5th and 95th percentile of single runs; of the clock, waiting included",
            ),
            "duration_seconds": Figure(
                self.wall_seconds,
                seconds(self.wall_seconds),
                "first start + training time ÷ expected goodput",
            ),
        }


def _prices(spec: RunSpec, number: int, asked: Asked) -> Figures:
    name = spec.compute[number].instance_type
    known, own = prices.PRICES.get(name), asked.prices_usd.get(name)
    found: Figures = {}
    if own is not None:
        found["on_demand_usd_hour"] = Figure(
            own, f"{usd(own)} USD (config)", "prices_usd of config: yours"
        )
    elif known is not None:
        found["on_demand_usd_hour"] = Figure(
            known.on_demand,
            f"{usd(known.on_demand)} USD ({prices.on_demand_date(name)})",
            f"{prices.on_demand_source(name)}; table read {prices.READ}",
        )
    else:
        found["on_demand_usd_hour"] = Figure(
            None, "unknown", f"not in the table of {prices.READ}: add it to config's prices_usd"
        )
    spot, plan = (known.spot, known.plan) if known else (None, None)
    found["spot_usd_hour"] = Figure(
        spot,
        f"{usd(spot[0])} to {usd(spot[1])} USD ({prices.SPOT_DATE})"
        if spot
        else "unknown: a market's price",
        f"{prices.SPOT_OF}; table read {prices.READ}",
    )
    found["plan_usd_hour"] = Figure(
        plan,
        f"{usd(plan)} USD ({prices.PLAN_DATE})" if plan else "unknown",
        f"{prices.PLAN_OF}; table read {prices.READ}",
    )
    return found


def _hourly(spec: RunSpec, number: int, found: Figures) -> tuple[float, float] | None:
    """USD an hour of one host, from … to, as the place is bought."""
    key = {"on_demand": "on_demand", "spot": "spot", "training_plan": "plan"}
    value = found[f"{key[spec.compute[number].purchase]}_usd_hour"].value
    if value is None:
        return None
    return value if isinstance(value, tuple) else (value, value)


def _cost(spec: RunSpec, number: int, best: Pace, expected: _Expected, asked: Asked) -> Figures:
    target = spec.compute[number]
    hours = best.train_seconds / 3600 / expected.goodput * target.nodes
    accelerators = max(1, INSTANCE_TYPES[target.instance_type].accelerators)
    found = {
        "gpu_hours": Figure(
            hours * accelerators,
            f"{count(hours * accelerators)} {cost.hours([target])}",
            "duration but for the first start × hosts × accelerators",
        )
    }
    price = _hourly(spec, number, _prices(spec, number, asked))
    given = asked.tokens_per_s is not None or asked.mfu is not None
    slow, fast = (1.0, 1.0)
    if not given:
        slow, fast = forecast.MFU / forecast.MFU_RANGE[0], forecast.MFU / forecast.MFU_RANGE[1]
    if price is None:
        return {**found, "cost_usd": Figure(None, "unknown", "no price of this purchase is known")}
    found |= (lustre := _own_file_system(spec, hours / target.nodes, asked))
    row, middle = expected.row, sum(price) / 2
    own = sum(figure.value for figure in lustre.values()) / hours
    low = (price[0] + own) * hours * fast * expected.goodput / max(row.p95, 1e-3)
    high = (price[1] + own) * hours * slow * expected.goodput / max(row.p5, 1e-3)
    whole = (middle + own) * hours
    text = (
        f"{count(whole)} USD ({count(low)} to {count(high)}), {target.purchase.replace('_', ' ')}"
    )
    source = (
        "price × hosts × duration but for the first start"
        f"{', and its own file system' if lustre else ''}; from "
        + ("" if given else f"MFU {forecast.MFU_RANGE[1]:g}, ")
        + "the 95th percentile of goodput and the lowest price to "
        + ("" if given else f"MFU {forecast.MFU_RANGE[0]:g}, ")
        + "the 5th and the highest. Waiting for capacity is counted though it is not billed; "
        f"{'other ' if lustre else ''}storage, warm pools and groups beside the training hosts "
        "are not"
    )
    found["cost_usd"] = Figure({"expected": whole, "low": low, "high": high}, text, source)
    return found


def _own_file_system(spec: RunSpec, hours: float, asked: Asked) -> Figures:
    """Made before the hosts are paid for, and deleted after them: the minutes between are left
    out."""
    size = spec.data.scratch_gib
    if size is None:
        return {}
    own = asked.prices_usd.get(PRICE)
    price = prices.LUSTRE_SCRATCH if own is None else own
    usd = planned_usd(size, hours, price)
    return {
        "file_system_usd": Figure(
            usd,
            f"{count(usd)} USD: {size:,} GiB for as long as the run takes",
            f"GiB × duration but for the first start × {price:g} USD a GiB and month ÷ 730 h; "
            + (prices.LUSTRE_OF if own is None else "prices_usd of config: yours"),
        )
    }


def _quotas(spec: RunSpec, number: int, asked: Asked) -> Figures:
    found = {}
    for need in needs_of(spec, spec.compute[number]):
        held = None if asked.quotas is None else asked.quotas.get(need.quota)
        if asked.quotas is None:
            state = f"held: not asked ({asked.not_asked})"
        elif held is None:
            state = "held: no such quota is listed"
        else:
            state = f"held {held:g}" + ("" if held >= need.amount else ": too small")
        found[f"quota: {need.quota}"] = Figure(
            {"needed": need.amount, "held": held},
            f"needs {need.amount:g}, {state}",
            "policy/quota.py; held: Service Quotas, service code sagemaker",
        )
    return found


def _save_costs() -> tuple[float, float]:
    """Stall and duration of a save, as the simulator takes them."""
    from everstep.simulate.inputs import load_inputs

    inputs = load_inputs()
    return inputs["stall"].mean, inputs["durable"].mean
