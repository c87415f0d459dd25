"""SQL functions of scripts: state of each script on a node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg.types.json import Jsonb

from londiste.db import call
from londiste.db.connection import Connection
from londiste.errors import StateError, UsageError
from londiste.replication.ddl.classify import StatementTiming
from londiste.replication.ddl.header import Condition


class State(StrEnum):
    """State of a script on a node."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    RETRY = "retry"
    DONE = "done"
    SKIPPED = "skipped"
    MARKED = "marked"

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self in {State.DONE, State.SKIPPED, State.MARKED}


@dataclass(frozen=True)
class Script:
    """One script on one node.

    started -- a non-transactional statement may have left objects.
    statement, error -- where and why it failed.
    """

    name: str
    state: State
    way: StatementTiming
    started: bool
    statement: int | None
    error: str | None
    sql: str
    attrs: str | None
    started_at: datetime | None
    finished_at: datetime | None


def get_scripts(conn: Connection, queue: str) -> list[Script]:
    """The scripts of a queue that this node has run in recent months, oldest first."""
    return call.records(conn, _script, "londiste.get_scripts", queue)


def find(conn: Connection, queue: str, name: str) -> Script | None:
    """One of them."""
    return next((s for s in get_scripts(conn, queue) if s.name == name), None)


def execute_start(
    conn: Connection,
    queue: str,
    name: str,
    sql: str,
    attrs: str | None,
    *,
    root: bool,
    others: bool = True,
) -> bool:
    """Starts a script in the caller's transaction; False: it has run already.

    others -- below the root, the same script of another queue counts, too.

    Raises StateError when the root is expected and this is another node.
    """
    ret = call.ret(conn, "londiste.execute_start", queue, name, sql, root, attrs, others)
    return ret.code == 200


def execute_finish(conn: Connection, queue: str, name: str, rows: str) -> None:
    """Ends a script in the same transaction; the root sends it to all nodes.

    rows -- the rows that it has written here, as ``rows`` encodes them; sent with it.
    """
    call.ret(conn, "londiste.execute_finish", queue, name, rows)


def set_script_state(
    conn: Connection,
    queue: str,
    name: str,
    state: State,
    way: StatementTiming,
    sql: str,
    attrs: str | None,
    *,
    statement: int | None = None,
    error: str | None = None,
) -> None:
    """Stores the state of a script: pending, running or failed."""
    call.value(
        conn,
        "londiste.set_script_state",
        queue,
        name,
        state.value,
        way.value,
        sql,
        attrs,
        statement,
        error,
    )


def script_left_nothing(conn: Connection, queue: str, name: str) -> None:
    """Records that a statement was refused: objects that its repetition finds are not its own."""
    call.value(conn, "londiste.script_left_nothing", queue, name)


def decide_script(conn: Connection, queue: str, name: str, decision: str) -> str:
    """Stores the operator's decision: retry, skip or mark-done; returns a message.

    Raises StateError when there is nothing to decide, UsageError for an unknown script.
    """
    try:
        return call.ret(conn, "londiste.decide_script", queue, name, decision).note
    except (StateError, UsageError) as error:
        error.hint = error.hint or "londiste execute status lists the scripts and their states"
        raise


def script_has(conn: Connection, queue: str, condition: Condition, value: str) -> bool:
    """Whether this node has the objects that a script requires."""
    return bool(call.value(conn, "londiste.script_has", queue, condition.value, value))


def script_guard(conn: Connection) -> Any:
    """Fingerprint of objects that a script must not change; for ``script_changes``."""
    return call.value(conn, "londiste.script_guard")


def script_changes(conn: Connection, before: Any) -> list[tuple[str, str]]:
    """Tables of this node's queues that have changed since then, and how: gone or columns."""
    rows = call.rows(conn, "londiste.script_changes", Jsonb(before))
    # A row without a table is about our own schemas, which are compared without their functions.
    return [(row["table_name"], row["change"]) for row in rows if row["table_name"] is not None]


def refresh_captures(conn: Connection) -> list[str]:
    """Recreates the captures of changed tables; returns the tables."""
    return call.records(conn, str, "londiste.refresh_captures")


def _script(
    name: str,
    state: str,
    way: str,
    started: bool,
    statement: int | None,
    error: str | None,
    sql: str,
    attrs: str | None,
    started_at: datetime | None,
    finished_at: datetime | None,
) -> Script:
    return Script(
        name,
        State(state),
        StatementTiming(way),
        started,
        statement,
        error,
        sql,
        attrs,
        started_at,
        finished_at,
    )


def forget_script(conn: Connection, queue: str, name: str) -> bool:
    """Deletes the record of a script; False when there is none."""
    return bool(call.value(conn, "londiste.forget_script", queue, name))
