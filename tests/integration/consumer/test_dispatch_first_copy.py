"""``londiste dispatch --register --with-copy``: the rows that exist, and every later change."""

from __future__ import annotations

import os
import signal
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
from londiste.errors import (
    BadOption,
    EventError,
    NodeBusy,
    StateError,
    TableChanged,
    UnknownTable,
)
from londiste.pgq import queues
from londiste.tools.dispatch import first_copy
from londiste.tools.dispatch.program import Dispatcher
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_dispatch_presets import QUEUE, TRIGGERS, Ends
from tests.support.programs import forked
from tests.support.suite.slow import only
from tests.support.waiting import wait_for

#: Where the command is killed.
POINTS = ("dispatch.mid-copy", "dispatch.copied")
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


def tick(ends: Ends) -> int:
    """A tick of now, whatever the ticker does; its id."""
    return queues.create_tick(ends.source.connect(), QUEUE)


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
    """The target has the rows of the source, after all there is now: a ticker may be faster."""
    wanted, position = tick(ends), "select min(last_tick) from pgq.get_consumer_info()"
    while ends.source.value(position) < wanted:
        assert made.work()
    made.close()
    asked = f"select * from {table} order by id"
    return bool(ends.target.execute(asked) == ends.source.execute(asked))


def fill(ends: Ends, trigger: str = TRIGGERS[0]) -> None:
    ends.table("t", trigger)
    rows = f"unnest(array[{TEXTS}]) with ordinality x(v, g)"
    ends.source.execute(f"insert into t select g, now() - g * interval '3 hours', v from {rows}")


def registered(ends: Ends) -> list[Any]:
    return ends.source.execute("select consumer_name from pgq.get_consumer_info()")


@pytest.mark.parametrize("trigger", only(TRIGGERS, TRIGGERS[0]))
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
        tick(ends)

    thread = threading.Thread(target=tick_after_the_snapshot)
    thread.start()
    made.register()
    thread.join()
    tick(ends)
    made.run_once()
    assert ends.rows("t") == Counter({("t", g, "v"): 1 for g in range(1, 51)})


def test_rows_go_into_their_partitions_and_under_their_names(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.target.execute("alter table t rename v to text; alter table t rename to u")
    options = {"part_field": "at", "part_mode": "date_field", "part_name": "%(parent)s_%(day)s"}
    table = {"table": "public.u", "fields": "id,at,v:text", **options}
    made = dispatcher(ends, table_mode="ignore", table_filter=(), tables={"public.t": table})
    made.register()
    got = ends.target.execute(
        "select id, at, text, tableoid::regclass::text = 'u_' || to_char(at at time zone 'UTC',"
        " 'DD') from u order by id"
    )
    assert got == ends.source.execute("select id, at, v, true from t order by id")


def test_what_does_not_fit_leaves_nothing_behind(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.target.execute("insert into t values (1, now(), 'mine')")
    with pytest.raises(BadOption, match=r"table public\.t in the target has rows"):
        dispatcher(ends).register()
    ends.target.execute("truncate t; alter table t add check (v <> 'x')")
    with pytest.raises(EventError, match=r"table public\.t cannot be copied: .*t_v_check"):
        dispatcher(ends).register()
    assert ends.rows("t") == {} and registered(ends) == []
    ends.target.execute("alter table t drop constraint t_v_check")
    made = dispatcher(ends)
    assert made.register() and same(ends, made)
    assert registered(ends) == [("to_archive",)]


#: A function that tells on which side it has run.
SPY = """
create function public.spy() returns boolean language plpgsql as $$
begin raise exception 'code of the owner runs'; end $$;
"""


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_view_runs_no_code_of_its_owner(ends: Ends, ticks: None, side: str) -> None:
    fill(ends)
    getattr(ends, side).execute(
        f"alter table t rename to u; {SPY}"
        "create view t as select 1 as id, now() as at, ''::text as v, 1 as extra where public.spy()"
    )
    with pytest.raises(BadOption, match=r"public\.t is not a table"):
        dispatcher(ends).register()
    assert registered(ends) == []


def behind_the_snapshot(ends: Ends, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Runs a statement on the source after the snapshot, before the tables are locked."""
    lock = first_copy._table

    def late(*given: Any) -> Any:
        with psycopg.connect(ends.source.dsn, autocommit=True) as conn:
            conn.execute(statement.encode())
        return lock(*given)

    monkeypatch.setattr(first_copy, "_table", late)


#: Gives the name of a table to something else.
SWAP = (
    "create table n (like t including all); insert into n select * from t;"
    " alter table t rename to o; alter table n rename to t"
)
VIEW = f"alter table t rename to o; {SPY} create view t as select * from o where public.spy()"


@pytest.mark.parametrize("statement", [SWAP, VIEW, "truncate t", "drop table t"])
def test_a_table_that_another_one_replaces_is_an_error(
    ends: Ends, ticks: None, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    fill(ends)
    behind_the_snapshot(ends, monkeypatch, statement)
    with pytest.raises((TableChanged, UnknownTable)) as refused:
        dispatcher(ends).register()
    assert refused.value.hint
    assert ends.rows("t") == {} and registered(ends) == []


@pytest.mark.parametrize("option", ["ignore=extra", "when=id < 3", "pkey=id,at"])
def test_rows_that_the_trigger_would_change_are_refused(
    ends: Ends, ticks: None, option: str
) -> None:
    fill(ends, f"pgq.logutriga('{{0}}', '{option}')")
    with pytest.raises(BadOption, match="options of trigger captured: " + option.partition("=")[0]):
        dispatcher(ends).register()
    assert ends.rows("t") == {} and registered(ends) == []


def test_a_partitioned_table_whose_events_name_its_partitions_is_refused(
    ends: Ends, ticks: None
) -> None:
    ends.source.execute(
        "create table t (id int) partition by range (id);"
        " create table t_1 partition of t for values from (0) to (100);"
        " create trigger captured after insert or update or delete on t"
        f" for each row execute function pgq.logutriga('{QUEUE}')"
    )
    ends.target.execute("create table t (id int)")
    with pytest.raises(BadOption, match="names of its partitions"):
        dispatcher(ends).register()


def test_columns_are_those_of_events(ends: Ends, ticks: None) -> None:
    ends.source.execute(
        "create table t (id int primary key, twice int generated always as (id * 2) stored);"
        " create trigger captured after insert or update or delete on t"
        f" for each row execute function pgq.logutriga('{QUEUE}'); insert into t values (1)"
    )
    ends.target.execute("create table t (id int primary key, twice int)")
    made = dispatcher(ends)
    made.register()
    ends.source.execute("insert into t values (2)")
    assert same(ends, made)


def test_a_table_without_columns_has_nothing_to_copy(ends: Ends, ticks: None) -> None:
    for database in (ends.source, ends.target):
        database.execute("create table t ()")
    ends.source.execute("insert into t default values")
    assert dispatcher(ends).register()


def test_partitions_that_do_not_inherit_must_be_empty_too(ends: Ends, ticks: None) -> None:
    fill(ends)
    ends.target.execute("alter table t drop constraint t_pkey")
    given = {
        "table_mode": "part",
        "part_mode": "date_field",
        "part_field": "at",
        "part_template": "create table %(part)s (like %(parent)s)",
    }
    assert dispatcher(ends, **given).register()
    dispatcher(ends, **given).unregister()
    with pytest.raises(BadOption, match=r"table public\.t_\d+_\d+_\d+ in the target has rows"):
        dispatcher(ends, **given).register()
    assert registered(ends) == []


def test_a_table_is_not_copied_into_itself(ends: Ends, ticks: None) -> None:
    fill(ends)
    with pytest.raises(BadOption, match="would be copied into itself"):
        dispatcher(ends, target_db="").register()


def test_only_one_process_copies_and_it_keeps_its_consumer(ends: Ends, ticks: None) -> None:
    fill(ends)
    first, second = dispatcher(ends), dispatcher(ends)
    copy = first._parts._copy  # type: ignore[attr-defined]

    def beside(*given: Any) -> Any:
        with refused_at_once(), pytest.raises(NodeBusy, match="process copies its tables"):
            second.register()
        return copy(*given)

    first._parts._copy = beside  # type: ignore[attr-defined]
    assert first.register() and not second.register()
    assert same(ends, first) and registered(ends) == [("to_archive",)]


def test_a_consumer_of_another_target_stays_where_it_is(
    ends: Ends, ticks: None, caplog: pytest.LogCaptureFixture
) -> None:
    fill(ends)
    dispatcher(ends, with_copy=False, target_db=ends.source.dsn).register()
    with pytest.raises(StateError, match="without a position in the target"):
        dispatcher(ends).register()
    dispatcher(ends, with_copy=False, target_db=ends.source.dsn).unregister()
    dispatcher(ends, with_copy=False).register()
    assert not dispatcher(ends).register()
    assert "nothing is copied" in caplog.text and ends.rows("t") == {}


def test_other_tables_begin_where_the_copy_ends(
    ends: Ends, ticks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ends)
    ends.table("u")
    ends.source.execute("insert into u values (1, now(), 'before')")
    end = first_copy._end

    def later(*given: Any) -> Any:
        with psycopg.connect(ends.source.dsn, autocommit=True) as conn:
            conn.execute("update u set v = 'meanwhile'; update t set v = 'meanwhile'")
        tick(ends)
        return end(*given)

    monkeypatch.setattr(first_copy, "_end", later)
    (made := dispatcher(ends, table_filter=(), tables={"public.t": {}})).register()
    assert ends.rows("u") == {}
    assert "public.t: copied 5 rows" in made.copy_report[0] and "public.u;" in made.copy_report[1]
    assert same(ends, made)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table_filter": ()}, "no table selected for with_copy"),
        ({"consumer_filter": "ev_id > 5"}, "not available with consumer_filter"),
        ({"event_types": ("U", "D")}, "not available with event_types = D,U"),
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


def program(ends: Ends, directory: Path) -> tuple[Path, list[str]]:
    """A file of settings, and the command that copies."""
    file = directory / "to_archive.ini"
    file.write_text(
        f"[dispatch]\njob_name = to_archive\ndb = {ends.source.dsn}\n"
        f"target_db = {ends.target.dsn}\nqueue_name = {QUEUE}\ntable_filter = public.t\n"
        "table_mode = direct\nstop_timeout = 0.2\n"
    )
    file.chmod(0o600)
    command = [sys.executable, "-m", "londiste", "-c", str(file), "dispatch"]
    return file, [*command, "--register", "--with-copy"]


@pytest.mark.parametrize("point", only(POINTS, "dispatch.mid-copy"))
def test_a_command_that_is_killed_is_repeated(
    ends: Ends, ticks: None, tmp_path: Path, point: str
) -> None:
    fill(ends)
    file, command = program(ends, tmp_path)
    armed = {**os.environ, "LONDISTE_CRASH": point}
    assert forked.run(command, env=armed, timeout=60).returncode == -signal.SIGKILL
    assert registered(ends) == [("to_archive.copy",)]
    ends.source.execute("update t set v = 'later' where id = 1")
    tick(ends)

    def again(*words: str) -> Result:
        return CliRunner().invoke(cli, ["-c", str(file), "dispatch", *words])

    repeated = again("--register", "--with-copy")
    assert repeated.exit_code == 0 and " copied " in repeated.output, repeated.output
    assert registered(ends) == [("to_archive",)]
    assert again("--once").exit_code == 0
    assert same(ends, dispatcher(ends))


def test_a_command_that_is_told_to_stop_leaves_nothing(
    ends: Ends, ticks: None, tmp_path: Path
) -> None:
    fill(ends)
    _, command = program(ends, tmp_path)
    waiting = "select count(*) from pg_locks where not granted"
    with psycopg.connect(ends.target.dsn) as conn, (tmp_path / "said").open("wb") as said:
        conn.execute("lock table t")
        process = forked.start(command, env=os.environ, output=said, dies_with_us=True)
        wait_for(lambda: ends.target.value(waiting) > 0, what="a lock that is waited for")
        process.terminate()
        assert process.wait(60) == 130
    assert "Traceback" not in (tmp_path / "said").read_text()
    assert registered(ends) == [] and ends.rows("t") == {}


def test_what_a_killed_command_has_left_goes_with_the_consumer(
    ends: Ends, ticks: None, tmp_path: Path
) -> None:
    fill(ends)
    file, command = program(ends, tmp_path)
    armed = {**os.environ, "LONDISTE_CRASH": "dispatch.mid-copy"}
    assert forked.run(command, env=armed, timeout=60).returncode < 0
    given = CliRunner().invoke(cli, ["-c", str(file), "dispatch", "--unregister"])
    assert given.exit_code == 0 and registered(ends) == []


def test_a_position_of_an_earlier_registration_is_no_finished_copy(ends: Ends, ticks: None) -> None:
    fill(ends)
    assert dispatcher(ends).register()
    # As `londiste queue unregister` does, which knows nothing of the target.
    ends.source.execute("select pgq.unregister_consumer(%s, 'to_archive')", QUEUE)
    ends.target.execute("truncate t")
    with pytest.raises(StateError, match="position of an earlier registration"):
        dispatcher(ends).register()
    assert registered(ends) == [] and ends.rows("t") == {}
    dispatcher(ends).unregister()
    assert dispatcher(ends).register()
    assert same(ends, dispatcher(ends))
