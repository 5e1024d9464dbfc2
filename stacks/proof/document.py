"""docs/security.md from assemblies: each finding that stays, each wildcard, and why.

``python -m stacks.proof.document cdk.out/prod cdk.out/options`` writes it, ``--check`` compares.
The second is of ``stacks.proof.options``.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stacks.config import ROOT
from stacks.proof.options import OPTIONS
from stacks.proof.resolved import load, place_of
from stacks.suppressions import HADOLINT, IAM_LINT, IAM_LINT_ELSEWHERE, SUPPRESSIONS
from stacks.wildcards import ENDPOINTS, reason_for

PAGE = ROOT / "docs" / "security.md"
HEAD = """# What a security reviewer asks

Generated from the synthesised `prod` environment, and from what config can ask for beside it, by
`make security`; `make check` compares. Change a reason in `stacks/suppressions.py` or
`stacks/wildcards.py`, not here. Tools: cdk-nag (AwsSolutions, NIST 800-53 R5, and our own rules in
`stacks/proof/rules.py`), CDK's template checks, cfn-lint, checkov, parliament over every policy
document, statelint on the definition, hadolint. None of them
has a finding left but these. Decisions behind them: [adr 17](adr/0017-findings-that-stay.md).
"""


FINDINGS = ("rule", "reason", "resources")
WILDCARDS = ("role", "actions", "resource", "only if", "reason")

Found = dict[tuple[str, str], set[str]]
"""Paths by rule and reason."""
Row = tuple[str, ...]


def page(folder: Path, options: Path) -> str:
    found, wildcards = _findings(folder), _wildcards(folder)
    seen = {_as_in_any_environment(row) for row in wildcards}
    parts = [
        HEAD,
        _section(
            "Findings that stay, by rule",
            "Suppressed on each of these resources, never on a stack.",
            FINDINGS,
            _by_rule(found),
        ),
        _section(
            "Policies with a wildcard in a resource",
            "No action in a role's policy is a wildcard. `*` alone stands only where IAM knows no "
            "resource for the action (parliament's RESOURCE_STAR has no finding). In a key's or a "
            "bucket's own policy it is that key or bucket, and is not listed.",
            WILDCARDS,
            wildcards,
        ),
        _section(
            "Findings that stay only where config asks for it",
            "Beside those above, in environments like `prod` but for this:\n\n"
            + "\n".join(f"- `{name}`: {_says(change)}" for name, change in OPTIONS.items()),
            FINDINGS,
            _by_rule({k: paths for k, paths in _findings(options).items() if k not in found}),
        ),
        _section(
            "Wildcards only where config asks for it",
            "Of the same environments.",
            WILDCARDS,
            [row for row in _wildcards(options) if _as_in_any_environment(row) not in seen],
        ),
        _section(
            "Findings of the IAM linter that stay",
            "By the linter's issue and the start of what it is about; the last ones in policies "
            "that are no identity's.",
            ("finding", "reason"),
            [*sorted(IAM_LINT.items()), *sorted(IAM_LINT_ELSEWHERE.items())],
        ),
        _section(
            "Findings of hadolint that stay",
            "On single lines of the Dockerfiles in `containers/`.",
            ("rule", "reason"),
            sorted(HADOLINT.items()),
        ),
    ]
    return "\n".join(parts)


def _says(change: Callable[..., None]) -> str:
    return str(change.__doc__).rstrip(".")


def _as_in_any_environment(row: Row) -> tuple[str, str, str]:
    """What of a wildcard is not an environment's name: whose it is, what it allows, and why."""
    path, actions, *_, reason = row
    return re.sub(r"^`everstep-[a-z0-9]+-", "", path), actions, reason


def _section(title: str, text: str, columns: tuple[str, ...], rows: Any) -> str:
    lines = [f"\n## {title}\n", text, "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _findings(folder: Path) -> Found:
    """Wildcards aside, which have a section of their own."""
    found: Found = defaultdict(set)
    report = json.loads((folder / "validation-report.json").read_text())
    for plugin in report["pluginReports"]:
        for violation in plugin.get("suppressedViolations", []):
            for construct in violation["violatingConstructs"]:
                if (
                    construct["constructFqn"].endswith("CfnPolicy")
                    and "-IAM5[" in violation["ruleName"]
                ):
                    continue
                key = (violation["ruleName"], violation["reason"])
                found[key].add(construct["constructPath"])
    for template in folder.glob("*.template.json"):
        for resource in json.loads(template.read_text())["Resources"].values():
            for key in _skipped(resource):
                found[key].add(resource["Metadata"]["aws:cdk:path"])
    for metadata in folder.glob("*.metadata.json"):
        for path, entries in json.loads(metadata.read_text()).items():
            for entry in entries:
                if entry["type"] == "aws:cdk:acknowledged-rules":
                    for rule, reason in entry["data"].items():
                        if rule.startswith("Annotation::"):
                            found[(rule.removeprefix("Annotation::"), reason)].add(path.lstrip("/"))
    return found


def _skipped(resource: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """By checkov and by cfn-lint, to which the template cannot say why."""
    metadata = resource.get("Metadata", {})
    for skip in metadata.get("checkov", {}).get("skip", []):
        yield skip["id"], skip["comment"]
    for name in metadata.get("cfn-lint", {}).get("config", {}).get("ignore_checks", []):
        rule = f"cfn-lint {name}"
        for row in SUPPRESSIONS:
            if rule in row.rules and row.kind == resource["Type"]:
                yield rule, row.reason


def _by_rule(found: Found) -> Iterator[Row]:
    for (rule, reason), paths in sorted(found.items()):
        short = sorted(path.removesuffix("/Resource") for path in paths)
        yield rule, reason, ", ".join(f"`{path}`" for path in short)


def _wildcards(folder: Path) -> list[Row]:
    rows = set()
    resolved = load(folder, place_of(folder))
    for stack, template in resolved.items():
        raw = json.loads((folder / f"{stack}.template.json").read_text())
        for logical, resource in template["Resources"].items():
            if resource["Type"] not in ("AWS::IAM::Policy", "AWS::EC2::VPCEndpoint"):
                continue
            if "PolicyDocument" not in resource["Properties"]:
                continue  # an endpoint that bounds nothing
            path = resource["Metadata"]["aws:cdk:path"].removesuffix("/Resource")
            unresolved = raw["Resources"][logical]["Properties"]["PolicyDocument"]["Statement"]
            statements = resource["Properties"]["PolicyDocument"]["Statement"]
            for statement, before in zip(statements, unresolved, strict=True):
                actions = _list(statement["Action"])
                if statement["Effect"] != "Allow":
                    continue
                names = zip(_list(statement["Resource"]), _list(before["Resource"]), strict=True)
                for name, original in names:
                    spelt = _flat(original)
                    if "*" in spelt:
                        reason = (
                            ENDPOINTS.get(statement["Sid"])
                            if "Principal" in statement
                            else reason_for(spelt, actions)
                        ) or "NO REASON"
                        only = _condition(statement.get("Condition", {}))
                        rows.add((f"`{path}`", ", ".join(actions), f"`{name}`", only, reason))
    return sorted(rows)


def _condition(blocks: dict[str, dict[str, Any]]) -> str:
    """``key operator value``, by comma."""
    return ", ".join(
        f"`{key}` {operator} `{' or '.join(str(one) for one in _list(value))}`"
        for operator, block in blocks.items()
        for key, value in block.items()
    )


def _flat(value: Any) -> str:
    """As ``stacks.wildcards`` spells it: another stack's thing is its export's name."""
    if isinstance(value, str):
        return value
    ((name, inner),) = value.items()
    if name == "Fn::Join":
        return str(inner[0]).join(_flat(part) for part in inner[1])
    return str(inner)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def main(arguments: list[str]) -> int:
    folder, options = (Path(a) for a in arguments if not a.startswith("--"))
    text = page(folder, options) + "\n"
    if "NO REASON" in text:
        print("a wildcard has no reason: add a row to stacks/wildcards.py", file=sys.stderr)
        return 1
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is not what {folder} has\n  hint: make security")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
