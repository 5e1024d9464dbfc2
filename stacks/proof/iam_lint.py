"""Parliament over every policy document of an assembly: ``python iam_lint.py cdk.out/dev …``.

Run as a file by the checks' own interpreter (`make checks-venv`), which has parliament and none of
our packages: hence the path below. Exit 1 with the findings that have no reason.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from parliament import analyze_policy_string

from stacks.proof.resolved import Document, documents, load, place_of
from stacks.suppressions import IAM_LINT, IAM_LINT_ELSEWHERE


def findings(document: Document, own_arn: str) -> list[str]:
    """What parliament says and no row explains."""
    policy = json.loads(json.dumps(document.document))
    for statement in policy["Statement"]:
        # Trust policies have no resource: the role is meant.
        statement.setdefault("Resource", own_arn)
        for block in statement.get("Condition", {}).values():
            # Parliament takes numbers as text, and no fraction: 1.2 of s3:TlsVersion.
            block.update((k, str(int(v))) for k, v in block.items() if isinstance(v, int | float))
    analyzed = analyze_policy_string(json.dumps(policy), ignore_private_auditors=True)
    return [
        f"{document.path}: {found.issue}: {found.detail}"
        for found in analyzed.findings
        if not _explained(found, document)
    ]


def _explained(found: Any, document: Document) -> bool:
    if document.kind != "identity" and found.issue in IAM_LINT_ELSEWHERE:
        return True
    detail = found.detail if isinstance(found.detail, list) else [found.detail]
    about = [str(one["action"] if isinstance(one, dict) else one) for one in detail]
    return all(f"{found.issue} {one}".startswith(tuple(IAM_LINT)) for one in about)


def main(folders: list[str]) -> int:
    bad: list[str] = []
    count = 0
    for folder in folders:
        for document in documents(load(Path(folder), place_of(Path(folder)))):
            count += 1
            bad += findings(document, f"arn:aws:iam::123456789012:role/{document.logical_id}")
    print("\n".join(bad) if bad else f"{count} policy documents, no finding", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
