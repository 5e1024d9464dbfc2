"""One way to change a library's behaviour, so that every such place can be found."""

from typing import Any


def replace(owner: Any, name: str, new: Any) -> Any:
    """Put ``new`` in place of an attribute of a class or module; returns what was there."""
    former = getattr(owner, name, None)
    setattr(owner, name, new)
    return former
