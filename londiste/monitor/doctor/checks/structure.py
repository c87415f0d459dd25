"""Checks of tables that exist in both databases: they must be able to store the same rows.

The copy maps columns by name and skips columns of one side; compare ignores them, too.  That would
be silent loss, so these differences are found before the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from londiste.db.names import quote
from londiste.monitor.doctor.facts import ColumnFacts, Table
from londiste.monitor.doctor.situation import Situation, found
from londiste.monitor.queues.model import Finding, Severity
from londiste.replication.commands.column_checks import narrower

FINDINGS = {"structure": "table that differs between both databases"}


def check(pair: Situation) -> Iterator[Finding]:
    """``differing`` for the tables that are wanted."""
    if pair.target is not None and pair.compared:
        # A copy restores the keys at its end.
        copying = pair.target.more.copying
        there = [table for table in pair.target.tables if table.name not in copying]
        yield from differing(pair.wanted, there, pair.names)


def differing(
    old: Sequence[Table], new: Sequence[Table], names: tuple[str, str] = ("old", "new")
) -> Iterator[Finding]:
    """Findings about tables that differ; critical where rows would be lost.

    names -- of the source database and of the target database.
    """
    source, target = names
    there = {table.name: table for table in new}
    for table in old:
        other = there.get(table.name)
        # Partitions have the columns of their table, and may be others on the new side.
        if other is None or table.partition or table.persistence != "p":
            continue
        if other.persistence != "p":
            yield _bad(
                table,
                f"is unlogged in the {target} database",
                "a crash would empty it",
                f"there: alter table {table.name.quoted} set logged",
                side=target,
                sql=[f"alter table {table.name.quoted} set logged"],
            )
        yield from _columns(table, other, names)
        ours, theirs = other.key, table.key
        if ours != theirs:
            yield _bad(
                table,
                f"has the primary key {_words(theirs)} in the {source} database, {_words(ours)} in"
                f" the {target} one",
                "replication finds rows by the primary key, in both directions",
                "create the same primary key in both databases",
                side=target,
                sql=[_add_key(table)] if theirs and not ours else [],
            )


def _columns(table: Table, other: Table, names: tuple[str, str]) -> Iterator[Finding]:
    source, target = names
    here = {column.name: column for column in other.columns}
    known = {column.name for column in table.columns}
    for column in table.columns:
        mine = here.get(column.name)
        if mine is None:
            if not column.generated:
                yield _bad(
                    table,
                    f"has no column {column.name} in the {target} database",
                    "its values would be lost",
                    f"there: {(statement := _add_column(table, column))}",
                    side=target,
                    sql=[statement],
                )
        elif bool(mine.generated) != bool(column.generated):
            where = target if mine.generated else source
            yield _bad(
                table,
                f"has a column {column.name} that is generated in the {where} database only",
                "a generated column is not replicated and cannot be written",
                "change it to be the same in both databases",
                side=where,
                sql=[
                    f"alter table {table.name.quoted} alter column {quote(column.name)}"
                    " drop expression"
                ]
                if mine.generated == "s"
                else [],
            )
        elif not column.generated and mine.type != column.type:
            yield _type(table, column, mine, target)
    for mine in other.columns:
        if mine.name in known or mine.generated:
            continue
        if mine.required:
            yield _bad(
                table,
                f"has a mandatory column {mine.name} in the {target} database alone",
                "it is NOT NULL and has no default: no row could be written there",
                f"there: alter table {table.name.quoted} alter column {quote(mine.name)}"
                " set default …, or drop the column, or its not null",
                side=target,
                sql=[
                    f"alter table {table.name.quoted} alter column {quote(mine.name)} drop not null"
                ],
            )
        else:
            yield found(
                Severity.WARNING,
                "structure",
                f"table {table.name} has a column {mine.name} in the {target} database alone",
                "it gets its default; values written after the switch are not replicated back",
                f"accept it, or add the column to the {source} database",
                side=source,
                object=str(table.name),
                sql=[_add_column(table, mine)],
            )


def _type(table: Table, column: ColumnFacts, mine: ColumnFacts, target: str) -> Finding:
    what = (
        f"has a column {column.name} of type {column.type}, and {mine.type} in the"
        f" {target} database"
    )
    lost = narrower(mine.type, column.type)
    statement = (
        f"alter table {table.name.quoted} alter column {quote(column.name)} type {column.type}"
        f" using {quote(column.name)}::{column.type}"
    )
    if lost:
        return _bad(
            table,
            what,
            f"not every value fits: {lost}",
            f"there: {statement}",
            side=target,
            sql=[statement],
        )
    back = narrower(column.type, mine.type)
    return found(
        Severity.WARNING,
        "structure",
        f"table {table.name} {what}",
        "a value that is invalid there stops the copy or the worker"
        + (f"; after a switch: {back}" if back else ""),
        "use the same type, or check that all values are valid in both",
        side=target,
        object=str(table.name),
        sql=[statement],
    )


def _add_column(table: Table, column: ColumnFacts) -> str:
    return f"alter table {table.name.quoted} add column {quote(column.name)} {column.type}"


def _add_key(table: Table) -> str:
    columns = ", ".join(quote(name) for name in table.key)
    return f"alter table {table.name.quoted} add primary key ({columns})"


def _words(key: tuple[str, ...]) -> str:
    return f"({', '.join(key)})" if key else "none"


def _bad(
    table: Table, what: str, why: str, do: str, *, side: str = "", sql: Sequence[str] = ()
) -> Finding:
    return found(
        Severity.CRITICAL,
        "structure",
        f"table {table.name} {what}",
        why,
        do,
        side=side,
        object=str(table.name),
        sql=sql,
    )


__all__ = ["FINDINGS", "check", "differing"]
