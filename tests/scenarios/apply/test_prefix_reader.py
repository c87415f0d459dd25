"""Readers of the target see whole source transactions, in their order, at every moment."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database, Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.oracles import PrefixReader

TABLES = (*writers.KEYED, *writers.KEYLESS)


def test_the_reader_recognises_half_a_transaction(database: Database) -> None:
    database.execute(writers.SCHEMA + writers.DATA)
    reader = PrefixReader(database)
    with database.connect() as conn:
        assert reader.look(conn) == []
        database.execute("insert into scenario.token_a values (1, '1:1')")
        assert any("everywhere" in wrong for wrong in reader.look(conn))
        database.execute("delete from scenario.token_a")
        database.execute("update scenario.account set balance = balance + 1 where id = 1")
        assert any("accounts" in wrong for wrong in reader.look(conn))
        database.execute("update scenario.account set balance = 1000")
        for number in (1, 3):
            _whole_transaction(database, number)
        assert any("gaps" in wrong for wrong in reader.look(conn))
        _whole_transaction(database, 2)
        assert reader.look(conn) == []
        for table in ("token_a", "token_b", '"Token C"', "log"):
            database.execute(f"delete from scenario.{table} where token = '1:3'")
        assert any("was at 3" in wrong for wrong in reader.look(conn))


@pytest.mark.slow
def test_a_reader_of_the_leaf_never_sees_half_a_transaction(
    cascade: Cascade, cluster16: Server
) -> None:
    _read_while_writing(cascade, cluster16, kills=2, transactions=50)


@pytest.mark.slow
def test_a_reader_of_the_leaf_never_sees_half_a_transaction_in_a_long_run(
    cascade: Cascade, cluster16: Server
) -> None:
    _read_while_writing(cascade, cluster16, kills=10, transactions=400)


def _read_while_writing(
    cascade: Cascade, cluster16: Server, *, kills: int, transactions: int
) -> None:
    root = cascade.root(on=cluster16, schema=writers.SCHEMA + writers.DATA)
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA)
    cascade.start_ticker()
    worker = cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (one, two):
        one.wait(10)
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(leaf)
        with PrefixReader(leaf.database) as reader:
            for _ in range(kills):
                one.wait(transactions)
                reader.wait(20)
                worker.kill()
                worker = cascade.start_worker(leaf)
            two.wait(3)
            cascade.wait_progress(leaf)
            reader.wait(20)
            one.stop()
            two.stop()
            cascade.wait_root(leaf)
            reader.wait(2)
            reader.stop()
    assert len(reader.seen_states) > 5, "the target hardly moved while it was read"
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
    assert cascade.compare(leaf)["equal"]


def _whole_transaction(database: Database, number: int) -> None:
    token = f"1:{number}"
    database.execute(
        f"insert into scenario.token_a values ({number}, '{token}');"
        f"insert into scenario.token_b values ('{token}', {number}, '');"
        f"insert into scenario.\"Token C\" values ('r', {number}, '{token}');"
        f"insert into scenario.log values (1, {number}, '{token}')"
    )
