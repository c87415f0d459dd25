"""Queries of ``sql/queries`` by name; rows as dicts, errors of the driver translated."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, kwargs_row, tuple_row

from londiste.db.connection import Connection, dsn_of, session, whereabouts
from londiste.db.server_text import AdvisoryKey, awaited, holder_of
from londiste.db.session_role import no_role
from londiste.db.sessions.settings import SERVER_GIVES_UP_MS
from londiste.db.sql_files import query as query
from londiste.db.sql_files import sql_root as sql_root
from londiste.dsn import place_of
from londiste.error_origin import REPLICA_ROLE, functions, remember_acting, unowned
from londiste.error_values import Values
from londiste.errors import (
    AccessDenied,
    BadOption,
    InstallError,
    LockTimeout,
    LondisteError,
    from_database,
)

T = TypeVar("T")


def try_condition(conn: Connection, rows: str, where: str, *, end: str = "") -> None:
    """Raises the server's error unless a text is one condition over rows.  Changes nothing.

    rows -- what follows ``from``; end -- behind a condition in brackets.
    """
    with conn.transaction(force_rollback=True):
        conn.execute("set transaction read only")
        # Only what is an expression in brackets and without them is one expression.
        for text in (f"({where}{end})", where):
            run_one(conn, f"explain select from {rows} where {text}")


def run_one(conn: Connection, statement: str) -> None:
    """Executes a statement with a text of the user inside: one statement, whatever the text is."""
    try:
        with conn.transaction():
            # A binary result requires the extended protocol, which accepts no second one.
            conn.execute(statement.encode(), binary=True)
    except psycopg.errors.ProtocolViolation:
        # It is one with a $1, which only the simple protocol refuses by its name.
        conn.execute(statement.encode())


@contextlib.contextmanager
def translated(at: Connection | str, values: Values = Values.NONE) -> Iterator[None]:
    """Raises errors of the driver as LondisteErrors that name the node or database.

    at -- the session, or a text without a password, as ``describe_dsn`` gives it.
    values -- where the statements have values of rows.
    """
    try:
        yield
    except psycopg.Error as error:
        raise translation(error, at, values) from error


def translation(
    error: psycopg.Error, at: Connection | str, values: Values = Values.NONE
) -> LondisteError:
    """The error of the driver as a LondisteError; arguments as of ``translated``."""
    where = at if isinstance(at, str) else whereabouts(at)
    if isinstance(error, psycopg.errors.InsufficientPrivilege) and not isinstance(at, str):
        _name_acting(error, at)
    ours = from_database(error, where=where, values=values)
    if not isinstance(at, str):
        _name(ours, at)
        if isinstance(ours, LockTimeout):
            name_holder(ours, at, awaited(error.diag.context or ""))
    return ours


def _name(error: LondisteError, conn: Connection) -> None:
    """Completes the hint by the user and the database of a session."""
    if isinstance(error, AccessDenied) and REPLICA_ROLE in error.message:
        error.say_more("", hint=no_role(conn).hint)
    elif isinstance(error, InstallError) and error.hint.endswith(": londiste install"):
        error.say_more("", hint=f"londiste install --db {shlex.quote(place_of(conn.info.dsn))}")


def _name_acting(error: psycopg.Error, conn: Connection) -> None:
    """Finds whose rights were missing, for the hint; arguments as of ``name_holder``."""
    ran, table, location = functions(error), unowned(error), dsn_of(conn)
    if not location or not (ran or table) or REPLICA_ROLE in str(error):
        return
    with contextlib.suppress(LondisteError, psycopg.Error):
        with session(location, name="londiste rights", autocommit=True, answer_seconds=10) as other:
            sql = query("acting_role")
            row = other.execute(sql, {"functions": ran, "relation": table}).fetchone()
        if row is not None:
            remember_acting(error, row[0], row[1] or "", row[2] or "")


def name_holder(error: LockTimeout, conn: Connection, key: AdvisoryKey | None) -> None:
    """Adds the session that holds an advisory lock to the error about it, and how to end it.

    conn -- the session that waited; its transaction has failed, so another session asks.
    """
    location = dsn_of(conn)
    if key is None or not location:
        return
    with contextlib.suppress(LondisteError, psycopg.Error):
        with session(location, name="londiste locks", autocommit=True, answer_seconds=10) as other:
            rows = other.cursor(row_factory=dict_row).execute(
                query("advisory_lock_holder"), vars(key)
            )
            row = rows.fetchone()
        if row is not None:
            holder = holder_of(row)
            error.holder = holder.text
            error.say_more(f"the lock is held by {holder.text}", hint=holder.remedy)


@contextlib.contextmanager
def savepoint(conn: Connection) -> Iterator[None]:
    """A savepoint in the caller's transaction; in autocommit mode outside one, a transaction.

    ``conn.transaction()`` alone would commit on a session that is not in autocommit mode and has
    not begun its transaction yet.
    """
    if not conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        # An empty statement takes no snapshot yet.
        conn.execute("")
    with conn.transaction():
        yield


@contextlib.contextmanager
def streaming(conn: Connection) -> Iterator[None]:
    """Around a stream of rows: the server waits for as long as this process takes none of them.

    tcp_user_timeout also ends a connection whose other side is there and has no room.  It comes
    back behind the stream: the server of a client that is gone may send anything at any time.
    """
    # SET takes no snapshot.
    conn.execute("set tcp_user_timeout = 0")
    try:
        yield
    finally:
        able = {TransactionStatus.IDLE, TransactionStatus.INTRANS}
        if not conn.closed and conn.info.transaction_status in able:
            conn.execute(f"set tcp_user_timeout = {SERVER_GIVES_UP_MS}".encode())


def fetch(conn: Connection, query_name: str, /, **parameters: Any) -> list[dict[str, Any]]:
    """Runs a query of ``sql/queries``; one dict per row."""
    with translated(conn), conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query(query_name), parameters or None).fetchall()


def records(
    conn: Connection, kind: Callable[..., T], query_name: str, /, **parameters: Any
) -> list[T]:
    """Runs a query of ``sql/queries``; ``kind`` of the columns of each row, by their names.

    Arrays are given as tuples.
    """
    with translated(conn), conn.cursor(row_factory=kwargs_row(_with_tuples(kind))) as cursor:
        return cursor.execute(query(query_name), parameters or None).fetchall()


def _with_tuples(kind: Callable[..., T]) -> Callable[..., T]:
    return lambda **row: kind(
        **{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    )


def interval(conn: Connection, text: str | None, setting: str = "") -> timedelta | None:
    """A PostgreSQL interval, for instance ``2 minutes``; None without a text.  Raises BadOption.

    setting -- named in the error.
    """
    if text is None or not text.strip():
        return None
    try:
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(query("interval"), [text]).fetchone()
    except psycopg.DataError as error:
        raise BadOption(
            f"{setting}: not an interval: {text}".removeprefix(": "),
            hint="write a PostgreSQL interval: 30 seconds, 2 minutes",
        ) from error
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error
    return row[0] if row is not None else None


def flush_commits(conn: Connection) -> None:
    """Waits until all that a snapshot of this server has seen is on disk: no crash takes it back.

    conn -- an autocommit session.
    """
    tuples(conn, "flush_commits")


def first(conn: Connection, query_name: str, /, **parameters: Any) -> tuple[Any, ...] | None:
    """Runs a query of ``sql/queries``; the first row, None without one."""
    return next(iter(tuples(conn, query_name, **parameters)), None)


def has_function(conn: Connection, signature: str) -> bool:
    """Whether the database has a function, ``schema.name(types)``; earlier SQL may lack it."""
    return bool(tuples(conn, "function_exists", function=signature)[0][0])


def tuples(conn: Connection, query_name: str, /, **parameters: Any) -> list[tuple[Any, ...]]:
    """Runs a query of ``sql/queries``; one tuple per row."""
    with translated(conn), conn.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query(query_name), parameters or None).fetchall()
