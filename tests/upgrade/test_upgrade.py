"""An upgraded database equals a newly installed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.db.connection import Connection
from londiste.install import apply, compat, ledger, source
from londiste.install.compat import Compat
from londiste.install.script import script
from londiste.pgq import batches, producer, queues
from tests.fixtures.cluster import Database
from tests.fixtures.sources import psql
from tests.upgrade.catalog import shape

FROZEN = Path(__file__).parent / "frozen"
VERSIONS = sorted(folder.name for folder in FROZEN.iterdir() if folder.is_dir())


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, database: Database) -> Database:
    """A database with an earlier version of the SQL."""
    apply.install(database.connect(), root=FROZEN / request.param)
    return database


def upgrade_by_command(database: Database) -> None:
    apply.install(database.connect(), after=True)


def upgrade_by_script(database: Database) -> None:
    done = psql(database, script(), "-v", "after=1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("upgrade", [upgrade_by_command, upgrade_by_script])
def test_upgraded_equals_new(
    old: Database, new_database: Callable[..., Database], upgrade: Callable[[Database], None]
) -> None:
    new = new_database(pgq=True).connect()
    conn = old.connect()
    assert shape(conn, "pgq") != shape(new, "pgq")
    upgrade(old)
    for schema in source.load():
        assert shape(conn, schema) == shape(new, schema)
        assert _texts(conn, schema) == _texts(new, schema)
    assert all(not plan.steps and not plan.leftovers for plan in apply.plan_for(conn))


def test_until_the_upgrade_programs_refuse_and_say_what_to_run(old: Database) -> None:
    conn = old.connect()
    ours = source.select(source.load(), ["pgq"])[-1]
    assert compat.compat(ours, ledger.read(conn, "pgq")) is Compat.OLDER
    apply.install(conn)
    assert compat.check(conn, "pgq") is Compat.SAME


def test_programs_of_the_old_version_go_on_until_the_last_is_gone(database: Database) -> None:
    conn = database.connect()
    apply.install(conn, root=FROZEN / "4.0.0a1")
    apply.install(conn)
    queues.create_queue(conn, "q")
    assert conn.execute("select pgq.tick_now('q')").fetchone() is not None
    (plan,) = apply.plan_for(conn, ["pgq"])
    assert plan.steps == ()
    assert plan.waiting == ("upgrades/4.0.0/after-01-drop-tick-now.sql",)
    apply.install(conn, after=True)
    assert database.value("select count(*) from pg_proc where proname = 'tick_now'") == 0


def test_a_consumer_in_the_middle_of_its_work_loses_and_repeats_nothing(old: Database) -> None:
    conn = old.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    for number in range(3):
        producer.insert_event(conn, "q", "t", f"before {number}")
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    opened = batches.next_batch(conn, "q", "c")
    assert opened is not None
    producer.insert_event(conn, "q", "t", "between")
    apply.install(conn)
    producer.insert_event(conn, "q", "t", "after")
    seen = _read(conn)
    assert seen == ["before 0", "before 1", "before 2", "between", "after"]


def test_a_view_of_subscriptions_that_would_go_stale_stops_the_upgrade_by_name(
    old: Database,
) -> None:
    conn = old.connect()
    conn.execute("create view public.lags as select sub_last_tick from pgq.subscription")
    with pytest.raises(Exception, match=r"other views read it: (public\.)?lags"):
        apply.install(conn)
    conn.execute("drop view public.lags")
    apply.install(conn)
    assert compat.check(conn, "pgq") is Compat.SAME


def _read(conn: Connection) -> list[str | None]:
    """Everything from the open batch to a tick that is made now."""
    queues.force_tick(conn, "q")
    assert queues.ticker(conn, "q") is not None
    seen: list[str | None] = []
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        for chunk in batches.events(conn, batch):
            seen += [event.data for event in chunk]
        batches.finish_batch(conn, batch.id)
    return seen


def _texts(conn: Connection, schema: str) -> dict[str, str]:
    return {path: entry.sha256 for path, entry in ledger.read(conn, schema).files.items()}
