"""From the ``data`` section to samples: where each dataset lies, and what reads it there."""

from pathlib import Path

from everstep.contracts.env import TrainerEnv
from trainer.config import TrainerConfig, TrainerData
from trainer.data import Samples
from trainer.errors import ConfigError
from trainer.host import MlRoot
from trainer.shards import Dataset, TokenSource

_S3 = "s3://"


def data_root(data: TrainerData, env: TrainerEnv, ml: MlRoot) -> str:
    """The folder or ``s3://`` URI below which the datasets lie."""
    if data.mode != "s3":
        if data.path and data.path.startswith(_S3):
            raise ConfigError(f"data.path={data.path}: data.mode={data.mode} reads no S3",
                              "set data.mode=s3")  # fmt: skip
        return data.path or str(ml.channel("training"))
    root = data.path or env.data_uri
    if root is None or not root.startswith(_S3):
        raise ConfigError(
            f"data.mode=s3, but the dataset is at {root}",
            "data.path=s3://bucket/prefix (in a run, EVERSTEP_DATA_URI says it)",
        )
    return root


def open_samples(config: TrainerConfig, root: str, *, verify: bool) -> Samples:
    """What is trained on. ``verify``: check the datasets whole (one rank a node does)."""
    mixture = config.data.mixture
    datasets = [_open(root, part.prefix, verify) for part in mixture] or [_open(root, "", verify)]
    return _samples(config, datasets, [part.weight for part in mixture] or None)


def open_validation(config: TrainerConfig, root: str, *, verify: bool) -> Samples | None:
    """What is held out; None where nothing is. Epoch 0 of it is positions 0 … count - 1."""
    if config.data.validation is None:
        return None
    return _samples(config, [_open(root, config.data.validation, verify)], None)


def _samples(
    config: TrainerConfig, datasets: list[TokenSource], weights: list[float] | None
) -> Samples:
    recipe = config.train
    return Samples(
        datasets,
        recipe.sequence_length,
        recipe.seed,
        config.shape.vocab_size,
        recipe.global_batch,
        weights,
        config.data.document_separator,
    )


def _open(root: str, folder: str, verify: bool) -> TokenSource:
    below = "/".join(part for part in (root.rstrip("/"), folder.strip("/")) if part)
    if root.startswith(_S3):
        from trainer.ranges import S3Dataset  # boto3: not where nobody reads S3

        return S3Dataset(below, verify=verify)
    return Dataset(Path(below), verify=verify)
