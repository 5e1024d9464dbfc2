"""The sections of a run spec that the trainer reads."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from everstep.contracts.manifest import CheckpointName
from everstep.contracts.models import ModelConfig

RUN_ID_PATTERN = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,39}$"
"""SageMaker's job-name pattern, cut to 40: ``-NNNNN`` and room for suffixes must fit in 63."""


BEGIN_PATTERN = RUN_ID_PATTERN.removesuffix("$") + r"/step-[0-9]{8}\.[0-9]{5}$"


class Section(BaseModel):
    """Unknown fields are errors: a typo must not become a default."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class Sharding(StrEnum):
    FULL_SHARD = "FULL_SHARD"
    HYBRID_SHARD = "HYBRID_SHARD"
    SHARD_GRAD_OP = "SHARD_GRAD_OP"
    NO_SHARD = "NO_SHARD"


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("is no whole number")
    return value


Count = Annotated[int, BeforeValidator(_number)]
"""A whole number; pydantic alone would take ``true`` and ``"100"`` for one."""


Steps = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*-[1-9][0-9]*$")]
"""First and last step, both included."""


class Lora(Section):
    """Low-rank adapters beside frozen matrices of the blocks; only they are trained."""

    rank: int = Field(ge=1)
    alpha: float = Field(gt=0)
    """An adapter's output is scaled by ``alpha`` ÷ ``rank``."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Of an adapter's input."""
    targets: list[Literal["wq", "wk", "wv", "wo", "w1", "w2", "w3"]] = Field(
        default=["wq", "wk", "wv", "wo"], min_length=1
    )
    """The matrices that get one: of attention, and of the feed-forward part (``w*`` 1 to 3)."""


class Model(Section):
    preset: str | None = None
    """A name of ``everstep.contracts.models.PRESETS``; or give ``config``."""
    config: ModelConfig | None = None
    vocab_size: int | None = Field(default=None, gt=0)
    """Overrides the preset's, to fit a dataset's own vocabulary."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    weights: str | None = None
    """Start from these instead of random ones: a Hugging Face Llama checkpoint (safetensors and
    config.json) of the same shape. In a run: its path below the team's data prefix, or an absolute
    path in the container. For a trainer used alone: a folder (with a ``/``), or a channel."""

    lora: Lora | None = None
    """Train adapters beside frozen ``weights``, instead of all parameters."""

    @property
    def weights_prefix(self) -> str | None:
        """In a run: the path below the team's data prefix, where it is one."""
        if self.weights is None or self.weights.startswith("/"):
            return None
        return self.weights.strip("/")


PREFIX = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.=/-]*$")


Prefix = Annotated[str, StringConstraints(pattern=PREFIX.pattern)]


class MixturePart(Section):
    prefix: Prefix
    """Folder of the dataset, below ``data.prefix``."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of the samples is this ÷ the sum of all weights, whatever its size."""


class Datasets(Section):
    """What is read, and how: the part of ``data`` that a trainer used alone has too."""

    mode: Literal["s3", "file", "fastfile", "fsx"] = "file"
    """``file``, ``fastfile``: SageMaker channels; ``fsx``: the stack's file system; ``s3``: the
    trainer reads ranges of the objects itself. The order of the samples is the same in all."""
    mixture: list[MixturePart] = Field(default=[], max_length=64)
    """Several datasets in folders below ``prefix``, by weight. Empty: ``prefix`` is a dataset."""
    validation: Prefix | None = None
    """Folder below ``prefix`` of a dataset that is held out."""
    document_separator: int | None = Field(default=None, ge=0)
    """Token that ends a document. Given: positions start anew after it and documents of one window
    do not see each other. Null: a window is one document."""


class Data(Datasets):
    prefix: Prefix
    """Path below the team's data prefix: a folder that holds ``index.json`` and its shards."""
    preload: bool = False
    """With ``fsx``: import the metadata of ``prefix`` before hosts are paid for, and wait for it.
    Contents come from S3 when they are first read."""
    scratch_gib: Count | None = Field(default=None, ge=1200, le=1_000_000)
    """With ``fsx``: a scratch file system of this size (1,200 or a multiple of 2,400) for this run
    alone, made before hosts are paid for and deleted after it, in place of the stack's."""

    @property
    def folders(self) -> list[str]:
        """Path of each dataset that is trained on, below the team's data prefix."""
        root = self.prefix.strip("/")
        parts = [f"{root}/{part.prefix.strip('/')}" for part in self.mixture]
        return parts or [root]


class Parallelism(Section):
    """Mesh dimensions. Their product is the world size; at most one may be ``auto`` (null)."""

    sharding: Sharding = Sharding.FULL_SHARD
    replicate: int = Field(default=1, ge=1)
    shard: int | None = Field(default=None, ge=1)
    """Ranks that share one copy of the parameters. Null: what the other dimensions leave."""
    tensor: int = Field(default=1, ge=1)
    """Ranks that share each matrix, and the sequence between the blocks. Inside a node."""
    pipeline: int = Field(default=1, ge=1)
    """Ranks that share the layers, one after another (1F1B)."""
    virtual_stages: int = Field(default=1, ge=1)
    """Stages a pipeline rank holds. More than one: the interleaved 1F1B schedule."""


class Train(Section):
    sequence_length: Count = Field(default=4096, ge=8, le=1 << 24)
    global_batch: Count = Field(default=256, ge=1, le=10_000_000)
    """Sequences an optimizer step, over all ranks and microbatches."""
    micro_batch: Count = Field(default=1, ge=1, le=10_000_000)
    lr: float = Field(default=3e-4, gt=0)
    warmup_steps: int = Field(default=100, ge=0)
    schedule: Literal["cosine", "linear", "wsd", "constant"] = "cosine"
    """``wsd``: warm-up, stable, and a line down over the last ``decay_share`` of the rest."""
    decay_share: float = Field(default=0.2, gt=0, le=1)
    min_lr_ratio: float = Field(default=0.1, ge=0, le=1)
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """``sgd`` (no momentum, no state) is for comparisons: it shows what AdamW hides."""
    weight_decay: float = Field(default=0.1, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient, over the whole mesh."""
    z_loss: float = Field(default=0.0, ge=0)
    """Weight of the squared log-normaliser beside the cross-entropy; 1e-4 is usual."""
    activation_checkpointing: Literal["none", "selective", "full"] = "none"
    """What a block computes again in its backward: nothing; all but matrix products and attention;
    everything."""
    compile: bool = False
    """``torch.compile`` a block: slower to start, faster a step."""
    validation_every_steps: int = Field(default=1000, ge=1)
    """Where ``data.validation`` is given; at the last step too."""
    validation_batches: int = Field(default=16, ge=1)
    """Global batches a validation, always the same ones; fewer where there are no more."""
    seed: int = Field(default=0, ge=0)
    dtype: Literal["bf16", "fp32", "fp8"] = "bf16"
    """Of the computation; weights and optimizer are fp32. ``fp8``: the blocks' matrix products,
    the rest in bf16; on GPUs that have it."""


class Begin(Section):
    """Where a run begins that has no checkpoint of its own yet."""

    checkpoint: str | None = Field(default=None, pattern=BEGIN_PATTERN)
    """A committed checkpoint of a run of the same team: ``RUN/step-00000120.00002``."""
    weights_only: bool = False
    """True: its weights, at step 0, with a fresh optimizer and the data from the start. False:
    all of it: training goes on at its step, so shape, batch, seed and dataset must be its own."""

    @property
    def step(self) -> int:
        """Of the run's beginning."""
        name = CheckpointName.parse(self.checkpoint or "")
        return name.step if name and not self.weights_only else 0


class Checkpoint(Section):
    storage: Literal["s3", "fsx"] = "s3"
    """``s3``: written by the trainer itself, manifest last. ``fsx``: on the stack's file system,
    which every host mounts; a copy of each manifest goes to S3 after it, for those who cannot."""
    export: bool = False
    """With ``fsx``: when the run is done, export its checkpoints to S3, and wait for it."""
    every_steps: int | None = Field(default=None, ge=1)
    every_minutes: float | None = Field(default=None, ge=1e-6, le=40_320)
    """Used where ``every_steps`` is not given. Neither: Young's and Daly's optimum, from what a
    checkpoint is measured to cost and how often the nodes fail; at most 60."""
    failures_per_node_day: float | None = Field(default=None, gt=0)
    """For the measured interval. Null: 0.0065, Meta's RSC-1: ``policy.checkpoint_interval``."""
    keep_last: int = Field(default=3, ge=2)
    keep_every: int | None = Field(default=None, ge=1)
    """Steps: the first checkpoint at or after each multiple of this is kept for ever."""

    @property
    def measured(self) -> bool:
        """No interval is given."""
        return self.every_steps is None and self.every_minutes is None

    @model_validator(mode="before")
    @classmethod
    def _of_a_former_release(cls, raw: Any) -> Any:
        """``auto_interval`` asked for what is now the default."""
        if isinstance(raw, Mapping):
            return {k: v for k, v in raw.items() if k != "auto_interval"}
        return raw


class Guard(Section):
    """What the trainer watches in itself, and how often it may mend itself."""

    in_job_restarts: int = Field(default=3, ge=0, le=100)
    """Restarts of the ranks on the same hosts, in the same job, without a new checkpoint between
    them; each newly committed one refills them. 0: every failure ends the job."""
    rewinds: int = Field(default=3, ge=0, le=100)
    """Rewinds from one checkpoint, after a loss that is not finite or spikes; then: diverged."""
    spike_mads: float | None = Field(default=10, gt=0)
    """A spike: this many deviations (1.4826 × MAD) above the median of recent losses, and a tenth
    of the median. Null: only what is not finite."""
    spike_window: int = Field(default=128, ge=32, le=1024)
    """Losses that the median is of; a quarter of them must be there."""
    skip_batches: int = Field(default=1, ge=1, le=1000)
    """Batches that a rewind skips, the bad one last."""
    straggler_every: int = Field(default=20, ge=1)
    """Steps between two comparisons of the ranks' own times."""
    health: Literal["refuse", "warn", "off"] = "refuse"
    """What a failed check of hosts and network at the start leads to. Several hosts with EFA that
    fall back to TCP are refused, unless this says otherwise."""
    replica_every: int = Field(default=100, ge=0)
    """Steps between two comparisons of copies of the weights; 0: never."""


class Report(Section):
    """Where the trainer writes what it measures, beside its progress lines."""

    tensorboard: bool = False
    """Event files, which SageMaker copies to the run's output."""
    mlflow: str | None = None
    """Tracking URI: ``file:///…``, ``https://…``, or the ARN of SageMaker's managed MLflow. All
    launches of a run write to one MLflow run."""
    profile: Steps | None = None
    """Steps whose trace (``torch.profiler``, every rank) goes to the output: ``"20-22"``."""
    memory_snapshot: Steps | None = None
    """Steps whose GPU allocations go to the output, for pytorch.org/memory_viz."""
