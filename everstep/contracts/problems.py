"""One shape for everything that is wrong with what a user gave us."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

VALUE_SHOWN = 120
TEXT_SHOWN = 20_000
"""Step Functions takes a cause of 32,768 characters."""


class Problem(BaseModel):
    """What failed, where, with which value, and what to do about it."""

    model_config = ConfigDict(frozen=True)

    path: str
    """Dotted path into the input, e.g. ``compute.0.instance_type``."""
    value: Any = None
    message: str
    hint: str

    def __str__(self) -> str:
        shown = "nothing" if self.value is None else repr(self.value)
        if len(shown) > VALUE_SHOWN:
            shown = shown[: VALUE_SHOWN - 1] + "…"
        return f"{self.path}: {self.message} (got {shown})\n    hint: {self.hint}"


def describe(problems: Iterable[Problem], what: str = "run spec") -> str:
    """The text a person reads: a count, then one problem a paragraph."""
    found = list(problems)
    noun = "problem" if len(found) == 1 else "problems"
    text = "\n".join([f"{len(found)} {noun} in the {what}:", *(f"- {p}" for p in found)])
    return text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…"
