"""DDL rendering: the statements that create tables of one database in another; pure.

The order is that of pg_dump: types, sequences, tables (parents first), partitions attached, keys,
indexes, everything else, foreign keys, and rights at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from londiste.db.names import TableName
from londiste.db.structure import objects, remedies, schemas, tables, usertypes
from londiste.db.structure.context import TargetContext
from londiste.db.structure.types import BARE, Lack, Made, Need, Part, Structure, Structures, There
from londiste.errors import UsageError


def make(
    found: Structures,
    there: There,
    renamed: Mapping[TableName, TableName],
    parts: frozenset[Part],
    *,
    needs: bool = False,
) -> Made:
    """The statements that create all tables of ``found``; run in one transaction.

    there -- read with ``read.there`` for at least the names that the tables get, those of their
        parents and of the tables that they refer to.
    renamed -- old name to new name, also of tables that are there and that foreign keys name.
    parts -- WHOLE, BARE or something between.
    needs -- what can be created of the missing functions and extensions will be.

    Raises UsageError: a table is unlogged or there already, or needs a missing type or function
    that cannot be created.
    """
    target = TargetContext(found, there, renamed, parts)
    ordered = _parents_first(found.tables)
    for table in ordered:
        _check(target, table)
    lacks = _lacking(target)
    if lacks:
        raise _refused(target, lacks, needs=needs)
    result = schemas.statements(target, _schemas(target))
    result += usertypes.statements(target)
    result += tables.sequences(target)
    for table in ordered:
        result += tables.create(target, table)
    for table in ordered:
        result += tables.attach(target, table)
    for table in ordered:
        result += objects.keys(target, table) + objects.indexes(target, table)
    for table in reversed(ordered):
        result += objects.attach_indexes(target, table)
    pending = []
    for table in ordered:
        result += objects.statistics(target, table) + objects.replica_identity(target, table)
        result += objects.triggers(target, table) + objects.rules(target, table)
        result += objects.policies(target, table) + objects.comments(target, table)
    for table in ordered:
        more, wait = objects.foreign_keys(target, table)
        result += more
        pending += wait
    for table in ordered:
        result += objects.rights(target, table)
    created = [f"type {one.name}" for one in usertypes.missing(target)]
    created += [f"sequence {target.sequences[one.name]}" for one in target.made_sequences]
    above = {target.to(parent) for table in ordered for parent in target.attached_to(table)}
    parents = sorted(above & target.there.relations)
    return Made(
        tuple(result),
        tuple(pending),
        tuple(target.notes),
        tuple(created),
        tuple(parents),
        tuple(target.to(table.name) for table in ordered),
    )


def lacking(
    found: Structures,
    there: There,
    renamed: Mapping[TableName, TableName],
    parts: frozenset[Part],
) -> list[Lack]:
    """What is missing and lets ``make`` reject the tables, each object once."""
    return _lacking(TargetContext(found, there, renamed, parts))


def others(found: Structures) -> frozenset[TableName]:
    """The tables that these tables name: parents and foreign key targets."""
    names = {parent for table in found.tables for parent in table.parents}
    for table in found.tables:
        names |= {c.to_table for c in table.constraints if c.to_table is not None}
    return frozenset(names) - {table.name for table in found.tables}


def _parents_first(found: tuple[Structure, ...]) -> list[Structure]:
    by_name = {table.name: table for table in found}
    result: dict[TableName, Structure] = {}

    def visit(table: Structure) -> None:
        for parent in table.parents:
            if parent in by_name:
                visit(by_name[parent])
        result.setdefault(table.name, table)

    for table in found:
        visit(table)
    return list(result.values())


def _schemas(target: TargetContext) -> set[str]:
    wanted = {target.to(name).schema for name in target.made}
    if Part.TYPES in target.parts:
        wanted |= {t.name.schema for t in target.found.types if t.extension is None}
    wanted |= {target.sequences[s.name].schema for s in target.made_sequences}
    if Part.STATISTICS in target.parts:
        wanted |= {name.schema for name in target.statistics.values()}
    return wanted


def _check(target: TargetContext, table: Structure) -> None:
    dest = target.to(table.name)
    if table.persistence != "p":
        kind = "unlogged" if table.persistence == "u" else "temporary"
        raise UsageError(
            f"table {table.name} is {kind}",
            detail="its rows are lost in a crash of the server; nothing was created",
            hint=f"on the provider: alter table {table.name.quoted} set logged",
        )
    if dest in target.there.relations:
        raise UsageError(
            f"table {dest} exists already",
            detail=f"table {table.name} was to be created under this name; nothing was created",
            hint="drop it, or create the new table under another name: --dest-table",
        )


def _lacking(target: TargetContext) -> list[Lack]:
    found = usertypes.lacking(target)
    for table in target.found.tables:
        for need in table.needs:
            if not _wanted(target, table, need):
                continue
            wanted_by = f"table {table.name} needs it; for {need.object} ({need.part})"
            mine = _with_parents(target, table)
            if need.kind == "collation":
                lacks = remedies.collations(target, [need.signature], wanted_by)
                found += [replace(one, tables=mine) for one in lacks]
                continue
            if need.signature in target.there.functions:
                continue
            hint = f"{remedies.FIRST}, or exclude that part with add-table: --create-without "
            hint += need.part
            sql: tuple[str, ...] = ()
            if need.extension:
                hint, sql = remedies.extension(target, need.extension)
            found.append(
                Lack("function", need.signature, wanted_by, hint, need.extension, sql, mine)
            )
    # Which tables have a type is not known.
    every = frozenset(table.name for table in target.found.tables)
    objects: dict[tuple[str, str], Lack] = {}
    for one in found:
        first = objects.setdefault((one.kind, one.name), one)
        tables = first.tables | (one.tables or every)
        objects[one.kind, one.name] = replace(first, tables=tables)
    return list(objects.values())


def _with_parents(target: TargetContext, table: Structure) -> frozenset[TableName]:
    """The table, and those of its parents that are created with it."""
    names = {table.name}
    for parent in table.parents:
        if parent in target.made:
            names |= _with_parents(target, target.made[parent])
    return frozenset(names)


def _refused(target: TargetContext, lacks: Sequence[Lack], *, needs: bool) -> UsageError:
    """One error for all missing objects.

    needs -- ``--create-needs`` is in force, and could not create them.
    """
    full = "--create-full " if target.parts == BARE else ""
    there = target.there.extensions
    creatable = any(
        one.extension not in there if one.extension else one.kind == "function" for one in lacks
    )
    create = f"create the missing objects: {full}--create-needs" if creatable and not needs else ""
    if len(lacks) == 1:
        (one,) = lacks
        why, _, more = one.wanted_by.partition("; ")
        return UsageError(
            f"{one} does not exist, and {why}",
            detail=f"{more}; nothing was created",
            hint=f"{one.hint}; or {create}" if create else one.hint,
        )
    of_extensions = sorted((one for one in lacks if one.extension), key=lambda x: x.extension or "")
    hints = list(dict.fromkeys("; ".join(one.sql) or one.hint for one in of_extensions))
    hints += dict.fromkeys(one.hint for one in lacks if not one.extension)
    if create:
        hints.insert(0, f"{create} (with --dry-run it prints the statements); or: {hints.pop(0)}")
    return UsageError(
        f"{len(lacks)} objects that the tables need do not exist: {', '.join(map(str, lacks))}",
        detail="; ".join(f"{one}: {one.wanted_by}" for one in lacks) + "; nothing was created",
        hint="; ".join(hints),
    )


def _wanted(target: TargetContext, table: Structure, need: Need) -> bool:
    """Whether the object that calls the function, or uses the collation, is to be created."""
    if need.part == "columns":
        return True
    if need.part != Part.DEFAULTS:
        keys = {i.name for i in table.indexes if i.constraint is not None}
        part = Part.UNIQUE if need.object in keys else Part(need.part)
        return part in target.parts
    column = next(c for c in table.columns if c.name == need.object)
    if need.kind == "collation" and not target.calls_of_default(table, column):
        return True
    return bool(column.generated) or Part.DEFAULTS in target.parts
