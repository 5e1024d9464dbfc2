"""What an instance-hour costs, as the environment's config says it: the handlers' own figures."""

import tomllib

from everstep.cli.cloud import default_env
from everstep.cli.deploy import ROOT
from everstep.cli.errors import fail


def environments() -> list[str]:
    """Of config/; none where it is not here."""
    return sorted(path.stem for path in (ROOT / "config").glob("*.toml"))


def named_env(env: str | None) -> str:
    """The environment that was asked for, else the default one. A name that config/ does not have
    is refused: prices of nowhere would read as "none are known". No config/, no refusal."""
    known = environments()
    if env is not None and known and env not in known:
        fail(f"environment {env!r} is not in config/", f"one of {', '.join(known)}")
    return env or default_env()


def prices(env: str) -> dict[str, float]:
    """USD by instance type. Empty where config is not here, or names none: unknown, not free."""
    file = ROOT / "config" / f"{env}.toml"
    if not file.exists():
        return {}
    found = tomllib.loads(file.read_text(encoding="utf-8")).get("prices_usd", {})
    return {name: float(price) for name, price in found.items()}
