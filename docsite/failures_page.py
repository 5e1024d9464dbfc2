"""docs/reference/failures.md: each class, what follows, and where the runbook is."""

from docsite.tables import cell
from everstep.contracts.failures import FailureClass
from everstep.policy.retry import TABLE
from everstep.policy.rule import DEFAULTS


def text() -> str:
    rows = []
    for name in FailureClass:
        action, hint = DEFAULTS[name]
        row = TABLE[name]
        spends = "yes" if row.spends_attempt else "no"
        rows.append(
            f"| [`{name}`](../runbook.md#{name}) | `{name.error_name}` | `{action}` | `{row.kind}` "
            f"| {spends} | {row.patience} | {cell(hint)} |"
        )
    lines = [
        "# Failure classes",
        "",
        "Why an attempt ended, and what follows by itself. Written from"
        " `everstep/policy/rule.py` and `everstep/policy/retry.py` when this site is built. Each"
        " class links to its section of the [runbook](../runbook.md).",
        "",
        "| class | error of the execution | asks for | decision | spends an attempt | patience "
        "| hint |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "*Patience* multiplies `retry.no_progress_limit`: how many attempts of this class in a row"
        " may end without a new checkpoint. *Decision* is where it starts; history, budget and"
        " limits may end it earlier: [architecture](../architecture.md), points 7 to 10.",
    ]
    return "\n".join(lines) + "\n"
