"""Rows as texts, as the types' output functions write them: what COPY sends."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from londiste.compare.column_pairing import Pairing
from londiste.compare.diff import Row
from londiste.db.connection import Connection, describe_dsn
from londiste.errors import from_database
from londiste.pgq.blocks import unescaped


def source(table: Pairing, *, root: bool) -> str:
    """The FROM clause of a side."""
    children = table.root_children if root else table.node_children
    name = table.pair.table if root else table.pair.dest
    return f"from {'' if children else 'only '}{name.quoted}"


def lines(conn: Connection, dsn: str, statement: str) -> Iterator[bytes]:
    """The lines of a COPY, without their ends; a value's line break is escaped in them."""
    rest = b""
    try:
        with conn.cursor().copy(statement.encode()) as stream:
            for block in stream:
                data = rest + bytes(block)
                *whole, rest = data.split(b"\n")
                yield from whole
    except psycopg.Error as error:
        raise from_database(error, where=describe_dsn(dsn)) from error


def fields(line: bytes) -> Row:
    """The values of a line of COPY."""
    return tuple(unescaped(field) for field in line.decode().split("\t"))
