"""Producers of all kinds at once, while tables come, go and rotate: every event exactly once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import StateError, TransientError
from londiste.pgq import batches, delayed, producer, queues, ticks
from tests.fixtures.cascade import Answer
from tests.fixtures.cluster import Database
from tests.support.queue_steps import rotate
from tests.support.waiting import wait_for

ROUNDS = 60


def singles(conn: Connection, name: str) -> list[str]:
    data = [f"{name} {n}" for n in range(ROUNDS * 4)]
    for each in data:
        producer.insert_event(conn, "q", "t", each)
    return data


def lists(conn: Connection, name: str) -> list[str]:
    data = [f"{name} {n}" for n in range(ROUNDS * 4)]
    for n in range(0, len(data), 8):
        producer.insert_event_arrays(conn, "q", ["t"] * 4, data[n : n + 4])
        producer.insert_events(conn, "q", [("t", each) for each in data[n + 4 : n + 8]])
    return data


def once(conn: Connection, name: str) -> list[str]:
    """Two of these try the same keys; whoever is first counts."""
    mine = []
    for n in range(ROUNDS * 2):
        if producer.insert_event_once(conn, "q", f"key {n}", "t", f"once {n}")[1]:
            mine.append(f"once {n}")
    return mine


def later(conn: Connection, name: str) -> list[str]:
    kept = []
    for n in range(ROUNDS):
        soon = datetime.now(UTC) + timedelta(milliseconds=100)
        event = delayed.insert_event_at(conn, "q", soon, "t", f"{name} {n}")
        if n % 3 or not delayed.cancel_delayed_event(conn, "q", event):
            kept.append(f"{name} {n}")
    return kept


def undone(conn: Connection, name: str) -> list[str]:
    kept = []
    for n in range(ROUNDS):
        with conn.transaction():
            producer.insert_event(conn, "q", "t", f"{name} {n}")
            kept.append(f"{name} {n}")
            with conn.transaction(force_rollback=True):
                producer.insert_event_arrays(conn, "q", ["t"] * 3, ["undone"] * 3)
                producer.insert_event_once(conn, "q", f"{name} {n}", "t", "undone")
    return kept


def read(conn: Connection, consumer: str) -> list[str]:
    found: list[str] = []
    while (batch := batches.next_batch(conn, "q", consumer)) is not None:
        events = [event for chunk in batches.events(conn, batch) for event in chunk]
        assert [event.id for event in events] == sorted(event.id for event in events)
        found += [event.data or "" for event in events]
        batches.finish_batch(conn, batch.id)
    return found


def keep_house(conn: Connection, tables: int) -> None:
    """What a ticker does, and a person who cannot decide how many tables are right."""
    queues.maint_retry_events(conn)
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    rotate(conn, "q")
    try:
        queues.set_queue_config(conn, "q", "ntables", str(tables))
    except (StateError, TransientError) as refused:
        assert refused.hint


def test_nothing_is_lost_or_repeated(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    batches.register_consumer(conn, "q", "c")
    batches.register_consumer(conn, "q", "behind the stream")
    kinds = [singles, lists, once, once, later, undone]
    found: list[str] = []
    with ThreadPoolExecutor(len(kinds)) as pool:
        running = [
            pool.submit(kind, pgq_db.connect(), f"{kind.__name__}.{n}")
            for n, kind in enumerate(kinds)
        ]
        position, streamed, rounds = 1, Counter[str](), 0
        while rounds < 8 or not all(one.done() for one in running):
            rounds += 1
            keep_house(conn, (5, 3, 4, 2)[rounds % 4])
            found += read(conn, "c")
            (info,) = queues.get_queue_info(conn, "q")
            assert info.last_tick_id is not None
            for chunk in ticks.tick_events(conn, "q", position, info.last_tick_id):
                streamed.update(event.data or "" for event in chunk)
            position = info.last_tick_id
            read(conn, "behind the stream")
        written = Counter(each for one in running for each in one.result())
    conn.execute("update pgq.delayed_event set ev_send_at = now()")
    while queues.maint_retry_events(conn):
        pass
    queues.force_tick(conn, "q")
    last = queues.ticker(conn, "q")
    assert last is not None
    found += read(conn, "c")
    for chunk in ticks.tick_events(conn, "q", position, last):
        streamed.update(event.data or "" for event in chunk)
    assert Counter(found) == written
    assert streamed == written
    assert max(written.values()) == 1


def test_open_producer_is_named_before_its_queue_is_closed_or_dropped(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    user = f"keeper_{pgq_db.name}"
    pgq_db.execute(f"create role {user} login in role pgq_admin")
    dsn = psycopg.conninfo.make_conninfo(pgq_db.dsn, user=user)

    def command(*words: str, seconds: float = 0.2) -> Answer:
        capsys.readouterr()
        code = run(cli, ["--set", f"lock_timeout={seconds}", "queue", *words, "--db", dsn])
        return Answer(code, *capsys.readouterr())

    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    with pgq_db.connect(autocommit=False) as late:
        (pid,) = late.execute("select pg_backend_pid()").fetchone() or (0,)
        producer.insert_event(late, "q", "t", "late")
        for words, state in (
            (("config", "q", "disable_insert=true"), "the queue refuses new events"),
            (("drop", "q", "--drop-consumers"), "nothing was changed"),
        ):
            refused = command(*words)
            assert refused.code == 6, refused
            assert f"has written into queue q is open; {state}" in refused.err
            assert f"process {pid}" in refused.err
            assert f"hint: end it: select pg_terminate_backend({pid}); then" in refused.err
        with pytest.raises(StateError, match="disallowed"):
            producer.insert_event(conn, "q", "t", "later")
        with ThreadPoolExecutor() as pool:
            closing = pool.submit(command, "config", "q", "disable_insert=true", seconds=30)
            waits = "select count(*) from pg_locks where not granted and mode = 'ExclusiveLock'"
            wait_for(lambda: pgq_db.value(waits), what="the command behind the producer")
            assert not closing.done()
            late.commit()
            assert closing.result().code == 0
    # It is after the newest tick, and is told all the same.
    refused = command("drop", "q")
    assert refused.code == 3 and "c is registered, with 1 event pending" in refused.err, refused
    done = command("drop", "q", "--drop-consumers")
    assert done.code == 0 and "with 1 event pending: lost" in done.err, done
    assert queues.get_queue_info(conn) == []
    pgq_db.execute(f"drop role {user}")
