"""An upgraded database equals a newly installed one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.db.connection import Connection
from londiste.errors import InstallError
from londiste.install import apply, compat, ledger, source
from londiste.install.compat import Compat
from londiste.install.script import script
from londiste.pgq import batches, producer, queues
from tests.fixtures.cluster import Database
from tests.fixtures.sources import psql
from tests.support.suite.slow import first
from tests.upgrade.catalog import shape

FROZEN = Path(__file__).parent / "frozen"
VERSIONS = sorted(folder.name for folder in FROZEN.iterdir() if folder.is_dir())


@pytest.fixture(params=first(VERSIONS))
def old(request: pytest.FixtureRequest, database: Database) -> Database:
    """A database with an earlier version of the SQL."""
    apply.install(database.connect(), root=FROZEN / request.param)
    return database


def upgrade_by_command(database: Database) -> None:
    apply.install(database.connect(), after=True)


def upgrade_by_script(database: Database) -> None:
    done = psql(database, script(), "-v", "after=1")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "upgrade"),
    [
        pytest.param(version, way, marks=() if number % 2 == turn else pytest.mark.slow)
        for number, version in enumerate(VERSIONS)
        for turn, way in enumerate([upgrade_by_command, upgrade_by_script])
    ],
    indirect=["old"],
)
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


#: What uses the table of subscriptions by its number, not by its name; and how to drop it.
USES_THE_TABLE = {
    "view public.lags": (
        "create view public.lags as select sub_last_tick from pgq.subscription",
        "drop view public.lags",
    ),
    "function public.body()": (
        "create function public.body() returns setof bigint language sql"
        " begin atomic select sub_last_tick from pgq.subscription; end",
        "drop function public.body()",
    ),
    "function public.rows()": (
        "create function public.rows() returns setof pgq.subscription language sql"
        " as 'select * from pgq.subscription'",
        "drop function public.rows()",
    ),
    "function public.one(pgq.subscription)": (
        "create function public.one(s pgq.subscription) returns bigint language sql"
        " as 'select 1::bigint'",
        "drop function public.one(pgq.subscription)",
    ),
    "function public.many(pgq.subscription[])": (
        "create function public.many(s pgq.subscription[]) returns bigint language sql"
        " as 'select 1::bigint'",
        "drop function public.many(pgq.subscription[])",
    ),
    "column kept of table public.notes": (
        "create table public.notes (kept pgq.subscription)",
        "drop table public.notes",
    ),
    "policy allowed on table public.shown": (
        "create table public.shown (id int8);"
        " create policy allowed on public.shown using"
        " (exists (select from pgq.subscription where sub_id = id))",
        "drop table public.shown",
    ),
    "policy mine on table pgq.subscription": (
        "create policy mine on pgq.subscription using (true)",
        "drop policy mine on pgq.subscription",
    ),
    "trigger watched on table pgq.subscription": (
        "create trigger watched before update on pgq.subscription for each row"
        " execute function suppress_redundant_updates_trigger()",
        "drop trigger watched on pgq.subscription",
    ),
    "publication of table pgq.subscription in publication pp": (
        "create publication pp for table pgq.subscription",
        "drop publication pp",
    ),
}


def test_what_uses_the_table_of_subscriptions_stops_the_upgrade_by_name(old: Database) -> None:
    conn = old.connect()
    for make, _ in USES_THE_TABLE.values():
        conn.execute(make)
    # It publishes all tables there are, under whatever names.
    conn.execute("create publication whole for all tables")
    with pytest.raises(InstallError, match="becomes a view, and its table is used by ") as refused:
        apply.install(conn)
    _, _, names = str(refused.value).partition(" is used by ")
    assert names.splitlines()[0].split("; ") == sorted(USES_THE_TABLE)
    for _, drop in USES_THE_TABLE.values():
        conn.execute(drop)
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
