"""Checks of tables that exist in both databases: they must be able to store the same rows.

The copy maps columns by name and skips columns of one side; compare ignores them, too.  That would
be silent loss, so these differences are found before the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from londiste.db.names import quote
from londiste.monitor.doctor.checks.types import is_xml
from londiste.monitor.doctor.facts import ColumnFacts, Table
from londiste.monitor.doctor.situation import Situation, by_execute, critical, warning
from londiste.monitor.queues.model import Finding
from londiste.replication.commands.column_checks import loses, narrower

FINDINGS = {"structure": "table that differs between both databases"}


def check(pair: Situation) -> Iterator[Finding]:
    """``differing`` for the tables that are wanted."""
    if pair.target is not None and pair.compared:
        # A copy restores the keys at its end.
        copying = pair.target.more.copying
        there = [table for table in pair.target.tables if table.name not in copying]
        yield from differing(
            pair.wanted, there, pair.names, pair.source.replicates, xml=pair.target.more.xml
        )


def differing(
    old: Sequence[Table],
    new: Sequence[Table],
    names: tuple[str, str] = ("old", "new"),
    replicated: Callable[[Table], bool] = lambda table: False,
    *,
    xml: bool = True,
) -> Iterator[Finding]:
    """Findings about tables that differ; critical where rows would be lost.

    names -- of the source database and of the target database.
    replicated -- whether the source has the table in a queue: ``londiste execute`` changes it, as
        other nodes have it, too.
    xml -- the target's server has values of type xml.
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
                side=target,
                sql=[f"alter table {table.name.quoted} set logged"],
            )
        yield from _columns(table, other, names, replicated=replicated(table), xml=xml)
        ours, theirs = other.key, table.key
        if ours != theirs:
            yield _bad(
                table,
                f"has the primary key {_words(theirs)} in the {source} database, {_words(ours)} in"
                f" the {target} one",
                "replication finds rows by the primary key, in both directions",
                _same_key(table, other, names, replicated=replicated(table)),
                side=target,
                sql=[_add_key(table)] if theirs and not ours else [],
            )


def _same_key(table: Table, other: Table, names: tuple[str, str], *, replicated: bool) -> str:
    """What to do about different primary keys; '' where a statement in the target says it."""
    source, target = names
    if table.key and other.key:
        return f"in the {target} database: create the primary key {_words(table.key)} instead"
    if table.key:
        return ""
    if not replicated:
        return f"in the {source} database: {_add_key(other)}"
    return (
        f"in the {target} database: drop the primary key; then, with the settings of the root,"
        f" create it on all nodes: {by_execute(_add_key(other))}"
    )


def _columns(
    table: Table, other: Table, names: tuple[str, str], *, replicated: bool, xml: bool
) -> Iterator[Finding]:
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
                    side=target,
                    sql=[_add_column(table, column)],
                )
        elif bool(mine.generated) != bool(column.generated):
            where = target if mine.generated else source
            yield _bad(
                table,
                f"has a column {column.name} that is generated in the {where} database only",
                "a generated column is not replicated and cannot be written",
                f"in the {target} database: change it to be as in the {source} database",
                side=target,
                sql=[
                    f"alter table {table.name.quoted} alter column {quote(column.name)}"
                    " drop expression"
                ]
                if mine.generated == "s"
                else [],
            )
        elif not column.generated and mine.type != column.type:
            yield _type(table, column, mine, target, possible=xml or not is_xml(column))
        if mine is not None and column.identity and mine.required:
            yield warning(
                "structure",
                f"table {table.name} has the identity column {column.name}, which is an ordinary"
                f" column without default in the {target} database",
                "replicated rows contain its value; after a switch inserts without it fail",
                side=target,
                object=str(table.name),
                sql=[
                    f"alter table {table.name.quoted} alter column {quote(column.name)}"
                    " add generated by default as identity"
                ],
            )
    for mine in other.columns:
        if mine.name in known or mine.generated:
            continue
        if mine.required:
            yield _bad(
                table,
                f"has a mandatory column {mine.name} in the {target} database alone",
                "it is NOT NULL and has no default: no row could be written there",
                f"in the {target} database: alter table {table.name.quoted} alter column"
                f" {quote(mine.name)} set default …, or drop the column, or its not null",
                side=target,
                sql=[
                    f"alter table {table.name.quoted} alter column {quote(mine.name)} drop not null"
                ],
            )
        else:
            command = by_execute(_add_column(table, mine, "if not exists")) if replicated else ""
            yield warning(
                "structure",
                f"table {table.name} has a column {mine.name} in the {target} database alone",
                "it gets its default; values written after the switch are not replicated back",
                "accept it, or add the column "
                + (
                    f"to all nodes, with the settings of the root: {command}"
                    if command
                    else f"to the {source} database: {_add_column(table, mine)}"
                ),
                side=source,
                object=str(table.name),
                sql=[] if command else [_add_column(table, mine)],
                command=command,
            )


def _type(
    table: Table, column: ColumnFacts, mine: ColumnFacts, target: str, *, possible: bool
) -> Finding:
    """The finding about a column of another type.

    possible -- the target can store values of the source's type.
    """
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
            "" if possible else "use a server with libxml",
            side=target,
            sql=[statement] if possible else (),
        )
    part = loses(mine.type, column.type)
    back = narrower(column.type, mine.type) or loses(column.type, mine.type)
    return warning(
        "structure",
        f"table {table.name} {what}",
        "a value that is invalid there stops the copy or the worker"
        + (f"; of valid values {part}" if part else "")
        + (f"; after a switch: {back}" if back else ""),
        "check that all values are valid in both"
        + (f", or in the {target} database: {statement}" if possible else ""),
        side=target,
        object=str(table.name),
        sql=[statement] if possible else (),
    )


def _add_column(table: Table, column: ColumnFacts, more: str = "") -> str:
    words = " ".join(filter(None, ["add column", more, quote(column.name), column.type]))
    return f"alter table {table.name.quoted} {words}"


def _add_key(table: Table) -> str:
    columns = ", ".join(quote(name) for name in table.key)
    return f"alter table {table.name.quoted} add primary key ({columns})"


def _words(key: tuple[str, ...]) -> str:
    return f"({', '.join(key)})" if key else "none"


def _bad(
    table: Table, what: str, why: str, do: str = "", *, side: str, sql: Sequence[str] = ()
) -> Finding:
    return critical(
        "structure",
        f"table {table.name} {what}",
        why,
        do,
        side=side,
        object=str(table.name),
        sql=sql,
    )
