"""SQL functions of groups of small tables that are copied together.

A group is identified by its consumer: ``copy_member`` lists its tables, and its position is theirs.
After the prefix of all copies its name has no dot; names of tables have one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from londiste.copy.step_timings import Tally
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.replication.tablesync.cancel import (
    copy_members as copy_members,  # shared with the worker
)

_GROUP = "group:"


def new_name(prefix: str) -> str:
    """The consumer of a new group."""
    return f"{prefix}{_GROUP}{secrets.token_hex(5)}"


def is_group(prefix: str, consumer: str) -> bool:
    """Whether a consumer is that of a group, and not that of a table."""
    return consumer.startswith(prefix + _GROUP) and "." not in consumer[len(prefix) :]


@dataclass(frozen=True)
class Begin:
    """A table whose copy starts; ``reason`` why it is copied in one snapshot."""

    table: TableName
    bytes: int
    rows: int
    reason: str


def copy_group_start(conn: Connection, queue: str, tables: Sequence[Begin]) -> dict[TableName, int]:
    """Starts new attempts: their numbers; tables whose locks are not free are skipped."""
    return {
        TableName.parse(row["table_name"]): row["attempt"]
        for row in call.rows(
            conn,
            "londiste.copy_group_start",
            queue,
            [str(one.table) for one in tables],
            [one.bytes for one in tables],
            [one.rows for one in tables],
            [one.reason for one in tables],
        )
    }


def copy_group_end(
    conn: Connection,
    queue: str,
    attempts: Mapping[TableName, int],
    state: str | None,
    snapshot: str,
    consumer: str,
) -> set[TableName]:
    """Ends the load of these tables: next state and consumer.  Returns the tables that moved."""
    moved = call.records(
        conn,
        TableName.parse,
        "londiste.copy_group_end",
        queue,
        [str(name) for name in attempts],
        list(attempts.values()),
        state,
        snapshot,
        consumer,
    )
    return set(moved)


def copy_group_abandon(conn: Connection, queue: str, attempts: Mapping[TableName, int]) -> None:
    """Ends attempts for good.  Raises LockTimeout when their tasks do not end."""
    call.value(
        conn,
        "londiste.copy_group_abandon",
        queue,
        [str(name) for name in attempts],
        list(attempts.values()),
    )


def copy_group_step(
    conn: Connection,
    queue: str,
    tables: Iterable[TableName],
    ended: str | None,
    begun: str | None,
    tally: Tally | None = None,
) -> None:
    """Records the end of one step and the start of another, for all the tables."""
    done = tally or Tally()
    call.value(
        conn,
        "londiste.copy_group_step",
        queue,
        sorted(map(str, tables)),
        ended,
        begun,
        done.tasks or None,
        done.busy if done.tasks else None,
        done.rows,
        done.bytes,
    )


def copy_group_split(
    conn: Connection, queue: str, tables: Iterable[TableName], old: str, new: str
) -> None:
    """Moves tables to another consumer for the rest of their catch-up."""
    call.value(conn, "londiste.copy_group_split", queue, list(map(str, tables)), old, new)
