"""``londiste queue status`` and ``queue dead`` against a real database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.db.queries import fetch
from londiste.embedded.postgres import Cluster
from londiste.monitor import lag
from londiste.monitor.queues import collect, model, rules
from londiste.pgq import batches, consumers, counting, dead_letters, delayed, producer
from londiste.pgq import queues as pgq
from londiste.pgq.liveness import Beat
from tests.fixtures.cascade import Answer
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

Queue = Callable[..., Answer]


@pytest.fixture
def queue(pgq_db: Database, capsys: pytest.CaptureFixture[str]) -> Queue:
    def call(*args: str, dsn: str = "") -> Answer:
        capsys.readouterr()
        code = run(cli, ["--set", f"db={dsn or pgq_db.dsn}", "queue", *args])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    pgq.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    fill(conn)
    return conn


def fill(conn: Connection, *data: str) -> int:
    for each in data:
        producer.insert_event(conn, "q", "t", each)
    pgq.force_tick(conn, "q")
    return pgq.ticker(conn, "q") or 0


def kinds(conn: Connection) -> list[str]:
    return [one.kind for one in rules.findings(collect.collect(conn))]


def age(conn: Connection, statement: str) -> None:
    """Moves times into the past, as an administrator could."""
    conn.execute(statement)  # type: ignore[arg-type]


def test_a_fresh_queue_is_fine_and_a_check_says_so(conn: Connection, queue: Queue) -> None:
    answer = queue("status")
    assert (answer.code, "no problems found" in answer.err) == (0, True)
    assert [line.split()[0] for line in answer.out.splitlines() if line] == ["queue", "q"] * 2
    assert queue("status", "--check").out == "ok\n"
    document = queue("status", "--json").json
    assert (document["severity"], document["findings"], document["not_seen"]) == ("ok", [], [])
    assert document["queues"][0]["name"] == "q"


def test_the_exit_code_of_a_check_is_the_worst_finding(conn: Connection, queue: Queue) -> None:
    pgq.set_queue_config(conn, "q", "ticker_paused", "true")
    warning = queue("status", "--check")
    assert (warning.code, warning.out.splitlines()[0]) == (
        1,
        "warning: queue q: the ticker has been paused for 0s",
    )
    assert "do:  londiste queue config q ticker_paused=no" in warning.out
    conn.execute("update pgq.queue set queue_name = e'q\\u009b'")
    assert "queue q\\x9b: " in queue("status", "--check").out.splitlines()[0]
    conn.execute("update pgq.queue set queue_name = 'q'")
    pgq.set_queue_config(conn, "q", "ticker_paused", "false")
    age(conn, "update pgq.tick set tick_time = tick_time - interval '1 day'")
    assert queue("status", "--check").code == 2
    assert queue("status", "--check", "nope").code == 3
    assert queue("status", "--check", dsn="host=127.0.0.1 port=1 dbname=x").code == 3
    assert queue("status").code == 0
    assert queue("status", "nope").code == 2


def test_stopped_ticker_pinned_rotation_and_inactive_consumer_are_found(
    conn: Connection, queue: Queue
) -> None:
    fill(conn, "one")
    # A rotation that is over; then the consumer does not move.
    pgq.set_queue_config(conn, "q", "rotation_period", "0")
    for name, argument in pgq.maint_operations(conn):
        if name.startswith("pgq.maint_rotate"):
            conn.execute(
                f"select {name}({'%s' if argument else ''})", [argument] if argument else []
            )  # type: ignore[arg-type]
    pgq.set_queue_config(conn, "q", "rotation_period", "1 hour")
    fill(conn, "two")
    age(conn, "update pgq.queue set queue_switch_time = now() - interval '3 hours'")
    age(conn, "update pgq.subscription set sub_active = now() - interval '3 hours'")
    found = {one.kind: one for one in rules.findings(collect.collect(conn))}
    assert set(found) == {"rotation-pinned", "consumer-inactive"}
    assert found["rotation-pinned"].consumer == "c"
    age(conn, "update pgq.tick set tick_time = tick_time - interval '3 hours'")
    assert "ticker-stopped" in kinds(conn)
    assert "consumer c of queue q pins its tables" in queue("status").out


def test_who_holds_the_row_of_a_queue_is_seen(pgq_db: Database, conn: Connection) -> None:
    held = pgq_db.connect(autocommit=False)
    held.execute("select from pgq.queue where queue_name = 'q' for update")
    age(conn, "update pgq.tick set tick_time = tick_time - interval '3 hours'")
    assert pgq.ticker(conn) == 0
    (holder,) = collect.collect(conn).queue_locks
    assert f"process {held.info.backend_pid}" in holder.name
    held.rollback()
    facts = collect.collect(conn)
    assert (facts.queue_locks, facts.commit_waits) == ((), None)


@pytest.mark.slow
def test_commits_that_wait_for_a_standby_are_seen(
    new_cluster: Callable[..., Cluster], new_database: Callable[..., Database]
) -> None:
    database, done = new_database(on=new_cluster(), pgq=True), threading.Event()
    conn, other = database.connect(), database.connect()
    pgq.create_queue(conn, "q")
    conn.execute("alter system set synchronous_standby_names = 'nope'")
    with ThreadPoolExecutor() as pool:
        try:
            conn.execute("select pg_reload_conf()")
            # The server knows of the setting some commits later.
            commits = pool.submit(lambda: [fill(other) for _ in iter(done.is_set, True)])
            wait_for(lambda: collect.collect(conn).commit_waits is not None, what="a commit")
        finally:
            done.set()
            conn.execute("alter system reset synchronous_standby_names")
            conn.execute("select pg_reload_conf()")
        commits.result()


def test_a_clock_that_was_set_back_is_found_and_hides_no_lag(
    conn: Connection, queue: Queue
) -> None:
    first = fill(conn, "one") - 1
    # Its position is ten minutes old, and the clock is set back by an hour.
    age(conn, "update pgq.tick set tick_time = now() + interval '1 hour'")
    age(conn, f"update pgq.tick set tick_time = now() + interval '49 min' where tick_id <= {first}")
    assert kinds(conn) == ["clock-back"]
    (one,) = collect.collect(conn).consumers
    # Nothing tells how long ago the newest tick was created.
    assert one.lag is None
    before = lag.positions_at(conn, "q", [first])[first]
    assert (before.age, before.behind.events, before.behind.seconds) == (None, 1, None)
    fill(conn, "two")
    assert kinds(conn) == ["clock-back", "consumer-lags"]
    facts = collect.collect(conn)
    assert facts.consumers[0].lag == pytest.approx(660, abs=30)
    assert facts.queues[0].events_per_sec is None
    after = lag.positions_at(conn, "q", [first])[first]
    assert (after.age, after.behind.events) == (pytest.approx(660, abs=30), 2)
    assert after.behind.seconds == pytest.approx(0, abs=30)
    assert pgq.get_queue_info(conn, "q")[0].ev_per_sec is None
    (listed,) = counting.consumers(conn, "q")
    assert listed.lag is not None and listed.lag > timedelta(minutes=10)
    shown = queue("status").out
    assert "the clock of the server was set back by 59m" in shown and "lags by 11m" in shown


def test_events_that_wait_for_a_tick_lag_from_their_own_time(conn: Connection) -> None:
    """The queue was idle before: an event of just now is not late, however old the tick is."""
    newest = fill(conn, "one")
    age(conn, "update pgq.tick set tick_time = tick_time - interval '50 s'")
    producer.insert_event(conn, "q", "t", "two")

    def seconds() -> float | None:
        return lag.positions_at(conn, "q", [newest])[newest].behind.seconds

    assert seconds() == 0.0
    age(conn, "update pgq.event_1 set ev_time = ev_time - interval '40 s' where ev_data = 'two'")
    assert seconds() == pytest.approx(37, abs=2)
    # Its transaction was open while a tick was made.
    age(conn, "update pgq.event_1 set ev_time = ev_time - interval '1 h' where ev_data = 'two'")
    assert seconds() == pytest.approx(47, abs=2)


def test_a_branch_with_ticks_of_an_earlier_clock_is_not_silent_while_its_worker_applies(
    conn: Connection,
) -> None:
    pgq.set_queue_config(conn, "q", "external_ticker", "true")
    age(conn, "update pgq.tick set tick_time = tick_time - interval '1 hour'")
    assert "external-ticker-silent" in kinds(conn)
    beat = Beat("worker", "q", "w")
    beat.worked()
    beat.beat(conn)
    assert "external-ticker-silent" not in kinds(conn)


def test_a_lost_position_disabled_inserts_and_a_cached_sequence_are_found(
    conn: Connection,
) -> None:
    pgq.set_queue_config(conn, "q", "disable_insert", "true")
    conn.execute("alter sequence pgq.event_1_id_seq cache 20")
    conn.execute("delete from pgq.tick where tick_id = (select min(tick_id) from pgq.tick)")
    assert kinds(conn) == ["position-lost", "insert-disabled", "sequence-cache"]


def test_a_dropped_index_of_event_tables_is_found_and_comes_back(
    conn: Connection, pgq_db: Database, queue: Queue
) -> None:
    indexes = (
        "select indexrelid::regclass::text from pg_index"
        " where indrelid::regclass::text ~ 'pgq.event_1_[0-9]' and indisvalid order by 1"
    )
    before = pgq_db.execute(indexes)
    drop = "drop index pgq.event_1_0_txid_idx, pgq.event_1_2_txid_idx"
    conn.execute(drop)
    [found] = [f for f in rules.findings(collect.collect(conn)) if f.kind == "event-index"]
    for statement in found.do.removeprefix("londiste install; or: ").split("; "):
        conn.execute(statement)
    assert pgq_db.execute(indexes) == before
    conn.execute(drop)
    # As an interrupted attempt leaves it.
    conn.execute("create index event_1_2_txid_idx on pgq.event_1_2 (ev_txid)")
    conn.execute(
        "update pg_index set indisvalid = false"
        " where indexrelid = 'pgq.event_1_2_txid_idx'::regclass"
    )
    assert "index of event table pgq.event_1_0 is missing" in queue("install", "--dry-run").err
    assert "index of event table pgq.event_1_2 created" in queue("install").err
    assert pgq_db.execute(indexes) == before
    assert "event-index" not in kinds(conn)


def test_a_queue_that_is_created_during_the_look_does_not_end_it(
    pgq_db: Database, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(one: Connection, name: str, **parameters: object) -> list[dict[str, object]]:
        found = fetch(one, name, **parameters)
        if name == "queue_facts":
            pgq_db.execute("select pgq.create_queue('new'), pgq.register_consumer('new', 'c')")
            pgq_db.execute("select pgq.insert_event('new', 't', 'd') from generate_series(1, 9)")
            pgq_db.execute("select pgq.force_tick('new')")
            pgq_db.execute("select pgq.ticker('new')")
        return found

    monkeypatch.setattr(collect, "fetch", late)
    facts = collect.collect(conn)
    assert [one.name for one in facts.queues] == ["q"]
    assert [(one.queue, one.own) for one in facts.consumers] == [("new", None), ("q", None)]


def test_an_old_transaction_and_a_prepared_one_are_found(
    pgq_db: Database, conn: Connection
) -> None:
    limits = model.Limits(transaction=1e-9)
    with psycopg.connect(pgq_db.dsn, application_name="old one") as other:
        other.execute("select txid_current()")
        found = rules.findings(collect.collect(conn), limits)
        ours = [one for one in found if "old one" in one.what]
        assert [one.kind for one in ours] == ["snapshot-held"]
        assert "event tables written" in ours[0].why
        assert ours[0].do == f"select pg_terminate_backend({other.info.backend_pid})"
        other.execute("prepare transaction 'it''s'")
        found = rules.findings(collect.collect(conn), limits)
        (held,) = [one for one in found if "it's" in one.what]
        assert held.do == "commit prepared 'it''s', or rollback prepared 'it''s'"
        other.rollback()
    conn.execute("rollback prepared 'it''s'")


def test_a_user_without_rights_sees_queues_and_is_told_what_it_does_not_see(
    pgq_db: Database, conn: Connection, queue: Queue
) -> None:
    user = f"nobody_{pgq_db.name}"
    pgq_db.execute(f"create role {user} login")
    dsn = psycopg.conninfo.make_conninfo(pgq_db.dsn, user=user)
    try:
        answer = queue("status", dsn=dsn)
        assert answer.code == 0, answer.err
        assert "warning: not visible to this user: transactions of other users" in answer.err
        assert "q " in answer.out
    finally:
        pgq_db.execute(f"drop role {user}")


def test_a_paused_consumer_and_a_transaction_that_holds_rotation_are_found(
    pgq_db: Database, conn: Connection
) -> None:
    consumers.pause_consumer(conn, "q", "c", "holiday")
    assert kinds(conn) == ["consumer-paused"]
    consumers.resume_consumer(conn, "q", "c")
    assert kinds(conn) == []
    with psycopg.connect(pgq_db.dsn, application_name="slow writer") as writer:
        writer.execute("select txid_current()")
        conn.execute("update pgq.queue set queue_switch_step2 = txid_current()")
        batches.unregister_consumer(conn, "q", "c")
        fill(conn, "one")
        age(conn, "update pgq.queue set queue_switch_time = now() - interval '5 hours'")
        (found,) = rules.findings(collect.collect(conn))
        assert found.kind == "rotation-held"
        assert "slow writer" in found.why


def test_ids_that_were_consumed_without_events_are_not_counted(
    pgq_db: Database, conn: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = conn.execute("select last_value from pgq.event_1_id_seq").fetchone()
    assert queue("tick", "q").code == 0
    assert conn.execute("select last_value from pgq.event_1_id_seq").fetchone() == before
    fill(conn, "one")
    producer.insert_event(conn, "q", "t", "two")
    pgq.force_tick(conn, "q")
    document = queue("status", "--json").json
    assert (document["queues"][0]["new_events"], document["consumers"][0]["pending"]) == (1, 1)
    assert queue("consumers", "--json").json["consumers"][0]["pending_events"] == 1
    # More events than a count reads, and users without rights: the upper limit.
    monkeypatch.setattr(counting, "COUNTED", 0)
    assert queue("consumers", "--json").json["consumers"][0]["pending_events"] > 1000
    monkeypatch.undo()
    conn.execute("set role pg_monitor")
    assert counting.between(conn, "q", 1, 2, 7) == 7


def test_two_looks_compare_speeds(conn: Connection, queue: Queue) -> None:
    document = queue("status", "--seconds", "0.1", "--json").json
    assert document["speed"]["written"] == {"q": 0.0}
    assert queue("status", "--seconds", "0").code == 2


def test_events_of_times_that_python_has_no_value_for_are_listed(
    conn: Connection, queue: Queue
) -> None:
    queue("register", "q", "c", "--at", str(fill(conn)))
    times = ["infinity", "10000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"]
    for event, time in enumerate(times, 100):
        conn.execute(
            "select pgq.insert_event_raw('q', %s, %s, null, null, 't', 'd', '', '', '', '')",
            [event, time],
        )
    fill(conn)
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    for args in (["events", "q"], ["events", "q", "--batch", str(batch.id)]):
        assert [one["time"] for one in queue(*args, "--json").json["events"]] == times
        assert times[2] in queue(*args).out
    for event in range(100, 103):
        dead_letters.event_failed(conn, batch.id, event, "no")
    listed = queue("dead", "list", "q", "c", "--json").json["events"]
    assert [one["time"] for one in listed] == times
    assert queue("dead", "drop", "q", "c", "101").code == 0


def test_dead_letters_are_listed_delivered_again_and_forgotten(
    pgq_db: Database, conn: Connection, queue: Queue
) -> None:
    fill(conn, "one", "two", "three")
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        for chunk in batches.events(conn, batch):
            for event in chunk:
                dead_letters.event_failed(conn, batch.id, event.id, f"cannot do {event.data}")
        batches.finish_batch(conn, batch.id)
    assert kinds(conn) == ["dead-letters"]
    (counted,) = queue("dead", "count", "--json").json["consumers"]
    assert (counted["consumer"], counted["dead"], counted["retries"]) == ("c", 3, 0)
    listed = queue("dead", "list", "q", "c", "--json").json["events"]
    assert [one["failed_reason"] for one in listed] == [
        "cannot do one",
        "cannot do two",
        "cannot do three",
    ]
    assert "1 of 3" in queue("dead", "list", "q", "c", "--limit", "1").err
    ids = [str(one["id"]) for one in listed]
    assert queue("dead", "retry", "q", "c", ids[0], "999").code == 3
    assert queue("dead", "drop", "q", "c").code == 2
    assert queue("dead", "drop", "q", "c", ids[1], "--all").code == 2
    assert queue("dead", "drop", "q", "c", ids[1], "--dry-run").out.startswith("1. delete event")
    assert dead_letters.failed_event_count(conn, "q", "c") == 3
    assert queue("dead", "drop", "q", "c", ids[1]).code == 0
    # Of two sessions at once each tells what it has done itself.
    with pgq_db.connect(autocommit=False) as other, ThreadPoolExecutor() as pool:
        dead_letters.failed_event_delete(other, "q", "c", int(ids[0]))
        called = pool.submit(queue, "dead", "retry", "q", "c", "--all")
        waits = "select from pg_stat_activity where %s = any(pg_blocking_pids(pid))"
        pid = other.info.backend_pid
        wait_for(lambda: conn.execute(waits, [pid]).fetchone() is not None, what="the command")
        other.commit()
    assert called.result().err == "deliver 1 event to consumer c again\n"
    assert dead_letters.failed_event_count(conn, "q", "c") == 0
    assert queue("dead", "retry", "q", "c", "--all", "--dry-run").out == "nothing to do\n"
    fill(conn)
    again: list[str | None] = []
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        for chunk in batches.events(conn, batch):
            again += [event.data for event in chunk]
        batches.finish_batch(conn, batch.id)
    assert again == ["three"]


def test_delayed_events_are_listed_and_cancelled_all_or_none(
    conn: Connection, queue: Queue
) -> None:
    soon, later = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) + timedelta(hours=2)
    first = delayed.insert_event_at(conn, "q", soon, "t", "first")
    second = delayed.insert_event_at(conn, "q", later, "t", "second")
    rows = queue("delayed", "list", "q", "--json").json["events"]
    assert [(row["id"], row["data"]) for row in rows] == [(first, "first"), (second, "second")]
    assert "1 of 2" in queue("delayed", "list", "q", "--limit", "1").err
    refused = queue("delayed", "cancel", "q", str(first), "999")
    assert (refused.code, "is not delayed" in refused.err) == (3, True)
    assert len(queue("delayed", "list", "q", "--json").json["events"]) == 2
    assert queue("delayed", "cancel", "q", str(first), "--dry-run").out.startswith("1. cancel")
    assert queue("delayed", "cancel", "q", str(first)).code == 0
    assert [row["id"] for row in queue("delayed", "list", "q", "--json").json["events"]] == [second]
    conn.execute("update pgq.delayed_event set ev_send_at = now() - interval '10 minutes'")
    assert kinds(conn) == ["delayed-overdue"]
