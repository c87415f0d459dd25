"""Texts of apply errors: messages and hints without row values, except those of the key."""

from __future__ import annotations

import re

import psycopg

from londiste.applier.plan import TableChange
from londiste.changes.types import Truncate
from londiste.db.names import TableName


def key_of(change: TableChange) -> str:
    """The key of the row, by which an operator finds it: a packed event has many."""
    if isinstance(change, Truncate):
        return ""
    values = ", ".join(str(change.image.get(name)) for name in change.key)
    return f"key ({', '.join(change.key)}) = ({values[:200]}), " if change.key else ""


def format_error(error: psycopg.Error) -> str:
    """The server's message without the values in it."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    if (error.sqlstate or "").startswith("22"):
        text = re.sub(r'"(?:[^"]|"")*"', "***", text)
    return text


def hint_for(state: str, table: TableName) -> str:
    """The hint for a SQLSTATE; '' for none."""
    if state == "42501":
        return (
            f"grant the worker's user the right to write {table}; where row-level security is"
            f" forced: alter table {table.quoted} no force row level security"
        )
    if state.startswith("22") or state in {"23502", "23514", "42804", "42846"}:
        return (
            f"change the definition of {table} to match the provider's; the worker then continues"
            " automatically"
        )
    return f"compare the table: londiste compare {table}; or copy it again: londiste resync {table}"
