"""What is said of events that cannot be applied: without values, but for those of the key."""

from __future__ import annotations

import re

import psycopg

from londiste.applier.plan import TableChange
from londiste.changes.types import Truncate
from londiste.db.names import TableName


def key_of(change: TableChange) -> str:
    """The key of the row, for whoever has to look for it: a packed event has many."""
    if isinstance(change, Truncate):
        return ""
    values = ", ".join(str(change.image.get(name)) for name in change.key)
    return f"key ({', '.join(change.key)}) = ({values[:200]}), " if change.key else ""


def format_error(error: psycopg.Error) -> str:
    """The server's words without the values in them."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    if (error.sqlstate or "").startswith("22"):
        text = re.sub(r'"(?:[^"]|"")*"', "***", text)
    return text


def hint_for(state: str, table: TableName) -> str:
    """What can be done about a refusal; '' stands for no SQLSTATE."""
    if state == "42501":
        return (
            f"grant the worker's user the right to write {table}; where row-level security is"
            f" forced: alter table {table.quoted} no force row level security"
        )
    if state.startswith("22") or state in {"23502", "23514", "42804", "42846"}:
        return (
            f"make the definition of {table} fit the provider's; the worker then goes on by itself"
        )
    return f"see what differs: londiste compare {table}; copy it again: londiste resync {table}"
