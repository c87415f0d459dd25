"""``londiste queue``: effects of the commands on a real database, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.db.names import word
from londiste.pgq import batches, config, coop, dead_letters, delayed, producer, queues
from tests.fixtures.cascade import Answer
from tests.fixtures.cluster import Database

Queue = Callable[..., Answer]


@pytest.fixture
def queue(pgq_db: Database, capsys: pytest.CaptureFixture[str]) -> Queue:
    """``queue("list", "--json")`` -> Answer."""

    def call(*args: str) -> Answer:
        capsys.readouterr()
        code = run(cli, ["--set", f"db={pgq_db.dsn}", "queue", *args])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    queues.set_queue_config(conn, "q", "ticker_max_count", "1")
    return conn


def names(conn: Connection) -> list[str]:
    return [each.queue_name for each in queues.get_queue_info(conn)]


def consumers(conn: Connection) -> dict[str, int | None]:
    return {each.consumer_name: each.last_tick for each in queues.get_consumer_info(conn, "q")}


def fill(conn: Connection, *data: str, queue: str = "q") -> int:
    """Events in one transaction, and a tick behind them; its id."""
    with conn.transaction():
        for each in data:
            producer.insert_event(conn, queue, "t", each, f"extra {each}")
    queues.force_tick(conn, queue)
    tick = queues.ticker(conn, queue)
    assert tick is not None
    return tick


def test_queues_are_created_with_their_parameters_once(conn: Connection, queue: Queue) -> None:
    answer = queue("create", "a b", "q", "c", "--set", "ticker_max_lag=1s", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["done"][0] == "create queue a b"
    assert "queue q already exists" in answer.err
    assert names(conn) == ["a b", "c", "q"]
    assert queue("config", "c", "--json").json["queues"][0]["ticker_max_lag"] == "00:00:01"
    # An existing queue gets the parameters, too; without --set it stays as it is.
    assert "set ticker_max_lag of queue q to 1s" in answer.json["done"]
    assert queue("config", "q", "--json").json["queues"][0]["ticker_max_lag"] == "00:00:01"
    assert queue("create", "q", "--json").json == {"version": 1, "done": []}


def test_dry_run_changes_nothing(conn: Connection, queue: Queue) -> None:
    batches.register_consumer(conn, "q", "c")
    assert queue("create", "x", "--dry-run").out == "1. create queue x\n"
    assert queue("config", "q", "ticker_paused=yes", "--dry-run").code == 0
    assert queue("register", "q", "new", "--dry-run").out.startswith("1. register consumer new")
    assert queue("unregister", "q", "c", "--dry-run").code == 0
    dropped = queue("drop", "q", "--dry-run")
    assert "requires --drop-consumers" in dropped.err
    assert names(conn) == ["q"]
    assert list(consumers(conn)) == ["c"]
    assert queue("config", "q", "--json").json["queues"][0]["ticker_paused"] == "false"


def test_a_queue_is_created_with_its_consumers(queue: Queue, pgq_db: Database) -> None:
    answer = queue("create", "q", "--consumer", "a", "--consumer", "b", "--consumer", "a")
    assert answer.err.splitlines()[-1].endswith("londiste ticker")
    assert "register" not in answer.err.splitlines()[-1]
    assert list(consumers(pgq_db.connect())) == ["a", "b"]
    # Registered consumers stay where they are.
    shown = queue("create", "q", "--consumer", "a", "--consumer", "c", "--dry-run").out
    assert shown == "1. register consumer c on queue q at the end of the queue\n"
    assert queue("create", "z", "--consumer", " ").code == 2
    assert pgq_db.value("select count(*) from pgq.queue") == 1


def test_a_queue_that_captured_tables_write_into_is_dropped_with_force_only(
    conn: Connection, queue: Queue
) -> None:
    conn.execute(
        'create table public."Odd ""name" (id int primary key);'
        'create trigger t after insert on public."Odd ""name"'
        " for each row execute function pgq.logutriga('q')"
    )
    refused = queue("drop", "q")
    assert refused.code != 0 and '1 table into queue q (public."Odd ""name")' in refused.err
    assert names(conn) == ["q"]
    conn.execute('alter table public."Odd ""name" disable trigger t')
    assert queue("drop", "q").code == 0
    assert names(conn) == []


#: Arguments, exit code, words of the error, words of the hint.
WRONG: list[tuple[list[str], int, str, str]] = [
    (["create", "n", " "], 2, "a queue needs a name", "one letter"),
    (["create", "--", "-n"], 2, "'-n' begins with -", "as an option"),
    (["create", "n", "--set", "max_retries=1", "b=2"], 2, "'b=2' contains =", "--set b=2"),
    (["create", "n", "--consumer=-c"], 2, "'-c' begins with -", "as an option"),
    (["create", "n", "--set", "ticker_max_lagg=1"], 2, "no queue parameter", "ticker_max_lag?"),
    (["create", "n", "--set", "per_tx_limit=0"], 2, "bad value", "per_tx_limit=500, or null"),
    (["create", "n", "--set", "ticker_max_lag=soon"], 2, "bad value", "of type interval"),
    (["drop", "qq"], 2, "no queue qq", "did you mean q?"),
    (["drop", "*"], 2, "no queue *", "queue list"),
    (["config", "x", "ticker_paused=1"], 2, "no queue x", "queue list"),
    (["config", "ticker_paused=1"], 2, "no queue given", "--all"),
    (["config", "q", "ticker_paused=perhaps"], 2, "bad value", "ticker_paused=yes"),
    (["config", "q", "ticker_paused=null"], 2, "needs a value", "ticker_paused=yes"),
    (["config", "q", "ticker_paused"], 2, "not KEY=VALUE", "ticker_max_lag="),
    (["config", "q", "ticker_max_count=5", "queue_ticker_max_count=6"], 2, "twice", "once"),
    (["register", "q", "c", "--at", "77"], 2, "queue q has no tick 77", "queue ticks q"),
    (["register", "q", "c", "--copy", "d"], 2, "no consumer d", "consumers q"),
    (["register", "q", "c\nd"], 2, "control characters", "letters"),
    (["register", "q", "c", "--at", "1", "--copy", "d"], 2, "exclude", "one"),
    (["unregister", "q", "c"], 2, "no consumer c on queue q", "consumers q"),
    (["unregister", "q"], 2, "no consumers given", "--all"),
    (["events", "q", "--batch", "5"], 3, "batch 5 is not open on queue q", "consumers q"),
    (["events", "q", "--batch", "5", "--from", "1"], 2, "exclude", "one"),
    (["events", "q", "--from", "99"], 2, "no tick 99", "queue ticks"),
    (["events", "q", "--from", "2", "--to", "1"], 2, "after --to 1", "--from"),
    (["events", "q", "--limit", "-1"], 2, "must not be negative", "0"),
    (["batch", "5"], 3, "batch 5 is not open", "queue consumers"),
    (["retry", "event", "5", "1"], 3, "batch 5 is not open", "queue consumers"),
    (["ticks", "Q"], 2, "no queue Q", "queue list"),
]


def test_bad_input_is_an_error_with_a_hint_and_nothing_is_done(
    conn: Connection, queue: Queue
) -> None:
    for args, code, error, hint in WRONG:
        answer = queue(*args)
        assert (answer.code, answer.out) == (code, ""), args
        lines = answer.err.splitlines()
        assert lines[0].startswith("error: ") and error in lines[0], answer.err
        assert hint in next(line for line in lines if line.startswith("hint: ")), answer.err
        assert names(conn) == ["q"]
        assert consumers(conn) == {}


@pytest.mark.parametrize(
    ("option", "code", "hint"),
    [("default_transaction_read_only=on", 1, "the primary"), ("role=pgq_reader", 2, "pgq_admin")],
)
def test_session_that_cannot_write_gets_a_hint(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, option: str, code: int, hint: str
) -> None:
    monkeypatch.setenv("PGOPTIONS", f"-c {option}")
    answer = queue("create", "r")
    assert answer.code == code
    assert hint in answer.err.splitlines()[-1]


def test_one_wrong_name_and_no_queue_is_dropped(conn: Connection, queue: Queue) -> None:
    queues.create_queue(conn, "r")
    assert queue("drop", "q", "nope").code == 2
    assert names(conn) == ["q", "r"]
    assert queue("drop", "q", "r").code == 0
    assert names(conn) == []


def test_drop_with_consumers_needs_force(conn: Connection, queue: Queue) -> None:
    batches.register_consumer(conn, "q", "c")
    fill(conn, "one", "two")
    refused = queue("drop", "q")
    assert refused.code == 3
    assert "consumer c is registered, with 2 events pending" in refused.err
    assert "hint: londiste queue drop --drop-consumers q" in refused.err
    assert names(conn) == ["q"]
    done = queue("drop", "--drop-consumers", "q")
    assert done.code == 0
    assert "warning: consumer c is registered" in done.err
    assert names(conn) == []


def test_drop_reports_everything_it_removes(conn: Connection, queue: Queue) -> None:
    batches.register_consumer(conn, "q", "c")
    fill(conn, "one", "two", "three")
    opened = batches.next_batch(conn, "q", "c")
    assert opened is not None
    (chunk,) = batches.events(conn, opened)
    batches.event_retry(conn, opened.id, chunk[0].id, 3600)
    dead_letters.event_failed(conn, opened.id, chunk[1].id, "no")
    delayed.insert_event_at(conn, "q", datetime.now(UTC) + timedelta(hours=1), "t", "later")
    explained = queue("unregister", "q", "c", "--dry-run").out
    assert f"dropping its open batch {opened.id}; lost with it: 1 event to retry" in explained
    assert "1 dead letter" in explained
    refused = queue("drop", "q")
    assert refused.code == 3
    assert "1 event to retry, 1 dead letter" in refused.err
    assert "1 delayed event is in queue q and not delivered yet" in refused.err


def test_every_parameter_is_shown_and_set(conn: Connection, queue: Queue) -> None:
    queues.create_queue(conn, "r")
    (shown,) = queue("config", "q", "--json").json["queues"]
    wanted = {
        "ticker_max_count": "7",
        "ticker_max_lag": "00:00:02",
        "ticker_idle_period": "00:02:00",
        "ticker_paused": "true",
        "rotation_period": "01:00:00",
        "external_ticker": "false",
        "disable_insert": "true",
        "per_tx_limit": "100",
        "extra_maint": "{my.function}",
    }
    assert set(wanted) <= set(shown)
    given = [f"{key}={value}" for key, value in wanted.items()]
    assert queue("config", "*", *given).code == 0
    for row in queue("config", "--json").json["queues"]:
        assert {key: row[key] for key in wanted} == wanted
    assert queue("config", "q", "per_tx_limit=null", "queue_disable_insert=off").code == 0
    assert queue("config", "--all", "ticker_paused=no").code == 0
    table = queue("config", "q").out
    assert table.splitlines()[0].split() == ["parameter", "value", "meaning"]
    rows = {row["queue"]: row for row in queue("config", "--json").json["queues"]}
    assert (rows["q"]["per_tx_limit"], rows["r"]["per_tx_limit"]) == (None, "100")
    assert (rows["q"]["ticker_paused"], rows["r"]["ticker_paused"]) == ("false", "false")


def test_parameters_equal_those_of_the_schema(conn: Connection, queue: Queue) -> None:
    rows = conn.execute("select name, may_be_null from pgq._queue_parameters()").fetchall()
    assert {name: known.nullable for name, known in config.PARAMETERS.items()} == dict(rows)
    assert list(queue("config", "q", "--json").json["queues"][0])[1:] == list(config.PARAMETERS)


def test_one_invalid_value_sets_no_parameter(conn: Connection, queue: Queue) -> None:
    before = queue("config", "q", "--json").json
    assert queue("config", "q", "ticker_max_count=9", "ticker_max_lag=soon").code == 2
    assert queue("config", "q", "--json").json == before


def test_consumers_start_at_end_tick_or_other_consumer(conn: Connection, queue: Queue) -> None:
    first = fill(conn, "one")
    assert queue("register", "q", "early").code == 0
    last = fill(conn, "two")
    assert queue("register", "q", "late", "later").code == 0
    assert queue("register", "q", "again", "--copy", "early").code == 0
    assert queue("register", "q", "there", "--at", str(first)).code == 0
    assert consumers(conn) == {
        "early": first,
        "late": last,
        "later": last,
        "again": first,
        "there": first,
    }
    stays = queue("register", "q", "early")
    assert "is already registered" in stays.err
    assert consumers(conn)["early"] == first


def test_moving_a_consumer_forward_reports_skipped_events(conn: Connection, queue: Queue) -> None:
    assert queue("register", "q", "c").code == 0
    last = fill(conn, "one", "two", "three")
    batches.next_batch(conn, "q", "c")
    moved = queue("register", "q", "c", "--at", str(last))
    assert "dropping its open batch" in moved.err
    assert "skipping 3 events" in moved.err
    assert consumers(conn) == {"c": last}


def test_consumers_are_listed_and_forgotten(conn: Connection, queue: Queue) -> None:
    queue("register", "q", "a", "b", "c")
    listed = queue("consumers", "--json").json["consumers"]
    assert [row["consumer"] for row in listed] == ["a", "b", "c"]
    assert [
        row["consumer"] for row in queue("consumers", "*", "b", "--json").json["consumers"]
    ] == ["b"]
    assert [
        row["consumer"] for row in queue("consumers", "q", "b", "--json").json["consumers"]
    ] == ["b"]
    assert queue("unregister", "q", "a", "nope").code == 2
    assert set(consumers(conn)) == {"a", "b", "c"}
    assert queue("unregister", "q", "a").code == 0
    assert queue("unregister", "q", "--all").code == 0
    assert consumers(conn) == {}


def test_unregistering_a_cooperative_consumer_reports_its_open_batch(
    conn: Connection, queue: Queue
) -> None:
    assert queue("register", "q", "c", "--sub", "w1", "--sub", "w2").code == 0
    assert "is already registered" in queue("register", "q", "c", "--sub", "w1").err
    assert queue("register", "q", "c", "--sub", "w3", "--at", "1").code == 2
    fill(conn, "one")
    opened = coop.next_batch(conn, "q", "c", "w1")
    assert opened is not None
    one = "c --sub w1"
    for who, hint in (("c --sub *", one), ("c.w2 c.w1", one), ("c", "c"), ("--all", "--all")):
        refused = queue("unregister", "q", *who.split())
        assert (refused.code, f"q {hint} --close-batch" in refused.err) == (3, True)
    assert queue("unregister", "q", "c", "--sub", "nope").code == 2
    assert sorted(consumers(conn)) == ["c", "c.w1", "c.w2"]
    assert queue("unregister", "q", "c", "--sub", "w2").code == 0
    done = queue("unregister", "q", "c", "--close-batch")
    assert f"closing its batch {opened.id}" in done.err
    assert consumers(conn) == {}


def test_browsing_events_does_not_consume_them(conn: Connection, queue: Queue) -> None:
    batches.register_consumer(conn, "q", "c")
    first = fill(conn, "one", "two")
    last = fill(conn, "three", "four")

    def data(*args: str) -> list[str]:
        answer = queue("events", "q", "--json", *args)
        assert answer.code == 0, answer.err
        return [event["data"] for event in answer.json["events"]]

    assert data() == ["one", "two", "three", "four"]
    assert data("--limit", "1") == ["one"]
    assert data("--consumer", "c") == ["one", "two", "three", "four"]
    assert data("--from", str(first)) == ["three", "four"]
    assert data("--to", str(first)) == ["one", "two"]
    assert data("--from", str(first), "--to", str(last)) == ["three", "four"]
    assert data("--extra1", "extra two") == ["two"]
    assert data("--contains", "o'") == []
    assert data("--contains", "o") == ["one", "two", "four"]
    assert data("--type", "u") == []
    opened = batches.next_batch(conn, "q", "c")
    assert opened is not None
    assert data("--batch", str(opened.id)) == ["one", "two"]
    assert data("--consumer", "c", "--contains", "w") == ["two"]
    shown = queue("batch", str(opened.id), "--json").json
    assert (shown["consumer"], shown["tick"]) == ("c", first)
    assert batches.next_batch(conn, "q", "c") == opened
    lines = queue("events", "q", "--limit", "2").out.splitlines()
    assert lines[0].split() == ["id", "time", "txid", "retry", "type", "data", "extra1"]
    assert len(lines) == 3


def test_events_between_two_ticks_equal_the_batch_with_overlapping_writers(
    pgq_db: Database, conn: Connection, queue: Queue
) -> None:
    batches.register_consumer(conn, "q", "c")
    with psycopg.connect(pgq_db.dsn) as slow:
        slow.execute("select pgq.insert_event('q', 't', 'slow')")
        first = fill(conn, "quick")
        slow.commit()
    last = fill(conn, "later")

    def data(*args: str) -> list[str]:
        return [event["data"] for event in queue("events", "q", "--json", *args).json["events"]]

    assert data("--to", str(first)) == ["quick"]
    assert data("--from", str(first), "--to", str(last)) == ["slow", "later"]


def test_events_of_a_batch_are_asked_for_again_all_or_none(conn: Connection, queue: Queue) -> None:
    batches.register_consumer(conn, "q", "c")
    fill(conn, "one", "two")
    opened = batches.next_batch(conn, "q", "c")
    assert opened is not None
    (chunk,) = batches.events(conn, opened)
    ids = [str(event.id) for event in chunk]
    assert queue("retry", "event", str(opened.id), ids[0], "999").code == 3
    assert queue("retry", "list", "--json").json["events"] == []
    assert queue("retry", "event", str(opened.id), *ids, "--seconds", "3600").code == 0
    waiting = queue("retry", "list", "q", "--consumer", "c", "--json").json["events"]
    assert [(row["consumer"], row["data"], row["retry"]) for row in waiting] == [
        ("c", "one", 1),
        ("c", "two", 1),
    ]


def test_ticks_and_maintenance_by_hand(conn: Connection, queue: Queue) -> None:
    before = queue("ticks", "q", "--json").json["ticks"]
    assert queue("tick", "q").code == 0
    after = queue("ticks", "q", "--json").json["ticks"]
    assert len(after) == len(before) + 1
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    assert "maint_rotate_tables_step1 q" in queue("maint", "--dry-run").out
    (info,) = queues.get_queue_info(conn, "q")
    assert queue("maint", "--json").json["maintenance"] >= 2
    assert queues.get_queue_info(conn, "q")[0].queue_cur_table == (info.queue_cur_table + 1) % 3


def test_names_that_look_like_options_are_used_as_hints_write_them(
    pgq_db: Database, conn: Connection, queue: Queue
) -> None:
    names = ["--db=host=evil", "-x"]
    for name in names:
        pgq_db.execute("select pgq.register_consumer('q', %s)", name)
        queues.create_queue(conn, name)
        assert queue("ticks", word(name).strip("'"), "--json").code == 0
        assert queue("unregister", "q", word(name).strip("'")).code == 0
    assert consumers(conn) == {}


def test_a_tick_by_hand_is_named_also_when_the_ticker_was_quicker(
    pgq_db: Database, conn: Connection, queue: Queue
) -> None:
    ended = threading.Event()

    def ticker() -> None:
        with psycopg.connect(pgq_db.dsn, autocommit=True) as other:
            while not ended.is_set():
                queues.ticker(other, "q")

    thread = threading.Thread(target=ticker)
    thread.start()
    try:
        newest = [queue("tick", "q", "--json").json["ticks"][0]["tick"] for _ in range(20)]
    finally:
        ended.set()
        thread.join()
    assert newest == sorted(set(newest))


def test_reader_role_reads_and_gets_errors_for_writes(
    pgq_db: Database, conn: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    user = f"reader_{pgq_db.name}"
    pgq_db.execute(f"create role {user} login in role pgq_reader")
    fill(conn, "one")
    dsn = psycopg.conninfo.make_conninfo(pgq_db.dsn, user=user)
    try:
        assert run(cli, ["queue", "events", "q", "--db", dsn]) == 0
        assert "one" in capsys.readouterr().out
        assert run(cli, ["queue", "retry", "list", "--db", dsn]) == 2
        assert f"hint: grant pgq_admin to {user}" in capsys.readouterr().err
        assert run(cli, ["queue", "create", "x", "--db", dsn]) == 2
        assert "error: " in capsys.readouterr().err
    finally:
        pgq_db.execute(f"drop role {user}")
