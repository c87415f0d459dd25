"""A queue dumped on one server and restored on another continues at its position.

The oracle is the database that was dumped: it goes on itself after the dump, and whatever its
consumers read there, those of the restored and rebased one must read, in the same batches.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.embedded.postgres import Cluster
from londiste.errors import InstallError, LockTimeout
from londiste.pgq import queues, rebase
from tests.fixtures.cluster import Database, Server, create_database, start_server, wanted_version
from tests.fixtures.restore import dump, dump_file, restore, restore_file, use_up_ids
from tests.support.queue_steps import (
    consume,
    data_of,
    insert,
    open_batch,
    refused_like,
    tick,
    value,
)
from tests.support.scenarios.processes import Done

CONSUMERS = ("slow", "middle", "fast")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    """Two servers: one has handed out many more transaction ids than the other."""
    version = wanted_version()
    with start_server("young", version) as young, start_server("old", version) as old:
        if not isinstance(young, Cluster):
            pytest.skip("needs the dump programs of embedded servers")
        prepare = create_database(old, pgq=True)
        use_up_ids(prepare, 100_000)
        prepare.drop()
        prepare = create_database(young, pgq=True)
        prepare.drop()
        yield {"young": young, "old": old}


@pytest.fixture
def make(servers: dict[str, Server]) -> Iterator[Callable[..., Database]]:
    made: list[Database] = []

    def one(name: str, *, pgq: bool = False) -> Database:
        made.append(create_database(servers[name], pgq=pgq))
        return made[-1]

    yield one
    for database in made:
        database.drop()


def lived_in(database: Database, seed: int = 1) -> None:
    """A queue with a past: transactions of all lengths, rotations, positions, an open batch."""
    dice = random.Random(seed)
    conn = database.connect()
    conn.execute("select pgq.create_queue('q')")
    conn.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    for name in CONSUMERS:
        conn.execute("select pgq.register_consumer('q', %s)", [name])
    long = database.connect(autocommit=False)
    insert(long, "long 1")
    number = 0
    for round_ in range(12):
        with_savepoint = database.connect(autocommit=False)
        for _ in range(dice.randrange(4)):
            insert(conn, f"n {(number := number + 1)}")
        insert(with_savepoint, f"s {number}")
        with with_savepoint.transaction():
            insert(with_savepoint, f"sub {number}")
        if dice.random() < 0.5:
            with_savepoint.commit()
        tick(conn)
        with_savepoint.rollback() if dice.random() < 0.2 else with_savepoint.commit()
        with_savepoint.close()
        if round_ == 3:
            insert(long, "long 2")
            long.commit()
        if round_ in (2, 5):
            for name in CONSUMERS:
                while value(conn, "select pgq.next_batch('q', %s)", name):
                    consume(conn, consumer=name)
            conn.execute("select pgq.maint_rotate_tables_step1('q')")
            conn.execute("select pgq.maint_rotate_tables_step2()")
    consume(conn, consumer="fast")
    consume(conn, consumer="middle")
    batch = open_batch(conn, consumer="middle")
    event = value(conn, "select max(ev_id) from pgq.get_batch_events(%s)", batch)
    if event is not None:
        conn.execute("select pgq.event_retry(%s, %s, 3600)", [batch, event])
    while value(conn, "select pgq.next_batch('q', 'fast')"):
        consume(conn, consumer="fast")
    for _ in range(3):
        insert(conn, f"after the last tick {(number := number + 1)}")


def rest(conn: Connection, consumer: str) -> list[tuple[int, list[str]]]:
    """Tick and events of every batch the consumer has still to read; it reads them."""
    found = []
    while (batch := value(conn, "select pgq.next_batch('q', %s)", consumer)) is not None:
        end = value(conn, "select tick_id from pgq.get_batch_info(%s)", batch)
        if end is None:
            end = value(
                conn, "select sub_next_tick from pgq.subscription where sub_batch = %s", batch
            )
        found.append((int(end), data_of(conn, batch)))
        conn.execute("select pgq.finish_batch(%s)", [batch])
    return found


def write_new(database: Database) -> list[str]:
    """Producers that do not know of the restore: they are not stopped."""
    conn = database.connect(autocommit=False)
    insert(conn, "new 1")
    with conn.transaction():
        insert(conn, "new 2")
        with conn.transaction():
            insert(conn, "new 3")
    conn.commit()
    conn.execute(
        "do $$ begin begin perform pgq.insert_event('q', 't', 'new 4');"
        " exception when others then raise; end; end $$"
    )
    conn.commit()
    insert(conn, "taken back")
    conn.rollback()
    return ["new 1", "new 2", "new 3", "new 4"]


def plain(source: Database, target: Database, path: Path) -> None:
    restore(dump(source), target)


def as_inserts(source: Database, target: Database, path: Path) -> None:
    restore(dump(source, "--inserts"), target)


def one_transaction(source: Database, target: Database, path: Path) -> None:
    restore(dump(source), target, "--single-transaction")


def by_pg_restore(source: Database, target: Database, path: Path) -> None:
    # Readable for whoever runs the server's programs.
    dump_file(source, path / "dump")
    restore_file(path / "dump", target, "-j", "2")


def schema_then_data(source: Database, target: Database, path: Path) -> None:
    restore(dump(source, "--schema-only"), target)
    restore(dump(source, "--data-only", "--disable-triggers"), target)


WAYS = [plain, as_inserts, one_transaction, by_pg_restore, schema_then_data]


#: Origin, home and way: each once by default, and each with each in the slow run.
MOVES = [
    pytest.param(*ends, way, marks=() if number == turn == 0 else pytest.mark.slow)
    for number, way in enumerate(WAYS)
    for turn, ends in enumerate([("old", "young"), ("young", "old")])
]


@pytest.mark.parametrize(("origin", "home", "way"), MOVES)
def test_every_consumer_gets_the_rest_and_then_what_is_new(
    make: Callable[..., Database],
    tmp_path: Path,
    origin: str,
    home: str,
    way: Callable[[Database, Database, Path], None],
) -> None:
    source, target = make(origin, pgq=True), make(home)
    lived_in(source)
    way(source, target, tmp_path)
    old, new = source.connect(), target.connect()
    generation = queues.queue_generation(new, "q")
    written = write_new(target)
    for refused in (
        "select pgq.ticker()",
        "select pgq.ticker('q')",
        "select pgq.next_batch('q', 'slow')",
        "select pgq.next_batch('q', 'middle')",
        "select pgq.maint_rotate_tables_step1('q')",
        "select pgq.lock_ticks('q')",
        "select pgq.get_batch_events(sub_batch) from pgq.subscription where sub_batch is not null",
    ):
        with refused_like("LD201", r"database \S+ was restored from another server"):
            new.execute(refused)

    if way is plain:
        # None of these takes away how rows of the dump are told from new ones.
        for number in range(3):
            new.execute(f"vacuum (full, freeze) pgq.event_1_{number}")
            new.execute(f"reindex table pgq.event_1_{number}")
        new.execute("vacuum (full, freeze) pgq.cluster_identity")
    [done] = rebase.rebase(target.dsn)
    assert (done.queue, done.arrived) == ("q", 4)
    assert generation != done.generation == queues.queue_generation(new, "q")
    assert rebase.rebase(target.dsn) == []

    tick(old)
    expected = {name: rest(old, name) for name in CONSUMERS}
    assert any(data for name in CONSUMERS for _, data in expected[name][:-1])
    last = tick(new)
    for name in CONSUMERS:
        found = rest(new, name)
        assert found[:-1] == expected[name][:-1]
        assert found[-1] == (last, expected[name][-1][1] + written)
    # It goes on as any queue: rotation, new batches, the retried event.
    insert(new, "later")
    tick(new)
    assert [consume(new, consumer=name) for name in CONSUMERS] == [["later"]] * 3
    for _ in range(3):
        new.execute("select pgq.maint_rotate_tables_step1('q')")
        new.execute("select pgq.maint_rotate_tables_step2()")
        tick(new)
        for name in CONSUMERS:
            assert consume(new, consumer=name) == []
    new.execute("update pgq.retry_queue set ev_retry_after = now()")
    new.execute("select pgq.maint_retry_events()")
    tick(new)
    retried = [len(consume(new, consumer=name)) for name in CONSUMERS]
    assert retried == [0, value(old, "select count(*) from pgq.retry_queue"), 0]


def test_a_copy_on_the_same_server_needs_no_rebase(make: Callable[..., Database]) -> None:
    source, target = make("young", pgq=True), make("young")
    lived_in(source)
    restore(dump(source), target)
    old, new = source.connect(), target.connect()
    assert [row.reason for row in rebase.explain(new)] == [None]
    tick(old), tick(new)
    for name in CONSUMERS:
        assert [data for _, data in rest(old, name)] == [data for _, data in rest(new, name)]
    assert rebase.rebase(target.dsn) == []


def test_explaining_changes_nothing_and_the_ticker_stops(make: Callable[..., Database]) -> None:
    source, target = make("young", pgq=True), make("old")
    lived_in(source)
    restore(dump(source), target)
    before = target.execute("table pgq.tick")
    [row] = rebase.explain(target.connect())
    assert row.queue == "q" and row.reason == "the database was restored from another server"
    assert row.ticks == len(before) and row.events and row.events > 5
    assert target.execute("table pgq.tick") == before
    # The ticker stops with the remedy.
    with pytest.raises(InstallError) as caught:
        queues.ticker(target.connect())
    assert caught.value.exit_code == 4
    assert "londiste queue rebase" in caught.value.hint


def test_it_waits_for_writers_and_gives_up_in_time(make: Callable[..., Database]) -> None:
    source, target = make("young", pgq=True), make("old")
    lived_in(source)
    restore(dump(source), target)
    writer = target.connect(autocommit=False)
    insert(writer, "still open")
    with pytest.raises(LockTimeout):
        rebase.rebase(target.dsn, lock_timeout=0.1)
    with pytest.raises(psycopg.Error):
        target.execute("select pgq.ticker()")
    writer.commit()
    assert [done.arrived for done in rebase.rebase(target.dsn)] == [1]


def test_a_transaction_that_began_before_the_rebase_and_writes_after_it_is_delivered(
    make: Callable[..., Database],
) -> None:
    source, target = make("old", pgq=True), make("young")
    lived_in(source)
    restore(dump(source), target)
    writer = target.connect(autocommit=False)
    writer.execute("select txid_current()")
    rebase.rebase(target.dsn)
    conn = target.connect()
    tick(conn)
    while value(conn, "select pgq.next_batch('q', 'fast')"):
        consume(conn, consumer="fast")
    insert(writer, "late")
    writer.commit()
    tick(conn)
    assert consume(conn, consumer="fast") == ["late"]


@pytest.mark.slow
def test_a_server_that_is_too_young_is_told_to_age(
    make: Callable[..., Database],
) -> None:
    source, target = make("old", pgq=True), make("young")
    conn = source.connect()
    conn.execute("select pgq.create_queue('q'); select pgq.register_consumer('q', 'c')")
    conn.execute("set synchronous_commit = off")
    count = int(target.value("select txid_current()")) + 200
    conn.execute(
        f"do $$ begin for i in 1..{count} loop perform pgq.insert_event('q', 't', i::text);"
        " commit; perform pgq._insert_tick(q, null) from pgq.queue q; commit; end loop; end $$"
    )
    restore(dump(source), target, "--single-transaction")
    with refused_like("LD202", r"too few transaction ids: queue q needs \d+, below \d+ .*"):
        target.execute("select * from pgq.rebase_queues()")
    [done] = rebase.rebase(target.dsn)
    assert done.events == count
    new = target.connect()
    for number in range(1, count + 1):
        assert consume(new) == [str(number)]


def command(database: Database, *options: str, name: str = "rebase") -> Done:
    words = ("queue", name, "--db", database.dsn, *options)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(cli, [*words])
    return Done(words, code, out.getvalue(), err.getvalue())


def test_the_command_explains_does_and_has_nothing_more_to_do(
    make: Callable[..., Database],
) -> None:
    source, target = make("old", pgq=True), make("young")
    lived_in(source)
    restore(dump(source), target)
    watched = command(target, "--check", name="status")
    assert (watched.code, "queue rebase" in watched.out) == (2, True), watched
    explained = json.loads(command(target, "--dry-run", "--json").out)["queues"]
    assert [(row["queue"], row["events"] > 0) for row in explained] == [("q", True)]
    done = json.loads(command(target, "--json").out)["queues"]
    assert done[0]["generation"] == target.value("select pgq.queue_generation('q')::text")
    assert command(target, "--check", name="status").code < 2
    again = command(target)
    assert (again.code, again.out) == (0, "")
    assert "nothing to do" in again.err
    wrong = command(target, "--lock-timeout", "0")
    assert wrong.code == 2 and wrong.err.startswith("error: --lock-timeout")
