"""A run spec's training sections as SageMaker hyperparameters, and back.

SageMaker takes a flat map of at most 100 strings of at most 2,500 characters. Keys here are
dotted paths (``train.lr``), values JSON where JSON says more than the plain string would.
Keys without a dot belong to others (``sagemaker_program`` …) and are left alone.
"""

import json
from collections.abc import Mapping
from typing import Any

from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.run_spec import RunSpec

SECTIONS = ("model", "data", "parallelism", "train", "checkpoint", "guard", "stop", "report")
"""The sections of ``RunSpec`` that a trainer reads."""
NOT_THE_TRAINERS = ("data.preload", "data.scratch_gib", "checkpoint.export")
"""Done before and after the job."""
MAX_COUNT = 100
MAX_VALUE = 2500


def to_hyperparameters(spec: RunSpec) -> dict[str, str]:
    """What LaunchAttempt puts into ``HyperParameters``.

    Only what differs from the defaults is sent; ``spec.trainer.hyperparameters`` are added as
    they stand and win. Raises ``ValueError`` where SageMaker would refuse the result.
    """
    flat: dict[str, str] = {}
    for name in SECTIONS:
        section = getattr(spec, name).model_dump(mode="json", exclude_defaults=True)
        flat.update({f"{name}.{key}": _encode(value) for key, value in _flatten(section)})
    for key in NOT_THE_TRAINERS:
        flat.pop(key, None)
    flat.update(spec.trainer.hyperparameters)
    if len(flat) > MAX_COUNT:
        raise ValueError(
            f"{len(flat)} hyperparameters: SageMaker takes {MAX_COUNT} "
            "(hint: put some into a file of the dataset)"
        )
    long = [key for key, value in flat.items() if len(value) > MAX_VALUE]
    if long:
        raise ValueError(f"hyperparameter {long[0]} is longer than {MAX_VALUE} characters")
    return flat


def from_hyperparameters(flat: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The sections that ``to_hyperparameters`` was made from, defaults left out.

    A field of ``ModelConfig`` may stand right below ``model`` (``model.dim``); beside a
    preset it changes that one field of it. Raises ``ValueError`` where ``section_problems``
    has any, or a field stands below one that has a value of its own.
    """
    if problems := section_problems(flat):
        raise ValueError("; ".join(problems))
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, text in flat.items():
        if "." not in key:
            continue
        name, *path = key.split(".")
        place: Any = sections[name]
        for part in path[:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ValueError(f"hyperparameter {key!r}: {part!r} has a value of its own")
        place[path[-1]] = _decode(text)
    sections["model"] = _model(sections["model"])
    return sections


def section_problems(flat: Mapping[str, str]) -> list[str]:
    """What to say of each key below a section that there is not."""
    dotted = ((key, key.partition(".")[0]) for key in flat if "." in key)
    return [
        f"hyperparameter {key!r}: no such section {name!r} (hint: one of {', '.join(SECTIONS)})"
        for key, name in dotted
        if name not in SECTIONS
    ]


def _model(model: dict[str, Any]) -> dict[str, Any]:
    """Gather shape fields below ``config``, on top of the preset's where one is named."""
    own = {"vocab_size", "dropout"}
    shape = dict(model.pop("config", {}))
    for key in [k for k in model if k in ModelConfig.model_fields and k not in own]:
        shape[key] = model.pop(key)
    if shape:
        preset = PRESETS.get(str(model.get("preset")))
        if preset is not None:
            del model["preset"]
            shape = preset.model_dump() | shape
        elif "vocab_size" in model:
            shape.setdefault("vocab_size", model["vocab_size"])
        model["config"] = shape
    return model


def _flatten(section: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in section.items():
        if isinstance(value, Mapping):
            found.extend(_flatten(value, f"{prefix}{key}."))
        elif value is not None:
            found.append((prefix + key, value))
    return found


def _encode(value: Any) -> str:
    """A string stays as it is, unless it would be read back as something else."""
    if isinstance(value, str) and _decode(value) == value:
        return value
    return json.dumps(value)


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
