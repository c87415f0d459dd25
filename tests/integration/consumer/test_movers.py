"""Programs that move events or run a statement for each: in one process, on real databases."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from londiste.errors import BadOption, EventError, InstallError, UnknownQueue
from londiste.pgq import batches, producer, queues
from londiste.tools.queue_mover import QueueMover
from londiste.tools.queue_splitter import QueueSplitter
from londiste.tools.simple_consumer import LocalConsumer, SerialConsumer, SimpleConsumer
from tests.fixtures.cluster import Database
from tests.support.programs import forked
from tests.support.suite.slow import first

SOURCE = "source"
TARGET = "target"


@pytest.fixture
def source(pgq_db: Database) -> Database:
    queues.create_queue(pgq_db.connect(), SOURCE)
    return pgq_db


@pytest.fixture
def target(new_database: Callable[..., Database]) -> Database:
    database = new_database(pgq=True)
    conn = database.connect()
    queues.create_queue(conn, TARGET)
    batches.register_consumer(conn, TARGET, "reader")
    return database


def send(db: Database, *events: tuple[str | None, ...], queue: str = SOURCE) -> None:
    """Events of one transaction, and a tick behind them."""
    conn = db.connect(autocommit=False)
    for event in events:
        producer.insert_event(conn, queue, *event)  # type: ignore[arg-type]
    conn.commit()
    tick(db, queue)


def tick(db: Database, queue: str) -> None:
    conn = db.connect()
    queues.force_tick(conn, queue)
    assert queues.ticker(conn, queue) is not None


def arrived(db: Database, queue: str = TARGET) -> list[tuple[Any, ...]]:
    """Everything in the queue, in its order, without ids and transactions."""
    return db.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.event_template e join pgq.queue q"
        " on e.tableoid::regclass::text like q.queue_data_pfx || '\\_%'"
        f" where q.queue_name = '{queue}' order by ev_id"
    )


def mover(source: Database, target: Database, **given: Any) -> QueueMover:
    return QueueMover(
        source.dsn,
        **{
            "queue_name": SOURCE,
            "consumer_name": "mover",
            "target_db": target.dsn,
            "dst_queue_name": TARGET,
            **given,
        },
    )


def test_the_mover_takes_every_field_and_the_order(source: Database, target: Database) -> None:
    moving = mover(source, target)
    moving.register()
    first = ("type", "data", "one", "two", "three", "four")
    odd = (None, 'tab\tnew\nline back\\slash "quote" \\N', "", None, "ä", None)
    send(source, first, odd)
    send(source, ("last", None, None, None, None, None))
    assert moving.run_once() >= 2
    assert arrived(target) == [first, odd, ("last", None, None, None, None, None)]
    times = "select ev_time from pgq.event_template where ev_type is not null order by ev_id"
    assert target.execute(times) == source.execute(times)
    # There is nothing left to move.
    assert moving.run_once() == 0


def test_a_batch_that_comes_again_is_not_moved_again(source: Database, target: Database) -> None:
    moving = mover(source, target)
    moving.register()
    (before,) = queues.get_consumer_info(source.connect(), SOURCE, "mover")
    send(source, ("t", "once"))
    moving.run_once()
    # As if the end of the batch had been lost.
    batches.register_consumer_at(source.connect(), SOURCE, "mover", before.last_tick)
    assert moving.run_once() >= 1
    assert [row[1] for row in arrived(target)] == ["once"]


def test_a_target_queue_that_is_missing_is_named_before_anything_is_moved(
    source: Database, target: Database
) -> None:
    moving = mover(source, target, dst_queue_name="nowhere")
    moving.register()
    with pytest.raises(UnknownQueue, match="queue nowhere: the target queue") as caught:
        moving.run_once()
    assert re.search(r"londiste queue create --db '.*' nowhere$", caught.value.hint)


def test_a_target_without_bookkeeping_is_refused(
    source: Database, new_database: Callable[..., Database]
) -> None:
    moving = mover(source, new_database())
    with pytest.raises(InstallError):
        moving.register()


def test_a_queue_is_not_moved_into_itself(source: Database) -> None:
    moving = mover(source, source, dst_queue_name=SOURCE)
    same = "source and target are the same queue"
    with pytest.raises(BadOption, match=same):
        moving.register()
    with pytest.raises(BadOption, match=same):
        splitter(source, source, default_queue=SOURCE)
    assert source.value("select count(*) from pgq.get_consumer_info(%s)", SOURCE) == 0
    mover(source, source).register()
    with pytest.raises(BadOption, match=same):
        moving.run_once()


def test_between_two_queues_of_one_database_nothing_goes_round(source: Database) -> None:
    queues.create_queue(source.connect(), TARGET)
    moving = mover(source, source)
    moving.register()
    send(source, ("t", "a"), ("t", "b"))
    moving.run_once()
    assert [row[1] for row in arrived(source)] == ["a", "b"]


def splitter(source: Database, target: Database, **given: Any) -> QueueSplitter:
    made = QueueSplitter(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="splitter",
        target_db=target.dsn,
        **given,
    )
    made.register()
    return made


def test_the_splitter_gives_each_queue_its_events(source: Database, target: Database) -> None:
    queues.create_queue(target.connect(), "other")
    splitting = splitter(source, target)
    send(source, ("t", "1", TARGET), ("t", "2", "other"), ("t", "3", TARGET, "kept"))
    splitting.run_once()
    assert arrived(target) == [
        ("t", "1", TARGET, None, None, None),
        ("t", "3", TARGET, "kept", None, None),
    ]
    assert [row[1] for row in arrived(target, "other")] == ["2"]


def test_the_field_of_the_queue_can_be_chosen(source: Database, target: Database) -> None:
    splitting = splitter(source, target, queue_field="ev_type")
    send(source, (TARGET, "1"))
    splitting.run_once()
    assert [row[1] for row in arrived(target)] == ["1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "names no target queue"),
        ("nowhere", "queue nowhere: the target queue"),
    ],
)
def test_an_event_without_a_queue_stops_the_splitter_in_front_of_its_batch(
    source: Database, target: Database, name: str | None, said: str
) -> None:
    splitting = splitter(source, target)
    send(source, ("t", "good", TARGET), ("t", "bad", name))
    with pytest.raises(EventError, match=said) as caught:
        splitting.run_once()
    assert caught.value.event_id is not None
    assert caught.value.hint
    assert arrived(target) == []


def test_events_without_a_queue_can_have_one_of_their_own(
    source: Database, target: Database
) -> None:
    splitting = splitter(source, target, default_queue=TARGET)
    send(source, ("t", "lost"))
    splitting.run_once()
    assert [row[1] for row in arrived(target)] == ["lost"]


def test_an_event_that_names_the_queue_it_is_in_does_not_go_round(source: Database) -> None:
    splitting = splitter(source, source)
    send(source, ("t", "1", SOURCE))
    with pytest.raises(EventError, match="its target is the same queue"):
        splitting.run_once()


ACCOUNTS = """
create table account (id int primary key, owner text, amount numeric);
create trigger capture after insert or update or delete on account
for each row execute function pgq.{trigger}('source');
"""
QUERY = (
    "insert into deposit values"
    " (%(id)s, %(owner)s, %(pgq.ev_id)s, %(pgq.ev_extra1)s, %(pgq.tick_id)s)"
)
DEPOSIT = "create table deposit (id int, owner text, ev_id int8, source text, tick int8)"


@pytest.mark.parametrize("trigger", first(["logutriga", "jsontriga"]))
@pytest.mark.parametrize("kind", [SimpleConsumer, SerialConsumer, LocalConsumer])
def test_the_statement_gets_columns_and_fields_as_parameters(
    source: Database, target: Database, tmp_path: Path, kind: type[SimpleConsumer], trigger: str
) -> None:
    source.execute(ACCOUNTS.format(trigger=trigger))
    target.execute(DEPOSIT)
    simple = kind(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="simple",
        target_db=target.dsn,
        dst_query=QUERY,
        local_tracking_file=tmp_path / "position",
    )
    simple.register()
    source.execute("insert into account values (1, 'O''Brien; drop table deposit', null)")
    source.execute("truncate account")
    send(source, ("not a row", "1"))
    simple.run_once()
    rows = target.execute("select id, owner, source, tick is not null from deposit")
    assert rows == [(1, "O'Brien; drop table deposit", "public.account", True)]


@pytest.mark.parametrize("trigger", ["pgq.jsontriga", "pgq.logutriga"])
def test_rows_of_a_table_named_truncate_are_rows(
    source: Database, target: Database, trigger: str
) -> None:
    target.execute("create table seen (id int, name text)")
    simple = SerialConsumer(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="simple",
        target_db=target.dsn,
        dst_query="insert into seen values (%(id)s, %(TRUNCATE)s)",
    )
    simple.register()
    source.execute('create table "TRUNCATE" (id int primary key, "TRUNCATE" text)')
    for event in ("insert or update or delete", "truncate"):
        source.execute(
            f"""create trigger "on {event}" after {event} on "TRUNCATE"
            for each {"statement" if event == "truncate" else "row"}
            execute function {trigger}('source')"""
        )
    source.execute("""insert into "TRUNCATE" values (1, 'a'), (2, 'b')""")
    source.execute('truncate "TRUNCATE"')
    tick(source, SOURCE)
    assert simple.run_once() == 1
    assert target.execute("select * from seen order by 1") == [(1, "a"), (2, "b")]


def test_a_statement_can_be_for_events_that_are_no_rows(source: Database, target: Database) -> None:
    target.execute("create table seen (type text, data text, retry int)")
    simple = SerialConsumer(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="simple",
        target_db=target.dsn,
        all_events=True,
        consumer_filter="ev_data <> 'unwanted' -- a comment",
        dst_query="insert into seen values (%(pgq.ev_type)s, %(pgq.ev_data)s, %(pgq.ev_retry)s)",
    )
    simple.register()
    send(source, ("signup", "a@b"), ("signup", "unwanted"))
    simple.run_once()
    assert target.execute("select * from seen") == [("signup", "a@b", None)]


def test_a_column_that_a_row_has_not_is_named(source: Database, target: Database) -> None:
    source.execute(ACCOUNTS.format(trigger="logutriga"))
    simple = SerialConsumer(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="simple",
        target_db=target.dsn,
        dst_query="select %(nosuch)s",
    )
    simple.register()
    source.execute("insert into account values (1, 'x', 2)")
    tick(source, SOURCE)
    with pytest.raises(EventError, match="nosuch") as caught:
        simple.run_once()
    assert "id, owner, amount" in caught.value.detail


def test_a_statement_that_is_wrong_is_named_with_how_to_write_it(
    source: Database, target: Database
) -> None:
    def simple(statement: str) -> SerialConsumer:
        return SerialConsumer(
            source.dsn,
            queue_name=SOURCE,
            consumer_name="simple",
            target_db=target.dsn,
            dst_query=statement,
        )

    source.execute(ACCOUNTS.format(trigger="logutriga"))
    with closing(simple("select 1")) as any_statement:
        any_statement.register()
    source.execute("insert into account values (1, 'x', 2)")
    tick(source, SOURCE)
    for statement in (
        "insert into seen values ('100%')",
        "select 1; select %(id)s",
        "select %s",
        "select %(id",
    ):
        with (
            closing(simple(statement)) as consumer,
            pytest.raises(EventError, match="dst_query: ") as caught,
        ):
            consumer.run_once()
        assert "%% for a percent sign" in caught.value.hint, statement


def test_an_error_of_a_statement_shows_no_value_of_a_row(
    source: Database, target: Database
) -> None:
    source.execute(ACCOUNTS.format(trigger="logutriga"))
    target.execute(
        "create function run(text) returns int language plpgsql as"
        " 'declare v int; begin execute ''select 1 '' || $1 into v; return v; end'"
    )
    simple = SerialConsumer(
        source.dsn,
        queue_name=SOURCE,
        consumer_name="simple",
        target_db=target.dsn,
        dst_query="select run(%(owner)s)",
    )
    simple.register()
    source.execute("insert into account values (1, 'x secret', 2)")
    tick(source, SOURCE)
    with pytest.raises(EventError, match="dst_query: syntax error at or near") as caught:
        simple.run_once()
    assert "secret" not in str(caught.value)


def test_the_programs_read_the_files_people_have(
    source: Database, target: Database, tmp_path: Path
) -> None:
    source.execute(ACCOUNTS.format(trigger="logutriga"))
    target.execute(DEPOSIT)
    config = tmp_path / "deposits.ini"
    config.write_text(
        "[simple_consumer3]\n"
        "job_name = deposits\n"
        f"src_db = {source.dsn}\n"
        f"dst_db = {target.dsn}\n"
        f"queue_name = {SOURCE}\n"
        "table_filter = public.account\n"
        f"dst_query = {QUERY.replace('%', '%%')}\n"
        "use_skylog = 1\n",
        encoding="utf-8",
    )
    config.chmod(0o600)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "londiste", "-c", str(config), "queue", "simple-consumer"]
        return forked.run([*argv, *words], env=os.environ)

    assert run("--delivery", "exactly-once", "--register").returncode == 0
    source.execute("insert into account values (7, 'seven', 7)")
    tick(source, SOURCE)
    done = run("--delivery", "exactly-once", "--once")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("use_skylog has no effect") == 1
    assert target.execute("select id, owner from deposit") == [(7, "seven")]
    wrong = run("--delivery", "twice")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
