"""A server that sends messages without end, and no answer, is given up in time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from londiste.db import connection
from londiste.db.connection import Connection, limit_silence, session
from londiste.db.copy import _Pump
from londiste.db.sessions import exchange
from londiste.errors import NodeUnreachable
from londiste.pgq import blocks
from tests.fixtures.cluster import Database
from tests.support.servers import chatty_server as chat
from tests.support.servers.chatty_server import ChattyServer, chatty_server

COPY = sql.SQL("copy t to stdout")


def opened(server: ChattyServer, seconds: float = 0.2) -> Connection:
    """A session that gives a server up if it sends nothing for so long, and does not work."""
    conn = connection._Patient.connect(server.dsn, autocommit=True)
    conn.dsn = server.dsn
    limit_silence(conn, seconds)
    return conn


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_ASK_SECONDS", 0.2)


@pytest.mark.parametrize("pause", [0.02, 0.0])
@pytest.mark.parametrize("then", [chat.NOTICE, chat.NOTIFICATION, chat.PARAMETER])
def test_a_limited_answer_is_complete_in_time(then: bytes, pause: float) -> None:
    with chatty_server(then, pause=pause) as server:
        with pytest.raises(NodeUnreachable, match=r"sent no complete answer for 0\.2 s"):
            connection.connect(server.dsn, answer_seconds=0.2)


def test_a_limited_answer_has_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGEST_ANSWER", 4 << 20)
    with chatty_server(chat.ROW, first=chat.ROWS) as server:
        with pytest.raises(NodeUnreachable, match="larger than 4 MB"):
            connection.connect(server.dsn, answer_seconds=60)


def statement(conn: Connection, target: Connection) -> None:
    conn.execute("select 1")


def batch(conn: Connection, target: Connection) -> None:
    list(blocks._copy(conn, b"copy t to stdout", 1000))


def raw_pipe(conn: Connection, target: Connection) -> None:
    _Pump(conn, target, None, None, 1000).run_raw(COPY)  # type: ignore[arg-type]


def pipe(conn: Connection, target: Connection) -> None:
    _Pump(conn, target, None, None, 1000).run(COPY)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def target(kept_database: Database) -> Iterator[Connection]:
    with session(kept_database.dsn, autocommit=True) as conn:
        yield conn


@pytest.mark.parametrize("pause", [0.02, 0.0])
@pytest.mark.parametrize(
    ("read", "first"),
    [(statement, b""), (batch, chat.COPY), (raw_pipe, chat.COPY), (pipe, chat.COPY)],
)
def test_messages_beside_an_answer_are_no_sign_of_work(
    target: Connection,
    read: Callable[[Connection, Connection], None],
    first: bytes,
    pause: float,
) -> None:
    with chatty_server(chat.NOTICE, first=first, pause=pause) as server, opened(server) as conn:
        with pytest.raises(psycopg.OperationalError, match=r"no complete answer for 0\.2 s"):
            read(conn, target)


def test_notifications_are_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "KEPT_NOTIFICATIONS", 5)
    with chatty_server(chat.NOTIFICATION) as server, opened(server) as conn:
        with pytest.raises(psycopg.OperationalError, match="no complete answer"):
            conn.execute("select 1")
        assert conn._notifies_backlog is not None and len(conn._notifies_backlog) == 5


def test_an_answer_that_does_not_end_is_logged() -> None:
    lines: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            server.enough.set()

    handler = Heard(logging.WARNING)
    connection.log.addHandler(handler)
    try:
        with chatty_server(chat.PARAMETER, pause=0.02) as server, opened(server) as conn:
            with pytest.raises(psycopg.OperationalError):
                conn.execute("select 1")
    finally:
        connection.log.removeHandler(handler)
    assert lines == ["x@127.0.0.1: the server has been answering for 0.2 s, and has not finished"]


def test_a_statement_with_many_notices_may_take_its_time(kept_database: Database) -> None:
    loop = "for i in 1..40 loop raise notice '%', i; perform pg_sleep(0.02); end loop"
    with session(kept_database.dsn, autocommit=True, silent_seconds=0.3) as conn:
        conn.execute(f"do $$begin {loop}; end$$".encode())
