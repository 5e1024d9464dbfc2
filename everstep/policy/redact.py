"""Secrets leave the text before it is stored or shown."""

import re

from everstep.contracts.run_spec import SECRET

_ASSIGNED = re.compile(
    r"(?i)\b([A-Z0-9_.-]*(?:secret|passw(?:or)?d|token|api_?key|credential)[A-Z0-9_.-]*)"
    r"(\"?\s*[=:]\s*\"?)([^\s\"',;]{6,})"
)
HIDDEN = "<redacted>"


def redact(text: str) -> str:
    """The text with known secret forms and ``name=secret`` values replaced.

    ``tokens_per_s: 12345678`` and the like stay: a value that is a number is no secret.
    """
    text = SECRET.sub(HIDDEN, text)
    return _ASSIGNED.sub(_hide, text)


def _hide(match: re.Match[str]) -> str:
    name, separator, value = match.groups()
    if re.fullmatch(r"[-+0-9.eE]+", value) or value.startswith("arn:"):
        return match[0]
    return f"{name}{separator}{HIDDEN}"
