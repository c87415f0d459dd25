"""Sequences of a copied table's own columns: advanced to the values of the source.

Without this a serial or identity column of the target would return values that rows already have.
After the copy its sequence has the source's value, and never moves back.  Replicated sequences are
set by the worker.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import psycopg

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, query
from londiste.error_values import server_text
from londiste.replication import sqlapi as tables

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnSequence:
    """The sequence of a column; ``last_value`` None when it was never used or is not shown."""

    column: str
    name: TableName
    oid: int
    increment: int
    last_value: int | None


def owned(conn: Connection, table: TableName) -> list[OwnSequence]:
    """The sequences of a table's columns that this role may read."""
    return [
        OwnSequence(
            row["column"],
            TableName(row["schema"], row["name"]),
            row["oid"],
            row["increment"],
            row["last_value"],
        )
        for row in fetch(conn, "owned_sequences", schema=table.schema, name=table.name)
    ]


def advance(
    provider: Connection, source: TableName, here: Connection, dest: TableName, queue: str
) -> list[TableName]:
    """Sets the sequences of ``dest`` to the values of the same columns' sequences of ``source``.

    Returns the names of those that were set.  One that may not be set is a warning: no replicated
    row depends on it.  ``here`` in autocommit mode.
    """
    ours = owned(here, dest)
    if not ours:
        return []
    replicated = {s.name for s in tables.get_seq_list(here, queue) if s.local}
    theirs = {s.column: s for s in owned(provider, source)}
    moved = []
    for sequence in ours:
        found = theirs.get(sequence.column)
        if found is None or found.last_value is None or sequence.name in replicated:
            continue
        try:
            if _set(here, sequence, found.last_value):
                moved.append(sequence.name)
        except psycopg.Error as error:
            log.warning(
                "table %s: sequence %s keeps its value, which is before the source's: %s",
                dest,
                sequence.name,
                server_text(error),
            )
    return moved


def _set(conn: Connection, sequence: OwnSequence, value: int) -> bool:
    """In one statement, so that a value taken by another session is not returned again.

    By the oid, because the name may be that of a view by now.
    """
    forward = 1 if sequence.increment > 0 else -1
    cursor = conn.execute(
        query("advance_sequence"), {"oid": sequence.oid, "value": value, "forward": forward}
    )
    return cursor.rowcount > 0
