"""Streams of rows over TCP that stand still for longer than a lost connection may: they go on."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Iterator

import pytest
from psycopg import sql

from londiste.compare import row_text
from londiste.db import connection, copy
from londiste.db.sessions import settings as session_settings
from londiste.embedded.postgres import Cluster
from londiste.pgq import blocks
from tests.support.waiting import wait_for

ROWS = 60_000
QUERY = "select n, repeat('x', 1000) from generate_series(1, 60000) as n"
#: Seconds for which a server has not got rid of any row of each of so many sessions.
STOPPED = (
    "select count(*) = %s from pg_stat_activity"
    " where wait_event = 'ClientWrite' and clock_timestamp() - state_change > '2 seconds'"
)


@pytest.fixture(scope="module")
def server(own_servers: Callable[..., Cluster]) -> Cluster:
    return own_servers(port=True)


@pytest.fixture
def dsn(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(session_settings._NETWORK_OF_SERVER, "tcp_user_timeout", "500")
    return server.dsn()


def test_a_reader_that_stands_still_gets_all_rows(dsn: str) -> None:
    readings: dict[str, Callable[[connection.Connection], Iterator[int]]] = {
        "batch": lambda conn: map(len, blocks.read(conn, QUERY)),
        "comparison": lambda conn: (
            1 for _ in row_text.lines(conn, dsn, f"copy ({QUERY}) to stdout")
        ),
    }
    sessions = [connection.connect(dsn, autocommit=True) for _ in readings]
    begun = [read(conn) for read, conn in zip(readings.values(), sessions, strict=True)]
    counts = [next(rows) for rows in begun]
    with connection.session(dsn, autocommit=True) as watch:
        wait_for(
            lambda: watch.execute(STOPPED.encode(), [len(begun)]).fetchone() == (True,),
            what="servers that stand still",
        )
    assert [n + sum(rest) for n, rest in zip(counts, begun, strict=True)] == [ROWS] * len(begun)
    for conn in sessions:
        # The server of an idle session still learns that its client is gone.
        assert limit(conn) == "30000"
        conn.close()


def test_what_is_one_block_is_read_without_a_word_about_time(dsn: str) -> None:
    with connection.session(dsn, autocommit=True) as conn:
        few = QUERY.replace("60000", "900")
        assert [len(block) for block in blocks.read(conn, few, small=True)] == [900]
        assert limit(conn) == "500"
        assert sum(map(len, blocks.read(conn, QUERY, small=True))) == ROWS
        assert limit(conn) == "30000"
        with conn.transaction():
            assert sum(map(len, blocks.read(conn, QUERY, small=True))) == ROWS
            assert limit(conn) == "30000"


def limit(conn: connection.Connection) -> object:
    return conn.execute("show tcp_user_timeout").fetchall()[0][0]


def test_a_copy_that_stands_still_gets_all_rows(dsn: str) -> None:
    with (
        connection.session(dsn) as source,
        connection.session(dsn) as target,
        connection.session(dsn, autocommit=True) as watch,
    ):
        target.execute("create temp table t (n int, what text)")
        looks = itertools.count()

        def pace(_: int) -> None:
            if next(looks) == 0:
                wait_for(
                    lambda: watch.execute(STOPPED.encode(), [1]).fetchone() == (True,),
                    what="a source that stands still",
                )

        done = copy.pipe(
            source,
            sql.SQL(f"copy ({QUERY}) to stdout"),
            target,
            sql.SQL("copy t from stdin"),
            pace=pace,
        )
        assert done.rows == ROWS


def test_this_side_does_not_end_a_session_that_takes_nothing(dsn: str) -> None:
    # It asks the server whether it works (limit_silence): a lock or a trigger may take its time.
    with (
        connection.session(dsn) as conn,
        socket.socket(fileno=os.dup(conn.fileno())) as ours,
    ):
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
