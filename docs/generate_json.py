"""Makes docs/reference/json.md from the types of the documents of ``--json``: ``make docs``.

tests/docs compares the committed page with what this makes, and the tests compare the documents
that are printed with ``schema``.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as SequenceType
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, Union, get_args, get_origin
from uuid import UUID

import click

from londiste.cli import cli
from londiste.cli.documents import VERSION, Done, Failure, Rows, Steps
from londiste.cli.lazy import LazyGroup
from londiste.cli.options import JsonOption
from londiste.db.names import TableName

PAGE = Path(__file__).resolve().parent / "reference" / "json.md"

_HEAD = """\
# JSON of the commands

With `--json` a command prints a document for programs: one JSON object in one line on stdout.
Messages and progress stay on stderr.

```
$ londiste tables --json
{{"version": {version}, "tables": [{{"table": "public.orders", "state": "ok", …}}]}}
```

* Every document has `version`, at present {version}.
  It grows when a key is removed or gets another meaning.
  A new key does not change it: ignore keys that you do not know.
* Keys have the names of the columns that the command shows without `--json`.
* A duration is a number of seconds.
* A time is a text in UTC: `2027-01-31T08:25:00.123456Z`.
* Values of rows are texts, as PostgreSQL writes them, or null.
* Characters that a terminal obeys, or that reverse a text, are escapes: `\\u009b`, `\\u202e`.
* A key is always there, also when its value is null. The page names the optional ones.

## Streams

These commands print one document per line until they end:

| command | a document |
|---|---|
| `londiste status --watch --json` | per refresh |
| `londiste copy status --watch --json` | per refresh, until no table is being copied |
| `londiste copy run --json` | per poll and table that is being copied |
| `londiste queue shell --json` | per statement |

## Errors

An error is a document, too. It is the last line on stdout, after documents of a stream.
The lines for people on stderr and the exit code are the same as without `--json`:
[errors and exit codes](errors.md).

A command that compares or checks prints its result with another exit code than 0, too.
Only a document with `error` means that the command failed.
"""

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    timedelta: {"type": "number", "format": "seconds"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Decimal: {"type": "string"},
    UUID: {"type": "string"},
    Path: {"type": "string"},
    TableName: {"type": "string"},
}


def commands(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[type | Rows[Any], ...]]]:
    """All commands with ``--json``, hidden ones included, and the types of their documents."""
    names = group.table if isinstance(group, LazyGroup) else group.commands
    for name in names:
        found = group.get_command(click.Context(group), name)
        assert found is not None
        here = (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, here)
        for option in found.params:
            if "--json" in option.opts:
                yield " ".join(here), getattr(option, "documents", ())
                assert isinstance(option, JsonOption)


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of an object."""

    name: str
    type: Any
    required: bool
    meaning: str


def is_object(kind: Any) -> bool:
    """Whether values of a type are JSON objects with known keys."""
    return inspect.isclass(kind) and (
        dataclasses.is_dataclass(kind)
        or typing.is_typeddict(kind)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields") and kind is not TableName)
    )


@cache
def keys(kind: Any) -> tuple[Key, ...]:
    """The keys of an object type, with their meaning from its docstring."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        hints = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
    optional = getattr(kind, "__optional_keys__", frozenset())
    told = _meanings(kind, hints)
    return tuple(
        Key(
            name,
            get_args(hint)[0] if get_origin(hint) is NotRequired else hint,
            name not in optional and get_origin(hint) is not NotRequired,
            told.get(name, ""),
        )
        for name, hint in hints.items()
    )


def _meanings(kind: Any, names: Mapping[str, Any]) -> dict[str, str]:
    """``name, other -- text`` of the docstrings of a class and the classes it extends."""
    found: dict[str, str] = {}
    for one in reversed([c for c in getattr(kind, "__mro__", [kind]) if c is not object]):
        text = " ".join((one.__doc__ or "").replace("``", "").split())
        starts = list(re.finditer(r"(?:^|(?<=[.;:,…] ))(\w+(?:, \w+)*) -- ", text))
        starts = [m for m in starts if set(m[1].split(", ")) <= set(names)]
        for at, start in enumerate(starts):
            end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
            for name in start[1].split(", "):
                meaning = text[start.end() : end].strip().rstrip(";.,")
                found[name] = re.sub(r"\bNone\b", "null", meaning)
    return found


def summary(kind: Any) -> str:
    """What a type is: the first paragraph of its docstring."""
    doc = inspect.cleandoc(kind.__doc__ or "")
    first = " ".join(doc.split("\n\n")[0].replace("``", "`").split())
    return re.sub(r"\bNone\b", "null", first)


def schema(document: type | Rows[Any]) -> dict[str, Any]:
    """The JSON schema of a document."""
    known: dict[Any, str] = {}
    defined: dict[str, Any] = {}

    def of(kind: Any) -> dict[str, Any]:
        if kind is Any or kind is object:
            return {}
        if kind in _PLAIN:
            return _PLAIN[kind]
        if inspect.isclass(kind) and issubclass(kind, Enum):
            return {"enum": [getattr(one, "word", one.value) for one in kind]}
        if is_object(kind):
            if kind not in known:
                known[kind] = f"{kind.__module__}.{kind.__qualname__}"
                defined[known[kind]] = body(kind)
            return {"$ref": known[kind]}
        origin, args = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return {"anyOf": [of(one) for one in args]}
        if origin in (list, SequenceType, frozenset, set) or (origin is tuple and args[-1] is ...):
            return {"type": "array", "items": of(args[0])}
        if origin is tuple:
            return {"type": "array", "prefixItems": [of(one) for one in args]}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": of(args[1])}
        raise TypeError(f"no JSON form for {kind}")

    def body(kind: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {key.name: of(key.type) for key in keys(kind)},
            "required": [key.name for key in keys(kind) if key.required],
            "additionalProperties": False,
        }

    if isinstance(document, Rows):
        whole: dict[str, Any] = {
            "type": "object",
            "properties": {document.key: of(list[document.row])},  # type: ignore[name-defined]
            "required": [document.key],
            "additionalProperties": False,
        }
    else:
        whole = body(document)
    whole["properties"] = {"version": {"const": VERSION}, **whole["properties"]}
    whole["required"] = ["version", *whole["required"]]
    return {**whole, "$defs": defined}


class _Names:
    """Names of the types in the page, each with an anchor."""

    def __init__(self) -> None:
        self.types: dict[Any, str] = {}

    def __call__(self, kind: Any) -> str:
        if kind not in self.types:
            name = kind.__name__
            if name in self.types.values():
                name = kind.__module__.split(".")[-2].title() + name
            assert name not in self.types.values(), name
            self.types[kind] = name
        return self.types[kind]


def _words(kind: Any, names: _Names) -> str:
    if kind is Any or kind is object:
        return "any"
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return ", ".join(f"`{getattr(one, 'word', one.value)}`" for one in kind)
    if kind is timedelta:
        return "seconds"
    if kind is datetime:
        return "time"
    if kind in _PLAIN:
        return {"string": "text", "boolean": "true or false"}.get(
            _PLAIN[kind]["type"], _PLAIN[kind]["type"]
        )
    if is_object(kind):
        name = names(kind)
        return f"[{name}](#{name.lower()})"
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(one, names) for one in args)
    if origin in (dict, Mapping):
        return f"object: {_words(args[1], names)} by name"
    if origin is tuple and args[-1] is not ...:
        return "list: " + ", ".join(_words(one, names) for one in args)
    return f"list: {_words(args[0], names)}"


def _table(found: SequenceType[Key], names: _Names) -> list[str]:
    lines = ["| key | type | meaning |", "|---|---|---|"]
    for key in found:
        meaning = key.meaning.replace("|", "\\|")
        if not key.required:
            meaning = f"optional; {meaning}".rstrip("; ")
        lines.append(f"| `{key.name}` | {_words(key.type, names)} | {meaning} |")
    return lines


def _document(document: type | Rows[Any], names: _Names) -> list[str]:
    if isinstance(document, Rows):
        items = f"Key `{document.key}`: list of "
        if not is_object(document.row):
            return [f"{items}objects, {_words(document.row, names)}.", ""]
        return [f"{items}{_words(document.row, names)}.", ""]
    if document in (Steps, Done):
        return [f"[{document.__name__}](#{document.__name__.lower()}).", ""]
    return [summary(document), "", *_table(keys(document), names), ""]


def page() -> str:
    """The text of the page."""
    names = _Names()
    lines = [_HEAD.format(version=VERSION), *_table(keys(Failure), names), ""]
    lines += ["## Changes", ""]
    for one in (Steps, Done):
        lines += [f"### {one.__name__}", "", summary(one), "", *_table(keys(one), names), ""]
    lines += ["## Commands", ""]
    hidden = {name for name, entry in cli.table.items() if entry.hidden}  # type: ignore[attr-defined]
    for name, documents in commands():
        if name.split()[0] in hidden:
            continue
        lines += [f"### `londiste {name}`", ""]
        if set(documents) == {Steps, Done}:
            lines += ["[Steps](#steps) with `--dry-run`, else [Done](#done).", ""]
            continue
        for number, document in enumerate(documents):
            if number:
                lines += ["Or:", ""]
            lines += _document(document, names)
    lines += ["## Types", ""]
    shown: set[str] = set()
    while len(shown) < len(names.types):
        for kind, name in list(names.types.items()):
            if name not in shown:
                shown.add(name)
                lines += [f"### {name}", "", summary(kind), "", *_table(keys(kind), names), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
