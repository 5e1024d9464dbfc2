"""TrainerConfig: what one training program is asked to do.

Built from SageMaker's flat hyperparameters, or from a TOML file for use alone. The sections
are the run spec's own models, so a field means the same thing in both places.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from everstep.contracts.check import resolve_model
from everstep.contracts.checkpoint_rules import checkpoint_problem
from everstep.contracts.data_rules import data_problems
from everstep.contracts.hyperparameters import (
    SECTIONS,
    from_hyperparameters,
    section_problems,
)
from everstep.contracts.lora_rules import lora_problems
from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.run_spec import Stop
from everstep.contracts.training_spec import (
    Checkpoint,
    Datasets,
    Guard,
    Model,
    Parallelism,
    Report,
    Section,
    Train,
)
from trainer.errors import ConfigError


class TrainerData(Datasets):
    prefix: str | None = None
    """The run spec's word for the dataset. Only for the record: see ``path``."""
    path: str | None = None
    """For use alone, in the place of ``prefix``: a folder, or ``s3://bucket/prefix`` with mode
    ``s3``. Without it: the channel ``training``, or what ``EVERSTEP_DATA_URI`` names."""


class TrainerConfig(Section):
    """All sections, checked one by one and against each other."""

    model: Model
    data: TrainerData = TrainerData()
    parallelism: Parallelism = Parallelism()
    train: Train = Train()
    checkpoint: Checkpoint = Checkpoint()
    guard: Guard = Guard()
    stop: Stop
    report: Report = Report()

    @classmethod
    def from_flat(cls, flat: Mapping[str, str]) -> Self:
        """From hyperparameters. Raises ``ConfigError`` naming every field that is wrong."""
        wrong = section_problems(flat)
        known = {key: text for key, text in flat.items() if key.partition(".")[0] in SECTIONS}
        config: Self | None = None
        cause: ValueError | None = None
        try:
            sections = from_hyperparameters(known)
            config = cls.model_validate({k: v for k, v in sections.items() if v or k == "data"})
        except ValidationError as error:
            cause = error
            wrong += [
                f"{'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')} "
                f"(got {e['input']!r})"
                for e in error.errors(include_url=False)
            ]
        except ValueError as error:
            cause = error
            wrong.append(str(error))
        if config is None or wrong:
            raise ConfigError("; ".join(wrong), "see docs/trainer.md for the fields") from cause
        config._check()
        return config

    @property
    def shape(self) -> ModelConfig:
        return resolve_model(self.model)

    def _check(self) -> None:
        if (self.model.preset is None) == (self.model.config is None):
            raise ConfigError(
                "model: give exactly one of preset and config", "for example model.preset=tiny"
            )
        if self.model.preset is not None and self.model.preset not in PRESETS:
            raise ConfigError(
                f"model.preset: no such preset {self.model.preset!r}",
                f"one of {', '.join(PRESETS)}",
            )
        if problem := checkpoint_problem(self.checkpoint):
            raise ConfigError(f"{problem.path}={problem.value}: {problem.message}", problem.hint)
        shape = self.shape
        if shape.dim % shape.heads or shape.heads % shape.kv_heads or shape.head_dim % 2:
            raise ConfigError(
                f"model: dim {shape.dim}, heads {shape.heads}, kv_heads {shape.kv_heads} do not "
                "divide",
                "dim = heads × an even head size, heads a multiple of kv_heads",
            )
        for problem in (
            *data_problems(self.data, shape.vocab_size),
            *lora_problems(self.model, self.parallelism, self.train),
        ):
            raise ConfigError(f"{problem.path}={problem.value!r}: {problem.message}", problem.hint)


def flat_from_toml(path: Path | None, overrides: Iterable[str]) -> dict[str, str]:
    """A TOML file and ``a.b=c`` overrides as flat hyperparameters."""
    flat: dict[str, str] = {}
    if path is not None:
        try:
            loaded = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"--config {path}: {error}", "a TOML file") from error
        _flatten(loaded, "", flat)
    for item in overrides:
        key, equals, value = item.partition("=")
        if not equals or "." not in key:
            raise ConfigError(f"--set {item!r}", "write section.field=value")
        flat[key.strip()] = value.strip()
    return flat


def _flatten(table: Mapping[str, Any], prefix: str, flat: dict[str, str]) -> None:
    for key, value in table.items():
        if isinstance(value, Mapping):
            _flatten(value, f"{prefix}{key}.", flat)
        elif isinstance(value, bool):
            flat[prefix + key] = str(value).lower()
        else:
            flat[prefix + key] = str(value)
