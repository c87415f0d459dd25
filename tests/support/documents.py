"""Compares documents of ``--json`` with their schemas in docs/reference/json.md."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import click

from londiste.cli import cli
from londiste.cli.documents import Failure

GENERATE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "generate_json.py"))
schema: Callable[[Any], dict[str, Any]] = cache(GENERATE["schema"])

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def mistakes(value: Any, wanted: Mapping[str, Any], root: Mapping[str, Any], at: str) -> list[str]:
    """What differs from a schema of docs/generate_json.py."""
    if "$ref" in wanted:
        return mistakes(value, root["$defs"][wanted["$ref"]], root, at)
    if "anyOf" in wanted:
        found = [mistakes(value, one, root, at) for one in wanted["anyOf"]]
        return min(found, key=len) if all(found) else []
    if "const" in wanted or "enum" in wanted:
        allowed = wanted.get("enum", [wanted.get("const")])
        return [] if value in allowed else [f"{at}: {value!r}"]
    if "type" not in wanted:
        return []
    kind = wanted["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return [f"{at}: {value!r} is no {kind}"]
    if wanted.get("format") == "date-time":
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return [f"{at}: {value} is no time"]
        return [] if value.endswith("Z") and time.tzinfo else [f"{at}: {value} is not in UTC"]
    if kind == "array":
        items = wanted.get("prefixItems") or [wanted["items"]] * len(value)
        pairs = zip(value, items, strict=True)
        return [
            m for n, (one, of) in enumerate(pairs) for m in mistakes(one, of, root, f"{at}[{n}]")
        ]
    if kind == "object":
        known, more = wanted.get("properties", {}), wanted["additionalProperties"]
        found = [f"{at}: no key {key}" for key in wanted.get("required", []) if key not in value]
        for key, one in value.items():
            if key in known or more is not False:
                found += mistakes(one, known.get(key, more), root, f"{at}.{key}")
            else:
                found.append(f"{at}: unknown key {key}")
        return found
    return []


def check(document: Any, kinds: Sequence[Any]) -> None:
    """Asserts that a document is one of the given types, or an error."""
    schemas = [schema(Failure)] if "error" in document else [schema(kind) for kind in kinds]
    found = [mistakes(document, one, one, "document") for one in schemas]
    assert not all(found), f"{min(found, key=len)} in {document}"


def kinds_of(command: click.Command) -> Sequence[Any]:
    """The types of the documents of a command."""
    return [kind for one in command.params for kind in getattr(one, "documents", ())]


def check_output(argv: Sequence[str], out: str) -> None:
    """Checks the output of a call with ``--json``."""
    if "--json" not in argv:
        return
    found: click.Command = cli
    for word in argv:
        if isinstance(found, click.Group):
            found = found.get_command(click.Context(found), word) or found
    for line in out.splitlines():
        check(json.loads(line), kinds_of(found))
