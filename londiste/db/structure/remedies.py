"""Statements that create what the tables need and the target lacks: collations and extensions."""

from __future__ import annotations

from collections.abc import Iterable

from londiste.db.names import quote
from londiste.db.structure import schemas
from londiste.db.structure.context import TargetContext
from londiste.db.structure.types import Extension, Lack

#: How the hint for one missing object begins.
FIRST = "create it first"
#: Schemas that every database has, and that CREATE EXTENSION usually takes.
_USUAL = ("public", "pg_catalog")


def of_extension(target: TargetContext, wanted: Extension) -> tuple[str, ...]:
    """Statements after which the extension is in its schema; none: it cannot be moved there."""
    there = target.there.extensions.get(wanted.name)
    name, place = quote(wanted.name), wanted.schema or "public"
    first = [] if place in _USUAL else schemas.statements(target, {place}, repeatable=True)
    if there is None:
        within = "" if place in _USUAL else f" schema {quote(place)}"
        return (*first, f"create extension {name}{within}")
    if not elsewhere(wanted, there):
        return (f"alter extension {name} update",)
    if not there.relocatable:
        return ()
    return (*first, f"alter extension {name} set schema {quote(place)}")


def elsewhere(wanted: Extension, there: Extension) -> bool:
    """Whether an extension is in another schema than it should be."""
    return None not in (wanted.schema, there.schema) and wanted.schema != there.schema


def extension(target: TargetContext, name: str) -> tuple[str, tuple[str, ...]]:
    """Hint and statements for an object of an extension that the target lacks."""
    wanted = target.found.extensions[name]
    sql = of_extension(target, wanted)
    if not sql:
        return f"drop extension {name}, and create it again in schema {wanted.schema}", ()
    if name in target.there.extensions:
        return "; ".join(sql), sql
    return f"{FIRST}: {'; '.join(sql)}", sql


def collations(target: TargetContext, names: Iterable[str], wanted_by: str) -> list[Lack]:
    """Those of the collations that the target lacks."""
    result = []
    for name in names:
        if name in target.there.collations:
            continue
        one = target.found.collations[name]
        sql = (*schemas.statements(target, {one.schema}, repeatable=True), one.statement)
        if one.schema == "pg_catalog":
            # A locale of the operating system or of ICU: its statement is the second thing to do.
            hint = f"{FIRST}: install this locale on the server, then: {one.statement}"
            result.append(Lack("collation", name, wanted_by, hint))
        else:
            hint = f"{FIRST}: {'; '.join(sql)}"
            result.append(Lack("collation", name, wanted_by, hint, sql=sql))
    return result
