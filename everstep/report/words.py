"""Figures as a person reads them."""

from datetime import UTC, datetime

from everstep.policy.cost import Spend
from everstep.report.waterfall import Part

PARTS: dict[Part, tuple[str, str]] = {
    Part.USEFUL: ("Useful", "steps that the weights are made of"),
    Part.RECOMPUTED: ("Recomputed", "steps that were lost and done again"),
    Part.CHECKPOINT: ("Checkpoint", "steps that waited for a checkpoint's copy"),
    Part.START: ("First start", "from acceptance to the first step"),
    Part.RESTART: ("Restart", "from a failure to the next step: notice, decide, provision, load"),
    Part.WAITING: ("Waiting", "for quota or capacity"),
    Part.HANG: ("Hang", "from the last step until the hang was stopped"),
    Part.OTHER: ("Other", "validation, last save, upload, export; what no step line accounts for"),
}


def seconds(value: float | None) -> str:
    """The two largest units: ``9 ms``, ``41.3 s``, ``12 min 5 s``, ``3 d 4 h``."""
    if value is None:
        return "unknown"
    if 0 < value < 0.05:
        return f"{1000 * value:.2g} ms"
    if value < 60:
        return f"{value:.1f} s"
    whole = round(value)
    for size, unit, small, below in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def count(value: float | None) -> str:
    """``1,234``; below a hundred ``0.42``; from a million on with a word."""
    if value is None:
        return "unknown"
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    if abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def clock(epoch: float | None) -> str:
    if epoch is None:
        return "not over"
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"


def money(spend: Spend) -> str:
    return "price unknown" if spend.usd is None else f"{spend.usd:,.2f} USD"


def loss(value: float | None) -> str:
    """Four digits; of one that has run away, four that say something."""
    if value is None:
        return "unknown"
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4g}"
