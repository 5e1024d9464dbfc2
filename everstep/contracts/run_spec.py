"""RunSpec: what a user asks for. The execution input is this, inline or as ``{"spec": "s3://…"}``."""

import warnings
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    StringConstraints,
)

from everstep.contracts.training_spec import (
    Begin,
    Checkpoint,
    Count,
    Data,
    Guard,
    Model,
    Parallelism,
    Report,
    Section,
    Train,
)


class Group(Section):
    """Hosts of another type in the same job."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
    instance_type: str
    count: int = Field(default=1, ge=1, le=5000)


TRAIN_GROUP = "train"
"""The group of a target's own ``instance_type`` and ``nodes``, where there are others."""


class Target(Section):
    """One way to get machines. The list in ``compute`` is tried in order."""

    instance_type: str
    nodes: int = Field(default=1, ge=1, le=5000)
    purchase: Literal["on_demand", "spot", "training_plan"] = "on_demand"
    training_plan_arn: str | None = None
    zone: str | None = None
    """An Availability Zone name. Null: the stack's first training subnet; the plan's own zone with
    a training plan."""
    volume_gib: int = Field(default=100, ge=1, le=16384)
    warm_pool_seconds: int = Field(default=0, ge=0, le=3600)
    groups: list[Group] = Field(default=[], max_length=4)
    """Hosts beside those that train: a heterogeneous cluster, whose training group is ``train``.
    Every host starts the same program, which finds its group in ``resourceconfig.json``."""
    data_groups: list[str] = Field(default=[], max_length=5)
    """Groups that get the data channel. Empty: all."""

    @property
    def hosts(self) -> int:
        """Of the whole job."""
        return self.nodes + sum(group.count for group in self.groups)


class Retry(Section):
    max_attempts: int = Field(default=20, ge=1, le=1000)
    """Attempts, the first included. One that committed a new checkpoint and trained for 15 minutes
    counts as the first again. 1: never another attempt. What a run may cost in all is ``budget``'s.
    """
    no_progress_limit: int = Field(default=2, ge=1, le=20)
    """Give up after this many attempts in a row that committed no new checkpoint: three times as
    many after faults of hosts, which may come in a row by chance, five times after interruptions.
    Failures of a more patient kind do not count."""
    backoff_seconds: float = Field(default=30, ge=0)
    backoff_cap_seconds: float = Field(default=1800, ge=0)
    wait_deadline_hours: float = Field(default=168, gt=0)
    """Longest total wait for quota or capacity before giving up."""
    service_restarts: int = Field(default=0, ge=0, le=30)
    """SageMaker's RetryStrategy: restarts of one job on repaired hosts after an internal error."""
    straggler_restarts: int = Field(default=1, ge=0, le=20)
    """Moves away from a slow host, over the whole run; after these it is only reported."""


class Stop(Section):
    steps: Count = Field(ge=1, le=1_000_000_000)
    max_runtime_hours: float = Field(default=120, gt=0, le=672)
    """SageMaker's MaxRuntimeInSeconds of one job: the run goes on in a next one."""


class Budget(Section):
    max_usd: float | None = Field(default=None, gt=0)
    max_gpu_hours: float | None = Field(default=None, gt=0)
    """Counted in instance-hours × GPUs (instance-hours on CPU types)."""
    deadline: AwareDatetime | None = None
    """No job runs after this time: ISO 8601 with a time zone, ``2027-01-31T18:00:00Z``."""
    warn_at: float = Field(default=0.8, gt=0, le=1)
    """One message when this share of any limit is used."""


class Quota(Section):
    request_increase: bool = False
    """Where a quota can never hold the run: ask AWS for an increase, once, and wait for the answer,
    at most ``retry.wait_deadline_hours``. Otherwise the run is refused with the arithmetic."""


class Notify(Section):
    on: list[Literal["done", "give_up", "retry", "wait", "budget"]] = Field(
        default=["done", "give_up", "budget"]
    )


class Watch(Section):
    """Seconds a job may spend in each phase before it counts as hung; and what else is ill."""

    pending: int = Field(default=2_419_200, ge=1)
    starting: int = Field(default=3600, ge=1)
    downloading: int = Field(default=7200, ge=1)
    warmup: int = Field(default=3600, ge=1)
    step: int | None = Field(default=None, ge=1)
    """Null: ``step_factor`` × the median of the run's own recent steps, between the floor and the
    ceiling; the ceiling until a step's time is known."""
    step_factor: float = Field(default=20, ge=2)
    step_floor: int = Field(default=600, ge=1)
    step_ceiling: int = Field(default=3600, ge=1)
    validation: int = Field(default=3600, ge=1)
    save: int = Field(default=3600, ge=1)
    uploading: int = Field(default=7200, ge=1)
    stopping: int = Field(default=1800, ge=1)
    silence: int | None = Field(default=None, ge=1)
    """A running container whose hosts all log nothing for so long is hung. Null: not asked."""
    idle: int | None = Field(default=1800, ge=60)
    """GPUs that are idle for so long while the trainer says that it steps. Null: not asked."""
    idle_percent: float = Field(default=5, ge=0, le=100)
    """Idle: the sum of a host's GPU utilisation stays below this."""
    straggler_ratio: float = Field(default=1.5, gt=1)
    """A rank whose step takes this many times the median …"""
    straggler_reports: int = Field(default=5, ge=1)
    """… in so many reports in a row is a straggler."""


# ABCMeta.register, which nobody calls on a spec.
warnings.filterwarnings("ignore", 'Field name "register" in "Finish" shadows')


class Finish(Section):
    """What follows training. Nothing, unless asked for: the smallest spec just trains."""

    export: bool = False
    """Write the final weights as safetensors, in Hugging Face's Llama layout, to the output."""
    register: bool = False
    """Make the export a version in the team's model package group. Needs ``export``."""
    instance_type: str = "ml.m5.2xlarge"
    """Of the export job, one instance: memory holds a shard (4 GB) and one tensor."""
    dtype: Literal["bf16", "fp32"] | None = None
    """``train.dtype`` where it is not given; bf16 after fp8."""
    max_attempts: int = Field(default=3, ge=1, le=10)
    """Tries of the export. They touch none of training's."""
    max_runtime_hours: float = Field(default=6, gt=0, le=120)
    """Of one try: an export has no other time budget."""
    image: str | None = None
    """``trainer.image`` where it is not given."""
    command: list[str] = Field(default=["python", "-m", "trainer.export"], min_length=1)
    """Gets CHECKPOINT_URI, OUT_URI, --dtype, --dataset (of LoRA --weights too); writes
    ``export.json`` last."""
    inference_image: str | None = None
    """Image that serves the registered model; without it a version holds weights alone."""


class Service(Section):
    """Switches of SageMaker's own around each training job: docs/capacity.md."""

    infra_check: bool = True
    """Health check of the hosts' GPUs before training; not on warm hosts, nor on CPU types."""
    profiler: bool = False
    """SageMaker Debugger's system monitoring: CPU, GPU, network and disk of every host twice a
    second, to the run's output. No rule is attached: each would cost a processing instance a job.
    """
    remote_debug: bool = False
    """Let a person look into a running container (``everstep shell``). The environment's config
    must allow it for the team."""


class Trainer(Section):
    image: str = "trainer:stable"
    """``repository:tag`` in the account's registry, or a whole image URI."""
    launcher: Literal["none", "torchrun", "mpi"] = "none"
    """``none``: ``command`` is the container's entry point, the same on every host. ``torchrun``:
    ``command`` is the program and its arguments; torchrun, nodes, processes and rendezvous come
    before it. ``mpi``: the same under mpirun, in an image with SageMaker's training toolkit."""
    command: list[str] = Field(default=["python", "-m", "trainer.launch"])
    """Anything that keeps the contract of docs/trainer-contract.md."""
    environment: dict[str, str] = Field(default_factory=dict)
    hyperparameters: dict[str, str] = Field(default_factory=dict)


def _preset(value: Any) -> Any:
    return {"preset": value} if isinstance(value, str) else value


def _prefix(value: Any) -> Any:
    return {"prefix": value} if isinstance(value, str) else value


class RunSpec(Section):
    """One run. ``model`` and ``data`` may be given as plain strings (preset, prefix)."""

    model: Annotated[Model, BeforeValidator(_preset)]
    data: Annotated[Data, BeforeValidator(_prefix)]
    compute: Annotated[list[Target], Field(min_length=1, max_length=16)]
    stop: Stop
    start: Begin = Begin()
    parallelism: Parallelism = Parallelism()
    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
    guard: Guard = Guard()
    retry: Retry = Retry()
    budget: Budget = Budget()
    quota: Quota = Quota()
    report: Report = Report()
    notify: Notify = Notify()
    watch: Watch = Watch()
    finish: Finish = Finish()
    service: Service = Service()
    trainer: Trainer = Trainer()
    tags: dict[str, str] = Field(default_factory=dict, max_length=20)

    def target(self, index: int) -> Target:
        return self.compute[index % len(self.compute)]
