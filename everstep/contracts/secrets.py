"""Literal secrets in what a user gives us: found by name and by form, and never said again."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from everstep.contracts.problems import Problem

SECRET = re.compile(
    r"(?:AKIA|ASIA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{30,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_.-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
"""Secrets known by their form."""
SECRET_NAME = re.compile(
    r"secret|password|passwd|api_?key|credential"
    r"|(?<!pad_)(?<!bos_)(?<!eos_)(?<!unk_)(?<!cls_)(?<!sep_)(?<!mask_)token(?![a-z])",
    re.IGNORECASE,
)
"""Names whose value is a secret: ``HF_TOKEN``, not ``TOKENIZERS_PARALLELISM`` or ``eos_token``."""
REFERENCE = re.compile(r"^arn:aws[a-z-]*:(secretsmanager|ssm):")

NOT_SHOWN = "<not shown>"


def secrets_in(raw: Any, path: str = "") -> Iterator[str]:
    """Paths of literal secrets."""
    if isinstance(raw, dict):
        for key, value in raw.items():
            here = f"{path}.{key}" if path else str(key)
            if SECRET.search(str(key)) or _named(str(key), value):
                yield here
            else:
                yield from secrets_in(value, here)
    elif isinstance(raw, list):
        for i, value in enumerate(raw):
            yield from secrets_in(value, f"{path}.{i}" if path else str(i))
    elif isinstance(raw, str) and SECRET.search(raw):
        yield path


def without_secrets(problems: Iterable[Problem], raw: Any) -> list[Problem]:
    """The problems, and one for each secret; none of them shows a secret's text."""
    paths = list(secrets_in(raw))
    return [_hide(p, paths) for p in [*problems, *map(_refused, paths)]]


def _named(key: str, value: Any) -> bool:
    """``max_token: 4096`` is a count; ``db_password: 4096`` is a password."""
    match = SECRET_NAME.search(key)
    if match is None or isinstance(value, (dict, list, bool)) or value in (None, ""):
        return False
    text = str(value)
    if match[0].lower() == "token" and text.replace(".", "", 1).isdigit():
        return False
    return not REFERENCE.match(text)


def _refused(path: str) -> Problem:
    return Problem(
        path=path or "$",
        value=NOT_SHOWN,
        message="looks like a literal secret",
        hint="execution history keeps raw input: give the ARN of a Secrets Manager secret or an "
        "SSM parameter instead, and change the secret",
    )


def _hide(problem: Problem, paths: list[str]) -> Problem:
    """A value that is a secret, or holds one, or is part of one; and texts that repeat a key."""
    here = problem.path
    holds = here == "$" or any(
        p == here or p.startswith(f"{here}.") or here.startswith(f"{p}.") for p in paths
    )
    hidden = (paths and holds) or any(True for _ in secrets_in(problem.value))
    texts = {n: SECRET.sub(NOT_SHOWN, getattr(problem, n)) for n in ("path", "message", "hint")}
    return problem.model_copy(update=texts | ({"value": NOT_SHOWN} if hidden else {}))
