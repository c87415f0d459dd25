"""compare reads the root's rows on the standby, at a tick that is made for its snapshot."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from londiste.compare.standby_side import StandbySide
from londiste.db.connection import session
from tests.fixtures.line import Command
from tests.integration.standby.conftest import Pair
from tests.support import lines
from tests.support.waiting import wait_for

Make = Callable[..., Pair]
#: Rows of the table that a server has read.
_ROWS_READ = "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relname = 't'"


@contextlib.contextmanager
def writers(found: Pair, number: int = 3) -> Iterator[None]:
    """Transactions that overlap, some of them rolled back or without events."""
    stop = threading.Event()
    done = [0] * number

    def write(which: int) -> None:
        with psycopg.connect(found.root.database.dsn, autocommit=True) as conn:
            while not stop.is_set():
                with contextlib.suppress(psycopg.Rollback), conn.transaction():
                    low = which * 1000 + done[which] % 900
                    conn.execute(
                        "update t set v = v || 'y' where id between %s and %s", [low, low + 5]
                    )
                    conn.execute("select pg_current_xact_id()")
                    done[which] += 1
                    if done[which] % 7 == 0:
                        raise psycopg.Rollback
                if done[which] % 5 == 0:
                    conn.execute("select pg_current_xact_id()")

    threads = [threading.Thread(target=write, args=(which,)) for which in range(number)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: min(done) > 10, what="writers")
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def ticking(found: Pair) -> Iterator[None]:
    """A ticker."""
    stop = threading.Event()

    def tick() -> None:
        with psycopg.connect(found.root.database.dsn, autocommit=True) as conn:
            while not stop.wait(0.02):
                conn.execute("select pgq.ticker('line')")

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_compare_reads_the_standby_under_writes(pair: Make, command: Command) -> None:
    found = pair()
    found.write(0, 4000)
    found.started()
    with writers(found), ticking(found):
        for _ in range(2):
            done = command(found.leaf, "compare")
            assert done.code == 0, str(done)
            assert "reading from the root" not in done.err, str(done)
    found.line.wait_position(found.leaf, found.line.tick())
    assert found.same()


def test_compare_finds_a_row_and_reads_nothing_on_the_root(pair: Make, command: Command) -> None:
    found = pair()
    tick = found.write(0, 4000)
    found.started()
    found.line.wait_position(found.leaf, tick)
    found.leaf.database.execute(
        "set session_replication_role = replica; update t set v = 'other' where id = 17"
    )
    before = found.root.database.value(_ROWS_READ)
    done = command(found.leaf, "compare")
    assert done.code == 3 and "id='17'" in done.err, str(done)
    assert "reading from the root" not in done.err
    assert found.root.database.value(_ROWS_READ) - before < 4000


def test_compare_reads_the_root_where_the_standby_lags_or_is_gone(pair: Make) -> None:
    found = pair({"read_from_wait": 0.2})
    tick = found.write(0, 400)
    found.started()
    found.line.wait_position(found.leaf, tick)
    found.standby.pause()
    done = found.line.run(found.leaf, "compare")
    assert done.code == 0 and "reading from the root" in done.err, str(done)
    assert "it has not replayed tick" in done.err
    found.standby.kill()
    done = found.line.run(found.leaf, "compare")
    assert done.code == 0 and "reading from the root" in done.err, str(done)
    found.configure(found.leaf.database.dsn)
    done = found.line.run(found.leaf, "compare")
    assert done.code == 0 and "not a standby of the provider" in done.err, str(done)
    assert "hint: correct read_from" in done.err


@pytest.mark.slow
def test_a_silent_standby_does_not_stop_the_ticks_of_the_root(pair: Make) -> None:
    found = pair()
    root = found.root.database
    with lines.Line(found.standby.dsn(root.name)) as silenced, session(root.dsn) as conn:
        conn.autocommit = True
        side = StandbySide(silenced.dsn, 10.0, 600.0)
        # Ticks are locked next.
        assert side.tick(conn, "line", silenced.stall) is None
        assert side.failures == 1
    root.execute("set lock_timeout = '5s'; select pgq.lock_ticks('line')")
