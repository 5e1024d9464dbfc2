"""Figures and rates with their sources, read from ``data/``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
DAY = 86_400.0


class Figure(NamedTuple):
    """Uniform between ``low`` and ``high``."""

    low: float
    high: float
    kind: str
    source: str

    def at(self, u: float) -> float:
        """``u`` in [0, 1)."""
        return self.low + u * (self.high - self.low)

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    def scaled(self, factor: float) -> "Figure":
        return self._replace(low=self.low * factor, high=self.high * factor)


Inputs = Mapping[str, Figure]


class Rates(NamedTuple):
    """Failures a second and host, by fault; ``spread``: low, mode and high of a factor on all."""

    name: str
    source: str
    per_node_second: Mapping[str, float]
    spread: tuple[float, float, float] | None = None

    @property
    def total(self) -> float:
        """A second and host, planned stops included."""
        return sum(self.per_node_second.values())

    def scaled(self, factor: float) -> "Rates":
        scaled = {name: rate * factor for name, rate in self.per_node_second.items()}
        return self._replace(per_node_second=scaled)

    def plus(self, fault: str, per_node_second: float) -> "Rates":
        return self._replace(per_node_second={**self.per_node_second, fault: per_node_second})


def given(value: float) -> Figure:
    return Figure(value, value, "given", "by you")


def load_inputs() -> dict[str, Figure]:
    raw = _read("inputs.json")
    return {name: Figure(**row) for name, row in raw.items() if name != "about"}


def load_faults() -> dict[str, Any]:
    return _read("faults.json")


def rate_names() -> list[str]:
    return ["llama3", *_read("rates.json")["per_1000_node_days"]]


def load_rates(name: str) -> Rates:
    """``name`` of data/rates.json, or a number: failures per 1,000 node-days.

    Raises KeyError for any other name.
    """
    raw = _read("rates.json")
    llama = raw["llama3"]
    seconds = llama["nodes"] * llama["days"] * DAY
    if name == "llama3":
        counts = llama["counts"]
        return Rates(name, llama["source"], {x: n / seconds for x, n in counts.items()})
    mix = {x: n for x, n in llama["counts"].items() if x != "planned"}
    known = raw["per_1000_node_days"].get(name)
    if known is None:
        known = {"rate": _number(name), "source": "by you"}
    mode = known.get("rate", known.get("mode"))
    whole = sum(mix.values())
    rates = {x: n / whole * mode / (1000 * DAY) for x, n in mix.items()}
    spread = (known["low"] / mode, 1.0, known["high"] / mode) if "low" in known else None
    return Rates(name, f"{known['source']}; {raw['mix_source']}", rates, spread)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise KeyError(text) from None
    if not 0 <= value < 1e6:
        raise KeyError(text)
    return value


def _read(name: str) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((DATA / name).read_text())
    return whole
