"""What an instance-hour costs, as the environment's config says it: the handlers' own figures."""

import tomllib

from everstep.cli.deploy import ROOT


def environments() -> list[str]:
    """Of config/; none where it is not here."""
    return sorted(path.stem for path in (ROOT / "config").glob("*.toml"))


def prices(env: str) -> dict[str, float]:
    """USD by instance type. Empty where config is not here, or names none: unknown, not free."""
    file = ROOT / "config" / f"{env}.toml"
    if not file.exists():
        return {}
    found = tomllib.loads(file.read_text(encoding="utf-8")).get("prices_usd", {})
    return {name: float(price) for name, price in found.items()}
