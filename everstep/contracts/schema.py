"""The run spec as JSON Schema, for editors: ``python -m everstep.contracts.schema [--check]``."""

import json
import sys
from pathlib import Path
from typing import Any

from everstep.contracts.run_spec import RunSpec

TARGET = Path(__file__).parents[2] / "docs" / "run-spec.schema.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SHORT = {"model": "A preset's name, or the section.", "data": "A prefix, or the section."}
"""Sections that may be given as a plain string."""


def schema() -> dict[str, Any]:
    body = RunSpec.model_json_schema()
    for name, description in SHORT.items():
        section = body["properties"][name]
        body["properties"][name] = {
            "title": name.title(),
            "description": description,
            "anyOf": [{"type": "string"}, section],
        }
    return {"$schema": DIALECT, **body, "title": "Everstep run spec"}


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        TARGET.write_text(text(), encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text():
        return 0
    print(f"{TARGET} is stale: run `python -m everstep.contracts.schema`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
