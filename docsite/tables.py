"""A JSON Schema as Markdown: a heading a section, a row a field."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "maxLength": "≤ {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


def cell(text: str) -> str:
    """Text that neither ends a table's cell nor its row."""
    return " ".join(text.replace("``", "`").split()).replace("|", "\\|")


def slug(name: str) -> str:
    return name.strip("_").lower()


def _limits(schema: Schema) -> str:
    found = [says.format(schema[key]) for key, says in _LIMITS.items() if key in schema]
    return f" {', '.join(found)}" if found else ""


def type_of(schema: Schema) -> str:
    """In words; sections as links to their heading."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name.strip('_')}](#{slug(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(x) for x in schema["anyOf"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{x}`" for x in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}{_limits(schema)}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"table of {type_of(inner)}" if isinstance(inner, Mapping) else "table"
    words = {"integer": "whole number", "string": "text", "boolean": "true or false"}
    return words.get(str(kind), str(kind or "anything")) + _limits(schema)


def default_of(name: str, schema: Schema, required: bool) -> str:
    if required:
        return "**required**"
    value = schema.get("default")
    if isinstance(value, Mapping):
        return "its own"  # a section: its fields' defaults stand under its heading
    return "–" if value in (None, "", []) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _opened(schema: Schema, defs: Schema) -> Schema:
    """An enumeration's words in place of its name: it has no section of its own."""
    target = defs.get(str(schema.get("$ref", "")).rpartition("/")[2], {})
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return {**target, **own} if target.get("enum") else schema


def fields(schema: Schema, defs: Schema) -> Iterator[str]:
    yield "| field | what | type | default |"
    yield "|---|---|---|---|"
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        field = _opened(field, defs)
        if "anyOf" in field:
            field = {**field, "anyOf": [_opened(each, defs) for each in field["anyOf"]]}
        said = cell(str(field.get("description", "")))
        row = (f"`{name}`", said, cell(type_of(field)), default_of(name, field, name in required))
        yield f"| {' | '.join(row)} |"


def _in_order(schema: Schema, defs: Schema) -> list[str]:
    """Sections as they are first named, so that the page follows the table at its top."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        for name in re.findall(r"#/\$defs/(\w+)", json.dumps(waiting.pop(0).get("properties", {}))):
            # an enumeration has no fields: its words stand in the rows
            if name not in found and "properties" in defs[name]:
                found.append(name)
                waiting.append(defs[name])
    return found


def sections(schema: Schema) -> Iterator[str]:
    """The top, then each section that it or another one holds."""
    defs = schema.get("$defs", {})
    yield from fields(schema, defs)
    for name in _in_order(schema, defs):
        section = defs[name]
        yield f"\n## {name.strip('_')}\n"
        if said := section.get("description"):
            yield said.replace("``", "`") + "\n"
        yield from fields(section, defs)
