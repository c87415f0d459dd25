"""Sequences of a table's serial and identity columns."""

from __future__ import annotations

import psycopg
from psycopg.rows import dict_row

from londiste.db.connection import Connection, whereabouts
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import from_database
from londiste.replication import sqlapi as tables


def owned(conn: Connection, table: TableName) -> list[TableName]:
    """The sequences of a table's columns, in the order of the columns; none for no table.

    Without those in schemas that have no name in a queue, and those that this role may not read.
    """
    try:
        with conn.cursor(row_factory=dict_row) as cursor:
            cursor.execute(query("owned_sequences"), {"schema": table.schema, "name": table.name})
            return [
                TableName(row["schema"], row["name"])
                for row in cursor.fetchall()
                if "." not in row["schema"]
            ]
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error


def to_add(conn: Connection, queue: str, table: TableName, *, root: bool) -> list[TableName]:
    """The sequences of ``table`` (by its name here) that are not replicated yet.

    On the root all of them; elsewhere those that the queue carries by the name they have here.
    """
    mine = owned(conn, table)
    if not mine:
        return []
    known = {s.name: s.local for s in tables.get_seq_list(conn, queue)}
    return [name for name in mine if not known.get(name, False) and (root or name in known)]
