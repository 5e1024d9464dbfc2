"""JSONata for moto's Step Functions interpreter.

moto leaves its JSONata engine empty (it was a Java bridge) and hands variables over by pasting
them, badly quoted, into the expression. Here ``jsonata-python`` gets them as bindings.
"""

import hashlib
import json
import random
import uuid
from typing import Any

from jsonata import Functions, Jsonata, Utils
from moto.stepfunctions.parser.api import EvaluationFailedEventDetails, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.common.string.string_expression import (
    StringJSONata,
    StringVariableSample,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str

from emulator.patching import replace


class Undefined(Exception):
    """The expression returned nothing."""


def evaluate(expression: str, bindings: dict[str, Any]) -> Any:
    """The value of an expression, as plain JSON. Raises ``Undefined`` for no value."""
    engine = Jsonata(expression)
    engine.set_output_convert_nulls(False)
    engine.register_lambda("uuid", lambda: str(uuid.uuid4()))
    engine.register_lambda("parse", lambda text: _nulls(json.loads(text)))
    engine.register_lambda("hash", _hash)
    engine.register_lambda("range", lambda first, last, step: list(range(first, last + 1, step)))
    engine.register_lambda("partition", _partition)
    engine.register_lambda("randomSeeded", lambda seed: random.Random(seed).random())
    result = engine.evaluate(None, {name: _nulls(value) for name, value in bindings.items()})
    if result is None:
        raise Undefined
    if Functions.is_lambda(result):
        raise TypeError("the expression returned a function")
    return json.loads(to_json_str(Utils.convert_nulls(result)))


def patch_jsonata() -> None:
    """Make the interpreter use ``evaluate``."""
    replace(StringJSONata, "_eval_body", _eval_body)
    replace(StringVariableSample, "_eval_body", _eval_body)


def _eval_body(self: Any, env: Environment) -> None:
    states = json.loads(to_json_str(env.states._states_data))
    store = env.variable_store
    bindings = {**store._outer_scope, **store._inner_scope, "states": states}
    try:
        env.stack.append(evaluate(self.expression, bindings))
    except Undefined:
        _fail(env, f"The JSONata expression '{self.expression}' returned nothing (undefined).")
    except Exception as error:  # noqa: BLE001
        # Whatever the library raises is, to the state machine, a query that cannot be evaluated.
        _fail(env, f"The JSONata expression '{self.expression}' failed: {error}")


def _fail(env: Environment, cause: str) -> None:
    name = StatesErrorName(typ=StatesErrorNameType.StatesQueryEvaluationError)
    failed = EvaluationFailedEventDetails(cause=cause, error=name.error_name)
    details: Any = {"evaluationFailedEventDetails": failed}
    raise FailureEventException(
        failure_event=FailureEvent(
            env=env,
            error_name=name,
            event_type=HistoryEventType.EvaluationFailed,
            event_details=details,
        )
    )


def _nulls(value: Any) -> Any:
    # Python's None is "undefined" to the library; JSON's null is a value of its own.
    if value is None:
        return Utils.NULL_VALUE
    if isinstance(value, dict):
        return {key: _nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nulls(item) for item in value]
    return value


def _hash(value: str, algorithm: str) -> str:
    return hashlib.new(algorithm.replace("-", "").lower(), value.encode()).hexdigest()


def _partition(values: list[Any], size: int) -> list[list[Any]]:
    return [values[at : at + size] for at in range(0, len(values), size)]
