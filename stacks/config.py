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
from stacks.regions import POWERTOOLS_ACCOUNTS, partition_of

ROOT = Path(__file__).resolve().parent.parent
CONFIG_FOLDER = ROOT / "config"
ENV_NAME = re.compile(r"^[a-z][a-z0-9]{0,11}$")


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,  # TOML has types: "false" is not false, and true is not 1
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class Network(_Section):
    zones: list[str] = Field(min_length=1, max_length=6)
    cidr: str
    training_mask: int = Field(default=19, ge=16, le=26)
    """Prefix length of each zone's training subnet: a p5.48xlarge alone takes 33 addresses."""
    nat_gateways: int = Field(default=0, ge=0, le=6)
    interface_endpoints: list[str] = Field(default_factory=list)
    """Service names after ``com.amazonaws.{region}.``."""
    no_internet: bool = False
    """Refuse what would need the internet: no NAT, and every endpoint that training uses."""
    vpc_id: Annotated[str, StringConstraints(pattern=r"^vpc-[0-9a-f]{8,17}$")] | None = None
    """Use this VPC instead of making one; ``cidr`` is then its own. Endpoints in it are its own."""
    subnet_ids: dict[str, Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]{8,17}$")]] = (
        Field(default_factory=dict)
    )
    """With ``vpc_id``: the training subnet of each zone, each at least ``training_mask`` large."""


class FileSystem(_Section):
    """FSx for Lustre. Which fields go together: ``stacks.file_system_rules``."""

    deployment: Literal["PERSISTENT_2", "SCRATCH_2"] = "PERSISTENT_2"
    storage: Literal["SSD", "INTELLIGENT_TIERING"] = "SSD"
    zone: str | None = None
    """The first of ``network.zones`` where none is given. Lustre lies in one zone."""
    capacity_gib: int | None = Field(default=None, le=2_147_483_647)
    """SSD only; intelligent tiering grows by itself."""
    throughput_mbps_per_tib: int | None = None
    """PERSISTENT_2 on SSD only."""
    throughput_mbps: int | None = None
    """Intelligent tiering only: of the whole file system."""
    read_cache_gib: int | None = None
    """Intelligent tiering only; sized with the throughput where none is given."""
    efa: bool = False
    checkpoints: bool = False
    """Keep checkpoints of runs with ``checkpoint.storage`` ``fsx`` below ``/checkpoints/{team}``,
    which is linked to the team's part of the checkpoint bucket, with nothing exported by itself."""
    export: bool = False
    """Also link ``/exports/{team}`` to the output bucket: what a job puts there goes to S3 by
    itself, in no order that a manifest could rely on."""


KeyArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-z0-9-]+$")
]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]


class Existing(_Section):
    """What a former stack left, to go on with instead of making it anew: used as it is, owned by no
    stack, deleted by none. ``everstep destroy`` prints this section."""

    data_bucket: BucketName | None = None
    checkpoint_bucket: BucketName | None = None
    output_bucket: BucketName | None = None
    data_key: KeyArn | None = None
    """Of these three, whose objects it encrypts."""
    table: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{3,255}$")] | None = None
    table_key: KeyArn | None = None
    file_system_id: Annotated[str, StringConstraints(pattern=r"^fs-[0-9a-f]{8,21}$")] | None = None
    file_system_mount: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,8}$")] | None = None
    """Lustre's mount name."""


class Planned(_Section):
    """The largest run that this environment is made for: sizes and zones are checked with it."""

    instance_type: str
    nodes: int = Field(default=1, ge=1, le=5000)
    zone: str | None = None
    purchase: Literal["on_demand", "spot", "training_plan"] = "on_demand"
    warm_pool_seconds: int = Field(default=0, ge=0, le=3600)
    data_mode: Literal["s3", "file", "fastfile", "fsx"] = "file"
    efa: bool = True
    """Whether its hosts need EFA: more than one node of a type that has it."""


class Images(_Section):
    """What training runs in: docs/images.md."""

    base: Literal["cuda", "dlc"] = "cuda"
    """What CodeBuild builds on: NVIDIA's CUDA image, or AWS's Deep Learning Container."""
    torch: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+$")] = "2.13"
    """Of the Deep Learning Container; the CUDA image's is in containers/versions.toml."""
    critical_findings: Literal["warn", "refuse"] = "warn"
    """Of the registry's scan, once its image is asked for: a line in the log, or no run."""


class Access(_Section):
    """Who may take the roles for people."""

    principals: list[
        Annotated[
            str,
            StringConstraints(
                pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+$"
            ),
        ]
    ] = Field(default_factory=list, max_length=10)
    """Empty: identities of this account that IAM allows to assume the role. A researcher's identity
    carries the tag ``team``, and passes it as a session tag."""


class Budget(_Section):
    """A monthly cost budget over everything tagged as this environment's."""

    monthly_usd: float = Field(ge=1, le=1e9)
    alert_percent: list[Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=lambda: [50, 80, 100], min_length=1, max_length=5
    )


class TeamConfig(_Section):
    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=20)]
    adopt_job_roles: list[
        Annotated[
            str,
            StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$"),
        ]
    ] = Field(default_factory=list, max_length=20)
    """Roles whose failed jobs, made elsewhere and tagged, the team's machine takes over."""
    remote_debug: bool = False
    """Runs may ask for a way in (``service.remote_debug``), and the team's researchers may use it:
    docs/capacity.md."""


class Watchdog(_Section):
    period_seconds: int = Field(default=60, ge=1, le=3600)
    heartbeat_seconds: int = Field(default=300, ge=5, le=86_400)
    looks_at_once: int = Field(default=16, ge=1, le=32)
    """Runs that one pass looks at beside each other; a pass has a minute."""

    @property
    def schedule_minutes(self) -> int:
        """EventBridge's least is one minute; a shorter period is the emulator's own to keep."""
        return max(1, -(-self.period_seconds // 60))


class Lambdas(_Section):
    powertools_layer: Annotated[
        str, StringConstraints(pattern=r"^arn:.+:layer:[A-Za-z0-9_-]+:[0-9]+$")
    ]
    """ARN with ``{partition}``, ``{region}`` and ``{publisher}`` (Powertools' account there),
    version pinned. May be a layer of your own."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class Config(_Section):
    """One environment."""

    account: Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
    network: Network
    teams: list[TeamConfig] = Field(min_length=1, max_length=14)
    """With more, the handlers' policies outgrow what IAM takes of one role."""
    lambdas: Lambdas
    removal: Literal["retain", "destroy"] = "retain"
    log_retention_days: int = 90
    alarm_email: (
        Annotated[
            str,
            StringConstraints(pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$"),
        ]
        | None
    ) = None
    file_system: FileSystem | None = None
    run_file_systems: bool = False
    """Runs may make scratch file systems of their own (``data.scratch_gib``), deleted after."""
    existing: Existing = Existing()
    planned: Planned | None = None
    budget: Budget | None = None
    images: Images = Images()
    access: Access = Access()
    watchdog: Watchdog = Watchdog()
    continue_after_turns: int = Field(default=60, ge=2, le=60)
    """Launches and inspections of one execution before its run goes on as a new execution."""
    runbook_url: Annotated[
        str,
        StringConstraints(
            pattern=r"^(https?://)?[A-Za-z0-9][A-Za-z0-9._~/?=&%:@+-]*$", max_length=300
        ),
    ] = "docs/runbook.md"
    """A page, or a path in your repository: what messages link to, with the class as anchor."""
    prices_usd: dict[str, Annotated[float, Field(gt=0, le=1e5, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    rules: list[UserRule] = Field(default_factory=list)
    """Failure rules of your own: see docs/runbook.md#rules-of-your-own."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=20)
    """On every resource, job and file system, for cost allocation: with a spec's 20 and our own
    they are fewer than the 50 that a job can have."""

    @property
    def retain(self) -> bool:
        return self.removal == "retain"

    @property
    def partition(self) -> str:
        return partition_of(self.region)

    @property
    def file_system_zone(self) -> str:
        given = self.file_system.zone if self.file_system else None
        return given or self.network.zones[0]

    @property
    def powertools_layer(self) -> str:
        return self.lambdas.powertools_layer.format(
            partition=self.partition,
            region=self.region,
            publisher=POWERTOOLS_ACCOUNTS.get(self.region, ""),
        )


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
            # A rule's class and action are words in TOML; all else has TOML's own types.
            strict = None if name == "rules" else True
            sections[name] = _adapter(field).validate_python(raw[name], strict=strict)
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
    "existing": Existing,
    "planned": Planned,
    "budget": Budget,
    "access": Access,
    "images": Images,
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
            said = item["msg"].removeprefix("Value error, ")
            message = said[0].lower() + said[1:]
            yield Problem(
                path=path, value=item["input"], message=message, hint="see config/dev.toml"
            )
