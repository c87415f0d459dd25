"""Types that tables need and PostgreSQL does not bring: made where they are missing, or named."""

from __future__ import annotations

from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.structure.context import Target
from londiste.db.structure.types import Part, UserType
from londiste.errors import UsageError

_WORDS = {
    "e": "enum",
    "d": "domain",
    "c": "composite type",
    "r": "range type",
    "b": "base type",
    "p": "type",
    "t": "row type",
}


def statements(target: Target) -> list[str]:
    """CREATE TYPE and CREATE DOMAIN for what is missing there, in order.

    Raises UsageError for a type that cannot be made: of an extension, of a table, in C, or with a
    function that is not there.
    """
    result = []
    for one in target.found.types:
        made = any(one.name == target.to(name) for name in target.made)
        if one.name in target.there.types or made:
            continue
        problem = _problem(one, target)
        if problem:
            raise UsageError(
                f"type {one.name} is not there, and a column needs it",
                detail=f"it is a {_WORDS.get(one.kind, 'type')}"
                + (f" of extension {one.extension}" if one.extension else "")
                + "; nothing was made",
                hint=problem,
            )
        for signature in one.needs:
            if signature not in target.there.functions:
                raise UsageError(
                    f"function {signature} is not there, and type {one.name} needs it",
                    detail=f"it is a {_WORDS.get(one.kind, 'type')} of a column; nothing was made",
                    hint="create it first",
                )
        result.append(_create(one))
        kind = "domain" if one.kind == "d" else "type"
        result += target.comment(f"{kind} {one.name.quoted}", one.comment)
        if Part.OWNER in target.parts and (target.there.roles or {}).get(one.owner):
            result.append(f"alter {kind} {one.name.quoted} owner to {quote(one.owner)}")
    return result


def _problem(one: UserType, target: Target) -> str:
    if one.extension:
        return f"create it first: create extension {quote(one.extension)}"
    if one.kind == "t":
        return f"make table {one.name} first"
    if one.kind in {"b", "p"} or (one.range or {}).get("canonical"):
        return "make it by hand, with its functions in C"
    if Part.TYPES not in target.parts:
        return "make it by hand; or let it be made with the table: --create-full"
    return ""


def _create(one: UserType) -> str:
    name = one.name.quoted
    if one.kind == "e":
        return f"create type {name} as enum ({', '.join(literal(x) for x in one.labels)})"
    if one.kind == "c":
        fields = ", ".join(
            f"{quote(field)} {kind}" + (f" collate {collation}" if collation else "")
            for field, kind, collation in one.attributes
        )
        return f"create type {name} as ({fields})"
    if one.kind == "r":
        pairs = ", ".join(f"{key} = {value}" for key, value in (one.range or {}).items() if value)
        return f"create type {name} as range ({pairs})"
    parts = [f"create domain {name} as {one.base}"]
    if one.collation:
        parts.append(f"collate {one.collation}")
    if one.default is not None:
        parts.append(f"default {one.default}")
    if one.not_null:
        parts.append("not null")
    parts += [f"constraint {quote(check)} {definition}" for check, definition in one.checks]
    return " ".join(parts)
