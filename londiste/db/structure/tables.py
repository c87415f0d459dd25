"""DDL of tables: columns, checks, parents, partitions, and the sequences of columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from londiste.db.ddl import literal
from londiste.db.names import TableName, quote
from londiste.db.structure import releases
from londiste.db.structure.context import TargetContext, option_list, sequence_options
from londiste.db.structure.types import Column, ColumnSequence, Constraint, Part, Structure

#: Releases (server_version_num) since which there is …
VIRTUAL = 180000
NAMED_NOT_NULL = 180000
IDENTITY_IN_PARTITIONS = 170000
_OPTIONS_SINCE = {
    "autovacuum_vacuum_max_threshold": 180000,
    "vacuum_max_eager_freeze_failure_rate": 180000,
}


def sequences(target: TargetContext) -> list[str]:
    """CREATE SEQUENCE for sequences that defaults name."""
    result = []
    for one in target.made_sequences:
        name = target.sequences[one.name]
        result.append(create_sequence(one, name, target.there.version))
        result += target.comment(f"sequence {name.quoted}", one.comment)
    return result


def create_sequence(one: ColumnSequence, name: TableName, version: int) -> str:
    """CREATE SEQUENCE for a server of this version."""
    unlogged = "unlogged " if one.unlogged and version >= 150000 else ""
    return f"create {unlogged}sequence {name.quoted} as {one.type} {sequence_options(one)}"


def create(target: TargetContext, table: Structure) -> list[str]:
    """The table with its columns and checks, and the statements that must follow it."""
    dest = target.to(table.name)
    parents = target.attached_to(table)
    attached = bool(parents) and table.bound is not None
    merged = _merged([target.columns_of(parent) for parent in parents], table)
    later = parents if not attached and merged != [c.name for c in table.columns] else ()
    inherits = parents if not attached and not later else ()
    lines, after = [], []
    for column in table.columns:
        if inherits and not column.is_local:
            lines += _inherited_not_null(target, table, column)
            after += _inherited_column(target, table, column)
            continue
        lines.append(_column(target, table, column, attached))
        after += _not_null_after(target, table, column)
    for check in _checks(target, table):
        if inherits and not check.is_local:
            continue
        text = f"constraint {quote(target.of_check(table, check.name))} {check.definition}"
        if check.validated and check.enforced:
            lines.append(text)
        else:
            after.append(f"alter table only {dest.quoted} add {text}")
    body = ",\n    ".join(lines)
    statement = f"create table {dest.quoted} (\n    {body}\n)"
    if inherits:
        statement += f" inherits ({', '.join(target.to(p).quoted for p in inherits)})"
    if table.partition_key:
        statement += f" partition by {table.partition_key}"
    options = _options(target, table)
    if options:
        statement += f" with {option_list(options)}"
    result = [statement, *after]
    result += [f"alter table only {dest.quoted} inherit {target.to(p).quoted}" for p in later]
    if Part.PARENTS in target.parts and table.parents and not parents:
        names = ", ".join(str(target.to(p)) for p in table.parents)
        word = "a partition of it" if table.bound else "a child of it"
        target.note(
            f"{names} does not exist: table {dest} is created as a separate table, not as {word}"
        )
    for column in table.columns:
        result += _settings(target, table, column)
    for one in table.sequences:
        if one.owned == "a" and Part.SEQUENCES in target.parts:
            name = target.sequences[one.name].quoted
            result.append(f"alter sequence {name} owned by {dest.quoted}.{quote(one.column)}")
    if table.tablespace:
        target.note(f"table {dest} is created in the default tablespace, not in {table.tablespace}")
    if table.access_method:
        target.note(f"table {dest} is created with access method heap, not {table.access_method}")
    if table.is_typed:
        target.note(f"table {dest} is created with its own columns, not as a typed table")
    return result


def _merged(parents: Sequence[Sequence[str]], table: Structure) -> list[str]:
    """The columns of a table in the order that INHERITS would give them: those of parents first."""
    own = [column.name for column in table.columns]
    names = dict.fromkeys(itertools.chain(*parents, own))
    return [name for name in names if name in own]


def attach(target: TargetContext, table: Structure) -> list[str]:
    """ATTACH PARTITION, for a partition whose parent exists."""
    if table.bound is None or not target.attached_to(table):
        return []
    parent = target.to(table.parents[0])
    return [
        f"alter table only {parent.quoted} attach partition {target.to(table.name).quoted}"
        f" {table.bound}"
    ]


def _checks(target: TargetContext, table: Structure) -> list[Constraint]:
    result = []
    for one in table.constraints:
        if one.kind != "c" or Part.CHECKS not in target.parts:
            continue
        since = releases.of_constraint(table, one)
        if since > target.there.version:
            target.note(
                f"check {one.name} of table {target.to(table.name)} is skipped: NOT ENFORCED"
                f" needs {releases.name(since)}"
            )
            continue
        result.append(one)
    return result


def _column(target: TargetContext, table: Structure, column: Column, attached: bool) -> str:
    parts = [quote(column.name), column.type]
    if column.collation:
        parts.append(f"collate {column.collation}")
    if column.identity:
        text = _identity(target, table, column, attached)
        if text:
            parts.append(text)
    elif column.generated:
        parts.append(_generated(target, table, column))
    else:
        default = _default(target, table, column)
        if default is not None:
            parts.append(f"default {default}")
    if column.not_null and column.not_null_valid:
        if column.not_null_name and target.there.version >= NAMED_NOT_NULL:
            parts.append(f"constraint {quote(target.of(table, column.not_null_name))}")
        parts.append("not null")
        if column.not_null_no_inherit and target.there.version >= NAMED_NOT_NULL:
            parts.append("no inherit")
    return " ".join(parts)


def _not_null_after(target: TargetContext, table: Structure, column: Column) -> list[str]:
    """NOT NULL that is not validated for all rows."""
    if not column.not_null or column.not_null_valid:
        return []
    dest = target.to(table.name)
    since = releases.of_not_null(column)
    if since > target.there.version or column.not_null_name is None:
        target.note(
            f"column {column.name} of table {dest} may be NULL: its NOT NULL is NOT VALID,"
            f" which needs {releases.name(since)}"
        )
        return []
    name = quote(target.of(table, column.not_null_name))
    return [
        f"alter table only {dest.quoted} add constraint {name} not null {quote(column.name)}"
        " not valid"
    ]


def _inherited_column(target: TargetContext, table: Structure, column: Column) -> list[str]:
    """The own properties of a column that only a parent defines."""
    dest, name = target.to(table.name).quoted, quote(column.name)
    result = []
    default = None if column.generated or column.identity else _default(target, table, column)
    above = [
        c
        for parent in table.parents
        if parent in target.made
        for c in target.made[parent].columns
        if c.name == column.name
    ]
    of_parent = [c.default for c in above]
    if not column.generated and Part.DEFAULTS in target.parts and column.default not in of_parent:
        if default is not None:
            result.append(f"alter table only {dest} alter column {name} set default {default}")
        elif any(of_parent):
            result.append(f"alter table only {dest} alter column {name} drop default")
    # That of a parent may be left out, while all rows of the child have a value.
    left_out = any(releases.of_not_null(c) > target.there.version for c in above)
    own = column.not_null and column.not_null_valid and (column.not_null_local or left_out)
    if own and not _inherited_not_null(target, table, column):
        result.append(f"alter table only {dest} alter column {name} set not null")
    # Before PostgreSQL 18 children inherit that of a parent, also if it is NO INHERIT.
    inherits = any(c.not_null_no_inherit and c.not_null_valid for c in above)
    if inherits and not column.not_null and target.there.version < NAMED_NOT_NULL:
        result.append(f"alter table only {dest} alter column {name} drop not null")
    return result


def _inherited_not_null(target: TargetContext, table: Structure, column: Column) -> list[str]:
    """A named NOT NULL of its own on a column that only a parent defines.

    Within CREATE TABLE it gets its name; later the parent's constraint would exist already.
    """
    if not (column.not_null and column.not_null_local and column.not_null_valid):
        return []
    if column.not_null_name is None or target.there.version < NAMED_NOT_NULL:
        return []
    own = quote(target.of(table, column.not_null_name))
    return [f"constraint {own} not null {quote(column.name)}"]


def _identity(target: TargetContext, table: Structure, column: Column, attached: bool) -> str:
    here, there = target.found.version, target.there.version
    # A partition has the identity of its parent; in older releases none, or one of its own.
    if attached and max(here, there) >= IDENTITY_IN_PARTITIONS:
        return ""
    if table.partition_key and there < IDENTITY_IN_PARTITIONS <= here:
        target.note(
            f"column {column.name} of table {target.to(table.name)} is no identity in the"
            " partitions: an insert directly into one must give its value before PostgreSQL 17"
        )
    when = "always" if column.identity == "a" else "by default"
    own = next((s for s in table.sequences if s.column == column.name and s.owned == "i"), None)
    text = f"generated {when} as identity"
    if own is not None:
        name = ""
        if Part.SEQUENCES in target.parts:
            name = f"sequence name {target.sequences[own.name].quoted} "
        text += f" ({name}{sequence_options(own)})"
    return text


def _generated(target: TargetContext, table: Structure, column: Column) -> str:
    kind = "stored"
    if column.generated == "v" and target.there.version >= VIRTUAL:
        kind = "virtual"
    elif column.generated == "v":
        target.note(
            f"column {column.name} of table {target.to(table.name)} is stored, not virtual:"
            " virtual columns need PostgreSQL 18"
        )
    return f"generated always as ({column.default}) {kind}"


def _default(target: TargetContext, table: Structure, column: Column) -> str | None:
    if column.default is None:
        return None
    calls = target.calls_of_default(table, column)
    if calls and Part.DEFAULTS not in target.parts:
        target.note(
            f"column {column.name} of table {target.to(table.name)} has no default: it calls"
            f" function {calls[0]}"
        )
        return None
    text = column.default
    for one in table.sequences:
        if one.column == column.name:
            if Part.SEQUENCES not in target.parts:
                return None
            text = text.replace(f"{one.literal}::regclass", _regclass(target, one))
    return text


def _regclass(target: TargetContext, one: ColumnSequence) -> str:
    return f"{literal(target.sequences[one.name].quoted)}::pg_catalog.regclass"


def _options(target: TargetContext, table: Structure) -> tuple[str, ...]:
    if Part.OPTIONS not in target.parts:
        return ()
    result = []
    for option in table.options:
        key = option.partition("=")[0].removeprefix("toast.")
        since = _OPTIONS_SINCE.get(key, 0)
        if target.there.version < since:
            target.note(
                f"table {target.to(table.name)} is created without {option}: it needs"
                f" PostgreSQL {since // 10000}"
            )
        else:
            result.append(option)
    return tuple(result)


def _settings(target: TargetContext, table: Structure, column: Column) -> list[str]:
    if Part.OPTIONS not in target.parts:
        return []
    alter = f"alter table only {target.to(table.name).quoted} alter column {quote(column.name)}"
    result = []
    if column.storage:
        result.append(f"{alter} set storage {column.storage}")
    if column.compression in target.there.compressions:
        result.append(f"{alter} set compression {column.compression}")
    elif column.compression:
        target.note(
            f"column {column.name} of table {target.to(table.name)} is not compressed by"
            f" {column.compression}: the server is built without it"
        )
    if column.statistics is not None:
        result.append(f"{alter} set statistics {column.statistics}")
    if column.options:
        result.append(f"{alter} set {option_list(column.options)}")
    return result
