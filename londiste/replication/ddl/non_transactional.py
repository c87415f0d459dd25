"""Runs a statement outside a transaction, repeatable after an interruption.

before    the state ``running`` is in the database
again     the remains of an interrupted run are found by name: an invalid index is dropped and
          built again; a valid one, or a dropped one, is done
refused   an index of somebody else has the name: nothing was begun, so that a repeated run does
          not take it for its own
after     the script counts as applied, in one transaction with its consequences
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import psycopg
from psycopg import sql

from londiste.daemon import crash
from londiste.db.connection import Connection, describe_dsn, use_own_names
from londiste.db.queries import fetch, translated, tuples
from londiste.errors import ScriptFailed, TransientError, from_database
from londiste.replication.ddl import rows
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.classify import IndexBuild, StatementTiming, index_build
from londiste.replication.ddl.execute import prepared, run_statement
from londiste.replication.ddl.failures import choices, failed
from londiste.replication.ddl.split import Statement
from londiste.replication.ddl.sqlapi import State

log = logging.getLogger(__name__)

#: The object to create exists, or that to drop does not: the statement has changed nothing, and
#: what its repetition finds is somebody else's.
_REFUSED = (
    psycopg.errors.DuplicateTable,
    psycopg.errors.UndefinedObject,
    psycopg.errors.UndefinedTable,
)


def run_alone(
    conn: Connection,
    queue: str,
    name: str,
    text: str,
    attrs: str | None,
    *,
    node: str,
    root: bool,
    lock_timeout: float,
) -> None:
    """Runs the statement, or continues after an interrupted run.

    conn -- in autocommit mode, for this alone.

    Raises ScriptFailed, which is recorded; TransientError: run it again.
    """
    known = state.find(conn, queue, name)
    if known is not None and known.state.over:
        return
    again = known is not None and known.started
    statement = prepared(conn, queue, name, text, attrs, node=node)[0]
    state.set_script_state(conn, queue, name, State.RUNNING, StatementTiming.AFTER, text, attrs)
    crash.point("script.alone-begun")
    try:
        use_own_names(conn)
        # The server gives the statement up soon when this process is killed.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        conn.execute(
            "select pg_catalog.set_config('lock_timeout', %s, false)",
            [f"{_lock_timeout(statement, lock_timeout):.0f}s"],
        )
        _do(conn, statement, name, node, again=again)
    except ScriptFailed as error:
        with conn.transaction():
            state.set_script_state(
                conn,
                queue,
                name,
                State.FAILED,
                StatementTiming.AFTER,
                text,
                attrs,
                statement=statement.number,
                error="; ".join(filter(None, [error.message, error.detail])),
            )
            if isinstance(error.__cause__, _REFUSED):
                state.script_left_nothing(conn, queue, name)
        raise
    except psycopg.Error as error:
        raise from_database(error, where=describe_dsn(conn.info.dsn)) from error
    crash.point("script.alone-done")
    with conn.transaction():
        if state.execute_start(conn, queue, name, text, attrs, root=root):
            state.execute_finish(conn, queue, name, rows.NONE)
    log.info("script %s: done", name)


def _lock_timeout(statement: Statement, seconds: float) -> float:
    """Seconds; 0 (no limit) for statements that do not queue readers or writers behind them."""
    if any(word.is_("concurrently") for word in statement.words):
        return 0
    if statement.begins("vacuum") and not any(word.is_("full") for word in statement.words):
        return 0
    return max(1, seconds)


def _do(conn: Connection, statement: Statement, name: str, node: str, *, again: bool) -> None:
    work = index_build(statement)
    if again and work is not None and _left(conn, work):
        log.info("script %s: an interrupted run had completed it", name)
        return
    try:
        run_statement(conn, statement, name, node=node)
    except (ScriptFailed, TransientError) as error:
        # What it leaves behind is ours; one that was there before belongs to somebody else.
        there = isinstance(error.__cause__, psycopg.errors.DuplicateTable)
        if work is not None and not there:
            _clean(conn, work)
        raise
    if work is not None and work.kind == "create":
        found = _index(conn, work.index, work.table)
        if found is not None and not found["valid"]:
            raise failed(
                name,
                node,
                f"index {'.'.join(work.index)} exists and is not valid",
                "it is left from an interrupted build of another session",
                f"drop it; {choices(name)}",
                None,
            )


def _left(conn: Connection, work: IndexBuild) -> bool:
    """Whether an interrupted run had completed; otherwise drops its remains."""
    if work.kind == "create":
        found = _index(conn, work.index, work.table)
        if found is not None and found["valid"]:
            return True
        _clean(conn, work)
        return False
    if work.kind == "drop":
        return _index(conn, work.index, ()) is None
    _clean(conn, work)
    return False


def _clean(conn: Connection, work: IndexBuild) -> None:
    """Drops invalid indexes that this statement has created."""
    with translated(conn):
        if work.kind == "create":
            found = _index(conn, work.index, work.table)
            if found is not None and not found["valid"]:
                _drop(conn, found["schema"], found["name"])
        elif work.kind == "reindex":
            left = {"index": _text(work.index), "table": _text(work.table)}
            for schema, name in tuples(conn, "left_reindexes", **left):
                _drop(conn, schema, name)


def _drop(conn: Connection, schema: str, name: str) -> None:
    log.info("dropped index %s.%s of an interrupted run", schema, name)
    conn.execute(
        sql.SQL("drop index concurrently if exists {}").format(sql.Identifier(schema, name))
    )


def _index(
    conn: Connection, name: tuple[str, ...], table: tuple[str, ...]
) -> dict[str, Any] | None:
    found = fetch(conn, "index_state", index=_text(name), table=_text(table))
    return found[0] if found else None


def _text(name: tuple[str, ...]) -> str | None:
    """A name as ``to_regclass`` takes it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name) or None
