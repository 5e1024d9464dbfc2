"""Names that AWS takes, and what the names of a config must not be mistaken for."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from everstep.contracts.instances import INSTANCE_TYPES
from everstep.contracts.limits import TAG
from everstep.contracts.problems import Problem
from everstep.contracts.storage_rules import SCRATCH_PRICE
from stacks.regions import partition_of

RESERVED_TAGS = ("aws:", "everstep:")
SESSION_TAG = "team"
"""A role's own tags are its sessions' too: with this one each researcher would have a team."""
TAG_LENGTHS = (128, 256)
TRUST_POLICY = 2048
"""Characters of a role's trust policy: IAM's quota as it comes."""
TRUST_FIXED = 420
"""Of a researcher's: conditions and a statement's words, but for teams and principals."""


def tag_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    tags: Mapping[str, str] = sections.get("tags") or {}
    seen: dict[str, str] = {}
    for key, value in tags.items():
        reason = _tag_reason(key, value)
        if reason is None and key.lower() in seen:
            reason = f"IAM knows no case in keys: it is {seen[key.lower()]!r} again"
        seen.setdefault(key.lower(), key)
        if reason is not None:
            yield Problem(
                path=f"tags.{key}",
                value=value,
                message=reason,
                hint="a key of 1 to 128 and a value of up to 256 letters, digits, spaces and "
                "_ . : / = + - @; each key once",
            )


def _tag_reason(key: str, value: str) -> str | None:
    if key.lower().startswith(RESERVED_TAGS):
        return f"keys that start with {' or '.join(RESERVED_TAGS)} are reserved"
    if key.lower() == SESSION_TAG:
        return "is reserved: it is by this key that IAM knows a researcher's team"
    longest_key, longest_value = TAG_LENGTHS
    if not 1 <= len(key) <= longest_key or len(value) > longest_value:
        return f"has {len(key)} and {len(value)} characters, AWS takes 1 to 128 and 256"
    return None if TAG.fullmatch(key) and TAG.fullmatch(value) else "AWS does not take this tag"


def principal_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    access, region = sections.get("access"), sections.get("region")
    principals = access.principals if access else []
    for i, arn in enumerate(principals):
        path = f"access.principals.{i}"
        if region and arn.split(":")[1] != partition_of(region):
            yield Problem(
                path=path,
                value=arn,
                message=f"is no principal of partition {partition_of(region)}",
                hint=f"arn:{partition_of(region)}:iam::…: partitions trust none of another",
            )
        if arn in principals[:i]:
            yield Problem(path=path, value=arn, message="is given twice", hint="each once")
    teams = [team.name for team in sections.get("teams") or []]
    size = TRUST_FIXED + sum(len(word) + 3 for word in [*principals, *teams])
    if size > TRUST_POLICY:
        yield Problem(
            path="access.principals",
            value=len(principals),
            message=f"make a trust policy of {size} characters, IAM takes {TRUST_POLICY}",
            hint="fewer: name one role that these people share",
        )


def price_problems(sections: Mapping[str, Any]) -> Iterator[Problem]:
    """A price under a name that nobody looks up would make a budget's limit unknown."""
    known = [*INSTANCE_TYPES, SCRATCH_PRICE]
    for name in sections.get("prices_usd") or {}:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            yield Problem(
                path=f"prices_usd.{name}",
                value=name,
                message="is no instance type that Everstep knows",
                hint=f"did you mean {near[0]!r}?"
                if near
                else f"for example {known[0]}, {SCRATCH_PRICE}",
            )


def bucket_reason(name: str) -> str | None:
    """Why S3 takes no bucket of this name, beyond its letters. Source: S3's naming rules."""
    if ".." in name:
        return "has two dots in a row"
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name):
        return "looks like an address"
    if name.startswith(("xn--", "sthree-", "amzn-s3-demo-")):
        return "starts with a prefix that S3 keeps"
    if name.endswith(("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")):
        return "ends with a suffix that S3 keeps"
    return None
