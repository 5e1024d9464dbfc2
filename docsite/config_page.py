"""docs/reference/config.md: every field of ``config/{env}.toml``."""

from docsite.tables import sections
from stacks.config import Config


def text() -> str:
    lines = [
        "# Config",
        "",
        "`config/{env}.toml`, the only home of accounts, regions and sizes. Written from"
        " `stacks/config.py` when this site is built. Unknown fields are errors, and all problems"
        " are told at once. What a setting costs: [cost](../cost.md).",
        "",
        *sections(Config.model_json_schema()),
    ]
    return "\n".join(lines) + "\n"
