"""What mkdocs.yml cannot say: every page of docs/adr is in the navigation, in order."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    decisions = sorted((Path(config["docs_dir"]) / "adr").glob("[0-9]*.md"))
    for entry in config["nav"]:
        if "Decisions" in entry:
            entry["Decisions"] = [f"adr/{page.name}" for page in decisions]
    return config
