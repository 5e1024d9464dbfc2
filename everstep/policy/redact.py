"""Secrets leave the text before it is stored or shown."""

import re

from everstep.contracts.secrets import SECRET

HIDDEN = "<redacted>"
_NAME = r"[\w.-]{0,80}(?:secret|passw(?:or)?d|token(?![a-z])|api[_-]?key|credential)[\w.-]{0,80}"
_ASSIGNED = re.compile(rf"(?i)(?<![\w.-])({_NAME})([\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{{4,}})")
_OPTION = re.compile(rf"(?i)(?<!\S)(--{_NAME})(\s+[\"']?)([^\s\"'-][^\s\"']{{3,}})")
_FORMS = (
    (re.compile(r"(?i)\b(Bearer|Basic)\s+[\w.~+/=-]{12,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://[^\s/:@]{1,100}):[^\s/@]{1,200}@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(?i)(X-Amz-Signature=)[^\s&\"']+"), rf"\1{HIDDEN}"),
)


def redact(text: str) -> str:
    """The text with known secret forms and ``name=secret`` values replaced.

    ``token: 12345678`` and the like stay: a count of tokens is no secret, an ARN neither.
    """
    text = SECRET.sub(HIDDEN, text)
    for pattern, shown in _FORMS:
        text = pattern.sub(shown, text)
    return _OPTION.sub(_hide, _ASSIGNED.sub(_hide, text))


def _hide(match: re.Match[str]) -> str:
    name, separator, value = match.groups()
    count = "token" in name.lower() and re.fullmatch(r"[-+0-9.eE]+", value)
    if count or value.startswith("arn:") or value in HIDDEN:
        return match[0]
    return f"{name}{separator}{HIDDEN}"
