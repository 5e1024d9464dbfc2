"""``config/{env}.toml`` → ``Config``: the only home of accounts, regions and sizes.

``load`` returns every problem at once, in the shape that run specs use too. Nothing here calls AWS.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from everstep.contracts.failures import UserRule
from everstep.contracts.problems import Problem
from stacks.config_rules import RULES

ROOT = Path(__file__).resolve().parent.parent
CONFIG_FOLDER = ROOT / "config"
ENV_NAME = re.compile(r"^[a-z][a-z0-9]{0,11}$")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Network(_Section):
    zones: list[str] = Field(min_length=1, max_length=6)
    cidr: str
    training_mask: int = Field(default=19, ge=16, le=26)
    """Prefix length of each zone's training subnet: a p5.48xlarge alone takes 33 addresses."""
    nat_gateways: int = Field(default=0, ge=0, le=6)
    interface_endpoints: list[str] = Field(default_factory=list)
    """Service names after ``com.amazonaws.{region}.``."""


class FileSystem(_Section):
    """FSx for Lustre, PERSISTENT_2, in the first zone."""

    capacity_gib: int = Field(ge=1200)
    throughput_mbps_per_tib: int
    efa: bool = False


class TeamConfig(_Section):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=20)]
    adopt_job_roles: list[
        Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$")]
    ] = Field(default_factory=list, max_length=20)
    """Roles whose failed jobs, made elsewhere and tagged, the team's machine takes over."""


class Watchdog(_Section):
    period_seconds: int = Field(default=60, ge=1, le=3600)
    heartbeat_seconds: int = Field(default=300, ge=5)

    @property
    def schedule_minutes(self) -> int:
        """EventBridge's least is one minute; a shorter period is the emulator's own to keep."""
        return max(1, -(-self.period_seconds // 60))


class Lambdas(_Section):
    powertools_layer: Annotated[
        str, StringConstraints(pattern=r"^arn:.+:layer:[A-Za-z0-9_-]+:\d+$")
    ]
    """ARN with ``{partition}`` and ``{region}``, version pinned. May be a layer of your own."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class Config(_Section):
    """One environment."""

    account: Annotated[str, StringConstraints(pattern=r"^\d{12}$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
    network: Network
    teams: list[TeamConfig] = Field(min_length=1, max_length=20)
    lambdas: Lambdas
    removal: Literal["retain", "destroy"] = "retain"
    log_retention_days: int = 90
    alarm_email: Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = (
        None
    )
    file_system: FileSystem | None = None
    watchdog: Watchdog = Watchdog()
    continue_after_turns: int = Field(default=150, ge=2, le=400)
    """Launches and inspections of one execution before its run goes on as a new execution."""
    runbook_url: str = "docs/runbook.md"
    prices_usd: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    rules: list[UserRule] = Field(default_factory=list)
    """Failure rules of your own: see docs/runbook.md#rules-of-your-own."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=40)

    @property
    def retain(self) -> bool:
        return self.removal == "retain"

    @property
    def partition(self) -> str:
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    @property
    def powertools_layer(self) -> str:
        return self.lambdas.powertools_layer.format(partition=self.partition, region=self.region)


def environments() -> list[str]:
    return sorted(path.stem for path in CONFIG_FOLDER.glob("*.toml"))


def load(env: str, folder: Path = CONFIG_FOLDER) -> tuple[Config | None, list[Problem]]:
    """A config only when there is no problem at all."""
    path = folder / f"{env}.toml"
    if not ENV_NAME.match(env) or not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.toml"))
        hint = f"one of {', '.join(known)}: cdk … -c env={known[0] if known else 'dev'}"
        return None, [Problem(path="env", value=env, message="no such environment", hint=hint)]
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return None, [Problem(path=str(path), message=f"is not TOML: {error}", hint="see dev.toml")]
    return check(raw)


def check(raw: Mapping[str, Any]) -> tuple[Config | None, list[Problem]]:
    """Sections are parsed one by one, so that a wrong one does not hide the others' problems."""
    problems = [_unknown(key, raw[key], Config) for key in raw if key not in Config.model_fields]
    sections: dict[str, Any] = {}
    for name, field in Config.model_fields.items():
        if name not in raw:
            if field.is_required():
                problems.append(
                    Problem(path=name, message="is required", hint="see config/dev.toml")
                )
            else:
                sections[name] = field.get_default(call_default_factory=True)
            continue
        try:
            sections[name] = _adapter(field).validate_python(raw[name])
        except ValidationError as error:
            problems.extend(_from_pydantic(name, error))
    for rule in RULES:
        problems.extend(rule(sections))
    return (None, problems) if problems else (Config(**sections), [])


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    return TypeAdapter(annotation)


def _unknown(path: str, value: Any, model: type[BaseModel]) -> Problem:
    near = get_close_matches(path.rsplit(".", 1)[-1], model.model_fields, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(model.model_fields)}"
    return Problem(path=path, value=value, message="unknown field", hint=hint)


MODELS: dict[str, type[BaseModel]] = {
    "network": Network,
    "file_system": FileSystem,
    "teams": TeamConfig,
    "watchdog": Watchdog,
    "lambdas": Lambdas,
    "rules": UserRule,
}


def _from_pydantic(name: str, error: ValidationError) -> Iterator[Problem]:
    for item in error.errors(include_url=False):
        path = ".".join([name, *(str(part) for part in item["loc"])])
        if item["type"] == "extra_forbidden":
            yield _unknown(path, item["input"], MODELS[name])
        elif item["type"] == "missing":
            yield Problem(path=path, message="is required", hint="see config/dev.toml")
        else:
            message = item["msg"][0].lower() + item["msg"][1:]
            yield Problem(
                path=path, value=item["input"], message=message, hint="see config/dev.toml"
            )
