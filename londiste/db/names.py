"""Qualified names of tables and other objects: parse, quote, compare.

The queue stores names unquoted as ``schema.name``; only the first dot splits, and a
name without a dot lives in ``public``.  So a schema with a dot in its name cannot be
expressed; a table with a dot can.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from psycopg import sql
from psycopg.sql import Composed

from londiste.errors import BadOption

MAX_IDENTIFIER_BYTES = 63


class TableName(NamedTuple):
    """A schema and a relation in it, both unquoted."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``schema.name`` or ``name`` (then in ``public``), unquoted, as the queue stores it.

        Raises BadOption for an empty part or a NUL.
        """
        schema, dot, name = text.partition(".")
        if not dot:
            schema, name = "public", text
        if not schema or not name or "\0" in text:
            raise BadOption(
                f"{text!r}: not a table name", hint="write schema.table, or table for public.table"
            )
        return cls(schema, name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        """For SQL text: every part in double quotes."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def sql(self) -> sql.Identifier:
        """For statements composed with psycopg.sql."""
        return sql.Identifier(self.schema, self.name)

    def own(self, tree: bool) -> Composed:
        """The table as a FROM item, without its child tables.

        tree -- it is partitioned: with its partitions, in which all its rows are.
        """
        return sql.SQL("{}" if tree else "only {}").format(self.sql)


def escaped(name: TableName | str) -> str:
    """The pattern that matches this object only: a backslash before ``*``, ``?``, backslash."""
    return re.sub(r"([\\*?])", r"\\\1", str(name))


def argument(name: TableName | str) -> str:
    """The name as one word of a command, to be pasted into a shell; it matches this object only."""
    return word(escaped(name))


def word(name: str) -> str:
    r"""The exact name as one word of a command, to be pasted into a shell.

    A name that begins with ``-`` gets a backslash before it, so that it is no option: the commands
    remove it (``londiste.cli.lazy``).
    """
    text = f"\\{name}" if re.match(r"\\*-", name) else name
    if text.isprintable():
        return shlex.quote(text)
    shown = "".join(
        f"\\{c}"
        if c in "\\'"
        else c
        if c.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in c.encode())
        for c in text
    )
    return f"$'{shown}'"


def quote(identifier: str) -> str:
    """An identifier for SQL text, always in double quotes."""
    return '"' + identifier.replace('"', '""') + '"'
