"""docs/reference/run-spec.md: every field, from the pydantic models."""

from docsite.tables import sections
from everstep.contracts.models import PRESETS
from everstep.contracts.schema import schema


def text() -> str:
    lines = [
        "# Run spec",
        "",
        "Written from `run_spec.py` and `training_spec.py` (`everstep/contracts/`) when this site"
        " is built. Unknown fields are errors; the [JSON Schema](../run-spec.schema.json) serves"
        " editors.",
        "",
        *sections(schema()),
        "",
        "## Presets",
        "",
        "Names for `model.preset`, and their size:",
        "",
        "| preset | parameters | layers | dim | vocabulary |",
        "|---|---|---|---|---|",
        *(
            f"| `{name}` | {shape.parameters():,} | {shape.layers} | {shape.dim} "
            f"| {shape.vocab_size:,} |"
            for name, shape in PRESETS.items()
        ),
    ]
    return "\n".join(lines) + "\n"
