"""Checks of types of columns: labels of enums, types written in C, names of objects as values."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.catalog import CHAR_ESCAPES
from londiste.db.names import quote
from londiste.monitor.doctor.facts import ColumnFacts, TypeFacts
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding
from londiste.wording import shortened

FINDINGS = {
    "enum": "enum without a label that the source has",
    "type": "type of a column that the target cannot have",
    "type-owner": "type of a column to which another role can add code",
}

_NEGATIVE_SCALE = 150000


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about types whose values the target cannot store."""
    if pair.target is None:
        return
    side = pair.names[1]
    there = {(one.schema, one.name): one for one in pair.target.more.types}
    used = {column.type.removesuffix("[]") for table in pair.wanted for column in table.columns}
    for one in pair.source.more.types:
        if one.text not in used:
            continue
        other = there.get((one.schema, one.name))
        if one.labels is None:
            if other is None:
                yield critical(
                    "type",
                    f"type {one.schema}.{one.name} is implemented in C and no part of an extension",
                    f"no column of the {side} database has it, and --create-full cannot create it",
                    f"create it in the {side} database as in the {pair.names[0]} one, and a table"
                    " with it",
                    side=side,
                    object=f"{one.schema}.{one.name}",
                )
        elif other is not None and other.labels is not None:
            missing = [label for label in one.labels if label not in other.labels]
            if missing:
                yield critical(
                    "enum",
                    f"enum {one.schema}.{one.name} lacks labels in the {side} database:"
                    f" {shortened(missing)}",
                    "a row with such a label stops the copy and the worker",
                    side=side,
                    object=f"{one.schema}.{one.name}",
                    sql=[
                        f"alter type {one.quoted} add value '{_quoted(label)}'{_place(one, label)}"
                        for label in missing
                    ],
                )
    yield from _owners(pair)
    if pair.target.version < CHAR_ESCAPES <= pair.source.version:
        yield from _bytes(pair)
    if pair.source.more.xml and not pair.target.more.xml:
        yield from _xml(pair)
    if pair.target.version >= _NEGATIVE_SCALE:
        return
    for table in pair.wanted:
        for column in table.columns:
            if column.type.startswith("numeric(") and ",-" in column.type:
                yield critical(
                    "type",
                    f"column {column.name} of table {table.name} is {column.type}",
                    f"the {side} server needs PostgreSQL 15 for a negative scale",
                    f"use a newer server, or create the column as numeric in the {side} database",
                    side=side,
                    object=str(table.name),
                )


def _owners(pair: Situation) -> Iterator[Finding]:
    """Types of roles that get the rights of who writes the rows of the target."""
    wanted = {str(table.name) for table in pair.wanted}
    for one in () if pair.target is None else pair.target.more.type_owners:
        if one.table_name in wanted:
            yield warning(
                "type-owner",
                f"type {one.type} of table {one.table_name} belongs to {one.owner} in the"
                f" {pair.names[1]} database",
                f"that role can add code to it, which runs with the rights of {one.writer} when"
                " rows are written",
                f"as an administrator: {one.remedy}",
                side=pair.names[1],
                object=one.table_name,
                admin_sql=[one.remedy],
            )


def _bytes(pair: Situation) -> Iterator[Finding]:
    """Columns whose copy the target refuses, because it would read other values."""
    side = pair.names[1]
    tables = () if pair.target is None else pair.target.tables
    there = {(table.name, column.name): column.type for table in tables for column in table.columns}
    for table in pair.wanted:
        for column in table.columns:
            kinds = {column.type, there.get((table.name, column.name), column.type)}
            if all(kind.removesuffix("[]") == '"char"' for kind in kinds):
                yield critical(
                    "type",
                    f"column {column.name} of table {table.name} is {column.type}",
                    f"the {side} server needs PostgreSQL 15 to copy it: it would read values above"
                    " 127 as a backslash",
                    f"use a newer server, or create the column as text in the {side} database",
                    side=side,
                    object=str(table.name),
                )


def is_xml(column: ColumnFacts) -> bool:
    """Pure: whether a column has values of type xml."""
    return column.type.removesuffix("[]") == "xml"


def _xml(pair: Situation) -> Iterator[Finding]:
    """Columns whose values the target refuses, because its server was built without libxml."""
    side = pair.names[1]
    tables = () if pair.target is None else pair.target.tables
    there = {table.name: {c.name: c for c in table.columns} for table in tables}
    for table in pair.wanted:
        theirs = there.get(table.name)
        for column in table.columns:
            mine = column if theirs is None else theirs.get(column.name)
            if mine is None or not (is_xml(column) and is_xml(mine)):
                continue
            text = column.type.replace("xml", "text")
            statement = (
                f"alter table {table.name.quoted} alter column {quote(column.name)} type {text}"
            )
            yield critical(
                "type",
                f"column {column.name} of table {table.name} is {column.type}",
                f"the {side} server was built without libxml: it cannot store a value of it",
                f"use a server with libxml, or create the column as {text} in the {side} database"
                + (f": {statement}" if theirs else ""),
                side=side,
                object=str(table.name),
                sql=[statement] if theirs else (),
            )


def _place(one: TypeFacts, label: str) -> str:
    """Where the label stands: after the one that precedes it in the source."""
    labels = one.labels or ()
    position = labels.index(label)
    if position == 0:
        return f" before '{_quoted(labels[1])}'" if len(labels) > 1 else ""
    return f" after '{_quoted(labels[position - 1])}'"


def _quoted(label: str) -> str:
    return label.replace("'", "''")
