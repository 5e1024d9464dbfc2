"""``check_spec``: every problem of a run spec at once, each with path, value and hint."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from everstep.contracts import training_spec as spec
from everstep.contracts.checkpoint_rules import begin_problem, checkpoint_problem
from everstep.contracts.compute_rules import compute_problems
from everstep.contracts.data_rules import data_problems
from everstep.contracts.fp8_rules import fp8_shape_problems, fp8_target_problems
from everstep.contracts.hyperparameters import to_hyperparameters
from everstep.contracts.instances import INSTANCE_TYPES, similar_types
from everstep.contracts.limits import limit_problems
from everstep.contracts.lora_rules import lora_problems
from everstep.contracts.mesh import batch_problems, mesh_of, shape_problems, world_problem
from everstep.contracts.models import PRESETS, ModelConfig
from everstep.contracts.problems import Problem
from everstep.contracts.run_spec import RunSpec
from everstep.contracts.secrets import without_secrets
from everstep.contracts.storage_rules import storage_problems

Sections = Mapping[str, Any]


def check_spec(raw: Any) -> tuple[RunSpec | None, list[Problem]]:
    """Parse and cross-check. A spec only when there is no problem at all."""
    if not isinstance(raw, dict):
        return None, without_secrets([_not_an_object(raw)], raw)
    problems = list(_unknown(raw, RunSpec.model_fields, ""))
    sections: dict[str, Any] = {}
    for name, field in RunSpec.model_fields.items():
        if name not in raw:
            if field.is_required():
                problems.append(_missing(name))
            else:
                sections[name] = field.get_default(call_default_factory=True)
            continue
        try:
            sections[name] = _adapter(field).validate_python(raw[name])
        except ValidationError as error:
            problems.extend(_from_pydantic(error, name, field))
    for rule in RULES:
        problems.extend(rule(sections))
    problems = without_secrets(problems, raw)
    if problems:
        return None, problems
    whole = RunSpec(**sections)
    try:
        to_hyperparameters(whole)
    except ValueError as error:
        return None, [
            Problem(
                path="trainer.hyperparameters",
                message=str(error),
                hint="SageMaker takes 100 of at most 2,500 characters",
            )
        ]
    return whole, []


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    return TypeAdapter(annotation)


def resolve_model(model: spec.Model) -> ModelConfig:
    """The shape that a valid ``model`` section names."""
    base = model.config or PRESETS[str(model.preset)]
    changed = {
        key: value
        for key, value in (("vocab_size", model.vocab_size), ("dropout", model.dropout))
        if value is not None
    }
    return base.model_copy(update=changed)


# --- cross-field rules: each reads only sections that parsed -------------------------------


def _model(sections: Sections) -> Iterator[Problem]:
    model = sections.get("model")
    if model is None:
        return
    if (model.preset is None) == (model.config is None):
        yield Problem(
            path="model",
            value=model.preset,
            message="give exactly one of preset and config",
            hint='for example "model": "llama2-7b"',
        )
    elif model.preset is not None and model.preset not in PRESETS:
        near = get_close_matches(model.preset, PRESETS, n=2) or sorted(PRESETS)
        yield Problem(
            path="model.preset",
            value=model.preset,
            message="no such preset",
            hint=f"one of {', '.join(near)}; or describe the shape in model.config",
        )
    prefix = model.weights_prefix
    if prefix is not None and (".." in prefix.split("/") or not spec.PREFIX.fullmatch(prefix)):
        yield Problem(
            path="model.weights",
            value=model.weights,
            message="is not a path below the team's data prefix",
            hint='for example "models/llama-3.1-8b", or an absolute path in the container',
        )


def _data(sections: Sections) -> Iterator[Problem]:
    data, model = sections.get("data"), sections.get("model")
    if data is None:
        return
    if ".." in data.prefix.split("/"):
        # In S3 a key like any other; on a file system another team's folder.
        yield Problem(
            path="data.prefix",
            value=data.prefix,
            message="leads elsewhere",
            hint="a folder below the team's data prefix",
        )
    vocab_size = None
    if model is not None and (model.config is not None or model.preset in PRESETS):
        vocab_size = resolve_model(model).vocab_size
    yield from data_problems(data, vocab_size)


def _finish(sections: Sections) -> Iterator[Problem]:
    finish = sections.get("finish")
    if finish is None:
        return
    if finish.register and not finish.export:
        yield Problem(
            path="finish.register",
            value=True,
            message="what is registered is the export",
            hint='set "export": true beside it, or leave register out',
        )
    if finish.instance_type not in INSTANCE_TYPES:
        yield Problem(
            path="finish.instance_type",
            value=finish.instance_type,
            message="unknown instance type",
            hint=f"did you mean {', '.join(similar_types(finish.instance_type))}?",
        )


def _mesh(sections: Sections) -> Iterator[Problem]:
    parallelism, train = sections.get("parallelism"), sections.get("train")
    model = sections.get("model")
    if parallelism is None:
        return
    if model is not None and train is not None and not any(_model(sections)):
        yield from shape_problems(resolve_model(model), parallelism, train)
    for i, target in enumerate(sections.get("compute") or []):
        kind = INSTANCE_TYPES.get(target.instance_type)
        if kind is None:
            continue
        mesh = mesh_of(parallelism, target.nodes * kind.processes)
        if mesh is None:
            where = f" of compute.{i} ({target.nodes} nodes × {kind.processes} ranks)"
            yield world_problem(parallelism, target.nodes * kind.processes, where)
        elif train is not None:
            yield from batch_problems(parallelism, train, mesh, f" on compute.{i}")


def _fp8(sections: Sections) -> Iterator[Problem]:
    train, model = sections.get("train"), sections.get("model")
    if train is None:
        return
    known = [t for t in sections.get("compute") or [] if t.instance_type in INSTANCE_TYPES]
    if len(known) == len(sections.get("compute") or []):
        yield from fp8_target_problems(train, known)
    parallelism = sections.get("parallelism")
    if model is not None and parallelism is not None and not any(_model(sections)):
        yield from fp8_shape_problems(resolve_model(model), parallelism, train)


def _lora(sections: Sections) -> Iterator[Problem]:
    model, parallelism = sections.get("model"), sections.get("parallelism")
    train = sections.get("train")
    if model is not None and parallelism is not None and train is not None:
        yield from lora_problems(model, parallelism, train)


def _checkpoint(sections: Sections) -> Iterator[Problem]:
    checkpoint = sections.get("checkpoint")
    if checkpoint is not None and (problem := checkpoint_problem(checkpoint)):
        yield problem


def _begin(sections: Sections) -> Iterator[Problem]:
    begin, stop = sections.get("start"), sections.get("stop")
    if begin is not None and stop is not None and (problem := begin_problem(begin, stop)):
        yield problem


RULES: tuple[Callable[[Sections], Iterator[Problem]], ...] = (
    _model,
    _data,
    compute_problems,
    _finish,
    _mesh,
    _fp8,
    _lora,
    _checkpoint,
    _begin,
    storage_problems,
    limit_problems,
)


# --- shape problems --------------------------------------------------------------------------


def _not_an_object(raw: Any) -> Problem:
    return Problem(
        path="$",
        value=raw,
        message="a run spec is a JSON object",
        hint='the smallest: {"model": "tiny", "data": "datasets/stdlib", '
        '"compute": [{"instance_type": "ml.m5.large"}], "stop": {"steps": 100}}',
    )


_EXAMPLES = {
    "model": '"model": "llama2-7b"',
    "data": '"data": "datasets/my-corpus"',
    "compute": '"compute": [{"instance_type": "ml.p5.48xlarge", "nodes": 2}]',
    "stop": '"stop": {"steps": 1000}',
}


def _missing(name: str) -> Problem:
    return Problem(path=name, message="is required", hint=f"add {_EXAMPLES[name]}")


def _unknown(raw: dict[Any, Any], known: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for key in raw:
        if key not in known:
            yield _unknown_field(f"{path}{key}", raw[key], [*known])


def _unknown_field(path: str, value: Any, known: list[str]) -> Problem:
    near = get_close_matches(path.rsplit(".", 1)[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
    return Problem(path=path, value=value, message="unknown field", hint=hint)


def _from_pydantic(error: ValidationError, name: str, field: FieldInfo) -> Iterator[Problem]:
    for item in error.errors(include_url=False):
        path = ".".join([name, *(str(part) for part in item["loc"])])
        if item["type"] == "extra_forbidden":
            yield _unknown_field(path, item["input"], _fields_at(field, item["loc"]))
        elif item["type"] == "missing":
            yield Problem(path=path, message="is required", hint=f"add {item['loc'][-1]!r}")
        else:
            yield Problem(
                path=path,
                value=item["input"],
                message=item["msg"].removeprefix("Value error, "),
                hint="see docs/run-spec.schema.json for what this field takes",
            )


def _fields_at(field: FieldInfo, loc: tuple[int | str, ...]) -> list[str]:
    """Names that were possible where an unknown field stood."""
    annotation: Any = field.annotation
    for part in loc[:-1]:
        if isinstance(part, int):
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "model_fields"):
            annotation = annotation.model_fields[part].annotation
    while not hasattr(annotation, "model_fields") and get_args(annotation):
        annotation = get_args(annotation)[0]
    return list(getattr(annotation, "model_fields", {}))
