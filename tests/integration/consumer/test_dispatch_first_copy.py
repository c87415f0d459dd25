"""``londiste dispatch --register --with-copy``: the rows that exist, and every later change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from londiste.cli import cli
from londiste.errors import BadOption, StateError
from londiste.pgq import queues
from londiste.tools.dispatch.program import Dispatcher
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_dispatch_presets import QUEUE, TRIGGERS, Ends
from tests.support.waiting import wait_for

TEXTS = "e'\\\\N', '', null, e'a\\tb\\n&=%+é漢\\\\', 'x'"


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    return Ends(pgq_db, new_database(pgq=True))


@pytest.fixture
def ticks(ends: Ends) -> Iterator[None]:
    """A ticker of its own, until the test ends."""
    over = threading.Event()

    def run() -> None:
        with ends.source.connect() as conn:
            conn.autocommit = True
            while not over.wait(0.05):
                queues.force_tick(conn, QUEUE)
                queues.ticker(conn, QUEUE)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def dispatcher(ends: Ends, **given: Any) -> Dispatcher:
    return Dispatcher(
        ends.source.dsn,
        **{
            "queue_name": QUEUE,
            "consumer_name": "to_archive",
            "target_db": ends.target.dsn,
            "handler": "dispatch",
            "table_mode": "direct",
            "table_filter": ("public.t",),
            "with_copy": True,
            **given,
        },
    )


def same(ends: Ends, made: Dispatcher, table: str = "t") -> bool:
    """The target, after all there is in the queue, has the rows of the source."""
    ends.tick()
    made.run_once()
    asked = f"select * from {table} order by id"
    found: bool = ends.target.execute(asked) == ends.source.execute(asked)
    return found


def fill(ends: Ends, trigger: str = TRIGGERS[0]) -> None:
    ends.table("t", trigger)
    ends.source.execute(
        "insert into t select g, now() - g * interval '3 hours', v from"
        f" unnest(array[{TEXTS}]) with ordinality x(v, g)"
    )


def registered(ends: Ends) -> list[Any]:
    return ends.source.execute("select consumer_name from pgq.get_consumer_info()")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_every_row_comes_once_while_the_source_is_written(
    ends: Ends, ticks: None, trigger: str
) -> None:
    fill(ends, trigger)
    over, count = threading.Event(), 0

    def write() -> None:
        nonlocal count
        with psycopg.connect(ends.source.dsn, autocommit=True) as conn:
            while not over.is_set():
                count += 1
                conn.execute("insert into t values (%s, now(), 'new')", [1000 + count])
                conn.execute("update t set v = v || 'é' where id %% 7 = %s", [count % 7])
                conn.execute("delete from t where id = %s", [1000 + count // 2])

    ends.source.execute("insert into t select g, now(), 'old' from generate_series(100, 400) g")
    with psycopg.connect(ends.source.dsn) as slow:
        # Begins before the snapshot, ends after it.
        slow.execute("update t set v = 'late' where id = 100")
        slow.execute("insert into t values (99999, now(), 'late')")
        writer = threading.Thread(target=write)
        writer.start()
        made = dispatcher(ends)
        assert made.register()
        slow.commit()
        over.set()
        writer.join()
    assert count and same(ends, made)
    assert not made.register()


def test_changes_between_the_last_tick_and_the_snapshot_are_not_written_twice(ends: Ends) -> None:
    ends.table("t", key=False)
    ends.source.execute("insert into t select g, now(), 'v' from generate_series(1, 50) g")
    made = dispatcher(ends, row_mode="keep_all")
    held = "select count(*) from pg_stat_activity where state = 'idle in transaction'"

    def tick_after_the_snapshot() -> None:
        with psycopg.connect(f"{ends.source.dsn} application_name=ticker") as conn:
            conn.autocommit = True
            wanted = f"{held} and datname = current_database() and xact_start is not null"
            wait_for(lambda: conn.execute(wanted).fetchone() == (1,), what="the snapshot")
        ends.tick()

    thread = threading.Thread(target=tick_after_the_snapshot)
    thread.start()
    made.register()
    thread.join()
    ends.tick()
    made.run_once()
    assert ends.rows("t") == Counter({("t", g, "v"): 1 for g in range(1, 51)})


def test_rows_go_into_their_partitions_and_under_their_names(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.target.execute("alter table t rename v to text; alter table t rename to u")
    options = {"part_field": "at", "part_mode": "date_field", "part_name": "%(parent)s_%(day)s"}
    table = {"table": "public.u", "fields": "id,at,v:text", **options}
    made = dispatcher(ends, table_mode="part", table_filter=(), tables={"public.t": table})
    made.register()
    got = ends.target.execute(
        "select id, at, text, tableoid::regclass::text = 'u_' || to_char(at at time zone 'UTC',"
        " 'DD') from u order by id"
    )
    assert got == ends.source.execute("select id, at, v, true from t order by id")


def test_what_does_not_fit_leaves_nothing_behind(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.target.execute("insert into t values (1, now(), 'mine')")
    with pytest.raises(BadOption, match=r"table public\.t has rows") as refused:
        dispatcher(ends).register()
    ends.target.execute(refused.value.hint.removeprefix("in the target: ").partition(";")[0])
    ends.target.execute("alter table t add check (v <> 'x')")
    with pytest.raises(StateError, match=r"table public\.t: a row cannot be copied"):
        dispatcher(ends).register()
    assert ends.rows("t") == {} and registered(ends) == []
    ends.target.execute("alter table t drop constraint t_v_check")
    made = dispatcher(ends)
    assert made.register() and same(ends, made)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table_filter": ()}, "no table selected for with_copy"),
        ({"consumer_filter": "ev_id > 5"}, "not available with consumer_filter"),
    ],
)
def test_options_that_exclude_a_copy_are_refused(
    ends: Ends, given: dict[str, Any], words: str
) -> None:
    ends.table("t")
    with pytest.raises(BadOption, match=words):
        dispatcher(ends, **given).register()
    with pytest.raises(BadOption, match="starts where the copy ends"):
        dispatcher(ends).register(1)
    assert registered(ends) == []


def test_a_truncate_during_the_copy_is_an_error(ends: Ends, ticks: None) -> None:
    fill(ends)
    made = dispatcher(ends)
    copy = made._parts._copy  # type: ignore[attr-defined]

    def truncated(*given: Any) -> None:
        with psycopg.connect(ends.source.dsn, autocommit=True) as conn:
            conn.execute("truncate t")
        copy(*given)

    made._parts._copy = truncated  # type: ignore[attr-defined]
    with pytest.raises(StateError, match="rewritten during the copy"):
        made.register()
    assert ends.rows("t") == {} and registered(ends) == []


def test_a_command_that_is_killed_is_repeated(ends: Ends, ticks: None, tmp_path: Path) -> None:
    fill(ends)
    file = tmp_path / "to_archive.ini"
    file.write_text(
        f"[dispatch]\njob_name = to_archive\ndb = {ends.source.dsn}\n"
        f"target_db = {ends.target.dsn}\nqueue_name = {QUEUE}\ntable_filter = public.t\n"
        "table_mode = direct\n"
    )
    file.chmod(0o600)
    command = [sys.executable, "-m", "londiste", "-c", str(file), "dispatch", "--register"]
    armed = {**os.environ, "LONDISTE_CRASH": "dispatch.copied"}
    done = subprocess.run([*command, "--with-copy"], env=armed, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    ends.source.execute("update t set v = 'later' where id = 1")
    ends.tick()

    def again(*words: str) -> Result:
        return CliRunner().invoke(cli, ["-c", str(file), "dispatch", *words])

    repeated = again("--register", "--with-copy")
    assert repeated.exit_code == 0, repeated.output
    assert again("--once").exit_code == 0
    assert same(ends, dispatcher(ends))
