"""A lagging standby throttles the copies."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import conninfo
from psycopg.pq import ExecStatus

from londiste.copy.load_throttle import Limits
from londiste.copy.sqlapi import control
from londiste.embedded.postgres import Cluster
from tests.fixtures.copies import (
    A,
    Nodes,
    fill,
    same,
)
from tests.support.waiting import readable, wait_for

#: Seconds behind which the standby stays.
DELAY = 1.0


def _follow(session: psycopg.Connection[object], end: threading.Event) -> None:
    """Receives what the server writes, and says a second later that it has replayed it."""
    pgconn = session.pgconn
    behind: deque[tuple[float, int]] = deque()
    received = replayed = 0
    while not end.is_set():
        readable([pgconn.socket], 0.05)
        pgconn.consume_input()
        while (message := pgconn.get_copy_data(1))[0] > 0:
            data = bytes(message[1])
            if data[:1] == b"w":
                received = struct.unpack_from(">Q", data, 1)[0] + len(data) - 25
                behind.append((time.monotonic() + DELAY, received))
        while behind and behind[0][0] <= time.monotonic():
            replayed = behind.popleft()[1]
        status = struct.pack(">cQQQqB", b"r", received, received, replayed, 0, 0)
        pgconn.put_copy_data(status)
        pgconn.flush()


@pytest.fixture
def standby(nodes: Nodes) -> Iterator[None]:
    """What the server of both nodes takes for a standby, which replays a second late."""
    if not isinstance(nodes.leaf.cluster, Cluster):
        pytest.skip("a server of somebody else may refuse a standby")
    dsn = conninfo.make_conninfo(nodes.leaf.cluster.dsn("postgres"), replication="true")
    end = threading.Event()
    with contextlib.closing(psycopg.connect(dsn, autocommit=True)) as session:
        begin = session.pgconn.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2)
        assert begin is not None
        started = session.pgconn.exec_(b"START_REPLICATION PHYSICAL " + begin)
        assert started.status == ExecStatus.COPY_BOTH, started.error_message
        session.pgconn.nonblocking = 1
        thread = threading.Thread(target=_follow, args=(session, end))
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()


@pytest.mark.usefixtures("standby")
def test_a_standby_that_falls_behind_holds_the_copies_back(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with nodes.leaf.connect() as leaf:
        control.copy_pause(leaf, "q")
        nodes.start_work(replace(nodes.process(), limits=Limits(replica_lag=0.5)))
        leaf.execute("create table public.busy (i int)")

        def held_back() -> str | None:
            leaf.execute("insert into public.busy values (1)")
            return control.get_copy_control(leaf, "q").held_reason

        reason = wait_for(held_back, what="the copies to be held back")
        assert "standby lag is" in reason
        assert "copy_max_replica_lag (0.5)" in reason
        control.copy_resume(leaf, "q")
    nodes.wait_end()
    assert same(nodes, A)
    # The process has ended, and with it what it asked for.
    assert nodes.leaf.value("select held_reason from londiste.copy_control") is None
