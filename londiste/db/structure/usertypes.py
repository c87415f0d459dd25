"""User-defined types of columns: created if missing, or reported."""

from __future__ import annotations

from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.structure import remedies
from londiste.db.structure.context import TargetContext
from londiste.db.structure.remedies import FIRST
from londiste.db.structure.types import Lack, Part, UserType

_WORDS = {
    "e": "enum",
    "d": "domain",
    "c": "composite type",
    "r": "range type",
    "b": "base type",
    "p": "type",
    "t": "row type",
}


def lacking(target: TargetContext) -> list[Lack]:
    """Types that cannot be created (extension, table, C), and functions that types call."""
    found = []
    for one in missing(target):
        word = _WORDS.get(one.kind, "type")
        problem = _problem(one, target)
        if problem:
            of = f" of extension {one.extension}" if one.extension else ""
            wanted_by = f"a column needs it; it is a {word}{of}"
            hint, sql = problem
            found.append(Lack("type", str(one.name), wanted_by, hint, one.extension, sql))
        wanted_by = f"type {one.name} needs it; it is a {word}"
        for signature, extension in one.needs:
            if signature not in target.there.functions:
                hint, sql = remedies.extension(target, extension) if extension else (FIRST, ())
                found.append(Lack("function", signature, wanted_by, hint, extension, sql))
        found += remedies.collations(target, one.collations, wanted_by)
    return found


def missing(target: TargetContext) -> list[UserType]:
    """Types that the tables need and the target lacks."""
    made = {target.to(name) for name in target.made}
    types = target.found.types
    return [t for t in types if t.name not in target.there.types and t.name not in made]


def statements(target: TargetContext) -> list[str]:
    """CREATE TYPE and CREATE DOMAIN for missing types, in order."""
    result = []
    for one in missing(target):
        result.append(_create(one))
        kind = "domain" if one.kind == "d" else "type"
        result += target.comment(f"{kind} {one.name.quoted}", one.comment)
        if Part.OWNER in target.parts and not target.owner_problem(one.owner, one.name.schema):
            result.append(f"alter {kind} {one.name.quoted} owner to {quote(one.owner)}")
    return result


def _problem(one: UserType, target: TargetContext) -> tuple[str, tuple[str, ...]] | None:
    """Hint and statements for a type that is not created with the tables."""
    if one.extension:
        return remedies.extension(target, one.extension)
    hint = None
    if one.kind == "t":
        hint = f"create table {one.name} first"
    elif one.kind in {"b", "p"} or (one.range or {}).get("canonical"):
        hint = "create it manually, with its functions in C"
    elif Part.TYPES not in target.parts:
        hint = "create it manually, or with the table: --create-full"
    return None if hint is None else (hint, ())


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
