"""Upgrades of a database while applications write, ticks are made and consumers read."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from londiste.db.connection import Connection
from londiste.errors import LockTimeout
from londiste.install import apply, locks, remove
from tests.fixtures.cluster import Database
from tests.support.suite.slow import first, only
from tests.support.waiting import wait_for
from tests.upgrade.test_upgrade import (
    FROZEN,
    VERSIONS,
    upgrade_by_command,
    upgrade_by_script,
)

QUEUE = """
select pgq.create_queue('q');
select pgq.register_consumer('q', 'c');
create table t (id serial primary key, token text);
"""


class Traffic:
    """Programs of the earlier version: they know its functions alone, and no error is expected."""

    def __init__(self, db: Database, statement: str) -> None:
        """statement -- writes one token, which is its parameter."""
        self._db = db
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(3)
        self.written = 0
        self.seen: Counter[str] = Counter()
        self._running = [
            self._pool.submit(self._run, one, arguments)
            for one, arguments in ((self._write, statement), (self._tick, ""), (self._read, ""))
        ]

    def _run(self, one: Callable[[Connection, str], None], statement: str) -> None:
        with psycopg.connect(self._db.dsn, autocommit=True) as conn:
            while not self._over.is_set():
                one(conn, statement)

    def _write(self, conn: Connection, statement: str) -> None:
        conn.execute(statement.encode(), [str(self.written)])
        self.written += 1

    def _tick(self, conn: Connection, _: str) -> None:
        conn.execute("select pgq.force_tick('q')")
        conn.execute("select pgq.ticker('q')")
        self._over.wait(0.02)

    def _read(self, conn: Connection, _: str) -> None:
        batch = conn.execute("select pgq.next_batch('q', 'c')").fetchall()[0][0]
        if batch is None:
            self._over.wait(0.02)
            return
        with conn.transaction():
            rows = conn.execute("select ev_data from pgq.get_batch_events(%s)", [batch]).fetchall()
            conn.execute("select pgq.finish_batch(%s)", [batch])
        self.seen.update(data for (data,) in rows)

    def wait(self, more: int) -> None:
        """Until so many more tokens are written and read.  Raises the error of a program."""
        goal = self.written + more
        wait_for(lambda: self._alive() and self.written >= goal, what=f"{goal} tokens")
        wait_for(lambda: self._alive() and len(self.seen) >= goal, what=f"{goal} tokens read")

    def _alive(self) -> bool:
        for one in self._running:
            if one.done():
                one.result()
        return True

    def end(self) -> None:
        self._over.set()
        self._pool.shutdown()
        self._alive()


@pytest.fixture(params=first(VERSIONS))
def old(request: pytest.FixtureRequest, database: Database) -> Database:
    """A database with an earlier version of the SQL."""
    apply.install(database.connect(), root=FROZEN / request.param)
    database.execute(QUEUE)
    return database


def test_nothing_is_lost_or_repeated_by_an_upgrade_under_traffic(old: Database) -> None:
    traffic = Traffic(old, "select pgq.insert_event('q', 't', %s)")
    traffic.wait(50)
    apply.install(old.connect())
    traffic.wait(50)
    apply.install(old.connect(), after=True)
    traffic.wait(50)
    traffic.end()
    conn = old.connect()
    conn.execute("select pgq.force_tick('q')")
    conn.execute("select pgq.ticker('q')")
    while (batch := conn.execute("select pgq.next_batch('q', 'c')").fetchall()[0][0]) is not None:
        rows = conn.execute("select ev_data from pgq.get_batch_events(%s)", [batch]).fetchall()
        traffic.seen.update(data for (data,) in rows)
        conn.execute("select pgq.finish_batch(%s)", [batch])
    assert traffic.seen == Counter(map(str, range(traffic.written)))


def uninstall(database: Database) -> None:
    remove.uninstall(database.connect())


CHANGES = (upgrade_by_command, upgrade_by_script, uninstall)


@pytest.mark.parametrize("change", only(CHANGES, upgrade_by_command, uninstall))
def test_applications_write_while_a_change_waits_for_a_transaction(
    database: Database, change: Callable[[Database], None]
) -> None:
    """An open transaction holds the queue; those who write must not wait behind the change."""
    apply.install(database.connect(), root=FROZEN / "4.0.0")
    if change is uninstall:
        apply.install(database.connect())
    database.execute("select pgq.create_queue('q')")
    insert = "select pgq.insert_event('q', 't', 'v')"
    held = database.connect(autocommit=False)
    held.execute(insert)
    waits = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        " and datname = current_database() and query not like '%insert_event%'"
    )
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change, database)
        writer = database.connect()
        for _ in range(3):
            wait_for(lambda: database.value(waits) == 1, what="the change to wait")
            # It is behind the change, and gets its turn before the change does.
            writer.execute("set statement_timeout = '5s'")
            writer.execute(insert)
        assert not changing.done()
        held.commit()
        changing.result(60)


def test_a_file_that_is_no_upgrade_and_gets_no_lock_is_tried_again_with_all_locks(
    pgq_db: Database,
) -> None:
    pgq_db.execute(
        "drop trigger close_way on pgq.queue;"
        "update pgq.installed_file set sha256 = '' where path like '%/_close_way.sql'"
    )
    held = pgq_db.connect(autocommit=False)
    held.execute("lock table pgq.queue in row exclusive mode")
    takes = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        " and datname = current_database() and query like '%v_first%'"
    )
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(apply.install, pgq_db.connect())
        wait_for(lambda: pgq_db.value(takes) == 1, what="the second attempt")
        held.commit()
        ran = [step.path for step in changing.result(60)]
        assert ran == ["functions/internal/_close_way.sql", "grants.sql"]


def test_a_change_that_never_gets_its_lock_ends_and_has_changed_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 2.0)
    apply.install(database.connect(), root=FROZEN / "4.0.0")
    database.execute("select pgq.create_queue('q')")
    held = database.connect(autocommit=False)
    held.tpc_begin(held.xid(1, database.name, "b"))
    held.execute("select pgq.insert_event('q', 't', 'v')")
    held.tpc_prepare()
    (gid,) = database.execute(
        "select gid from pg_prepared_xacts where database = current_database()"
    )[0]
    held.close()
    held = database.connect(autocommit=False)
    held.execute("select pgq.insert_event('q', 't', 'v')")
    before = apply.plan_for(database.connect())
    with pytest.raises(LockTimeout, match=r"table pgq\.queue stays locked") as refused:
        apply.install(database.connect())
    held.rollback()
    ends = [
        f"commit prepared '{gid}', or rollback prepared '{gid}'",
        f"select pg_terminate_backend({held.info.backend_pid})",
    ]
    assert refused.value.hint == f"end the transaction: {'; '.join(ends)}; then repeat the command"
    assert apply.plan_for(database.connect()) == before
    database.execute(ends[0].rpartition(", or ")[2])
    assert apply.install(database.connect())
