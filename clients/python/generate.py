#!/usr/bin/env python3
"""Writes antiphase/messages.py from proto/schema.json; with --check says whether it is current.

A message becomes a dataclass with a default for every field, as protobuf has it: what is absent in JSON is the default here, and a
default is left out of a request.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEMA = HERE.parent.parent / "proto" / "schema.json"
TARGET = HERE / "antiphase" / "messages.py"

HEAD = '''"""Messages of the service, generated from proto/schema.json by generate.py: do not edit.

Every field has a default. Names, units and meanings are those of proto/antiphase/v1alpha1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Optional, Union

from .message import Message

'''

PLAIN = {"string": ("str", '""'), "integer": ("int", "0"), "number": ("float", "0.0"), "boolean": ("bool", "False")}


def referred(schema: dict[str, Any]) -> str | None:
    """The definition that a schema refers to, alone or as the one choice beside null."""
    choices = [schema, *schema.get("anyOf", [])]
    found = [str(one["$ref"]).rsplit("/", 1)[-1] for one in choices if "$ref" in one]
    return found[0] if found else None


def kind(schema: dict[str, Any], enums: dict[str, list[str]]) -> tuple[str, str]:
    """Type and default of a field."""
    name = referred(schema)
    if name in enums:
        return name, repr(enums[name][0]).replace("'", '"')
    if name is not None:
        return f"Optional[{name}]", "None"
    if "anyOf" in schema:
        # The paths of fields: a list, or one text with commas.
        return "Union[list[str], str]", "field(default_factory=list)"
    of = schema["type"]
    if of == "array":
        return f"list[{kind(schema['items'], enums)[0].removeprefix('Optional[').removesuffix(']')}]", "field(default_factory=list)"
    if of == "object":
        value = kind(schema["additionalProperties"], enums)[0]
        return f"dict[str, {value}]", "field(default_factory=dict)"
    if isinstance(of, list):
        plain = of[0]
        return ("Optional[dict[str, Any]]" if plain == "object" else f"Optional[{PLAIN[plain][0]}]"), "None"
    return PLAIN[of]


def said(text: str, indent: str, width: int = 132) -> list[str]:
    """A docstring."""
    if not text:
        return []
    lines = textwrap.wrap(text.replace("\\", "\\\\").replace('"""', "'''"), width - len(indent) - 6)
    # A quotation mark at the end would run into those that close the docstring.
    close = ' """' if lines[-1].endswith('"') else '"""'
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}{close}']
    return [f'{indent}"""{lines[0]}', *(indent + line for line in lines[1:-1]), f"{indent}{lines[-1]}{close}"]


def enumeration(name: str, schema: dict[str, Any]) -> list[str]:
    values = ", ".join(f'"{value}"' for value in schema["enum"])
    return [f"{name} = Literal[{values}]", *said(schema.get("description", ""), "")]


def message(name: str, schema: dict[str, Any], enums: dict[str, list[str]]) -> list[str]:
    lines = ["@dataclass(frozen=True, kw_only=True)", f"class {name}(Message):"]
    lines += said(schema.get("description", f"{name}."), "    ") + [""]
    nested = {}
    for field_name, of in schema["properties"].items():
        inner = referred(of) or referred(of.get("items", {}))
        if inner is not None and inner not in enums:
            nested[field_name] = inner
        hint, default = kind(of, enums)
        lines += [f"    {field_name}: {hint} = {default}", *said(of.get("description", ""), "    ")]
    inside = ", ".join(f'"{key}": "{value}"' for key, value in sorted(nested.items()))
    return [*lines, f"    NESTED: ClassVar[dict[str, str]] = {{{inside}}}"]


def generate() -> str:
    definitions = json.loads(SCHEMA.read_text())["$defs"]
    # An error is an exception here.
    definitions.pop("Error")
    enums = {name: of["enum"] for name, of in definitions.items() if "enum" in of}
    parts = [enumeration(name, definitions[name]) for name in sorted(enums)]
    parts += [message(name, definitions[name], enums) for name in sorted(definitions) if name not in enums]
    return HEAD + "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def main() -> int:
    fresh = generate()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() == fresh:
            return 0
        print(f"{TARGET.name} is stale; run clients/python/generate.py", file=sys.stderr)
        return 1
    TARGET.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
