"""What a self-test refuses before it creates anything, and what its removal leaves alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from londiste.errors import BadOption, LondisteError, StateError
from londiste.install import apply
from londiste.selftest import pair as databases
from londiste.selftest.pair import SCHEMA, Pair
from londiste.settings import WorkerSettings
from tests.fixtures.cluster import Database
from tests.support.replicating import catalog

Make = Callable[..., Database]


def identified(source: Database, target: Database) -> Pair:
    settings = WorkerSettings(db=target.dsn, queue_name=databases.QUEUE, job_name="x")
    return databases.identify(settings, source.dsn, target.dsn)


@pytest.fixture
def two(new_database: Make) -> tuple[Database, Database]:
    return new_database(), new_database()


def refused(pair: Pair, error: type[LondisteError]) -> LondisteError:
    with pair.sites() as sites, pytest.raises(error) as info:
        databases.remove(sites, pair, pytest.fail)
        databases.mark(sites, pair)
    assert info.value.hint
    return info.value


def test_one_database_twice_is_refused(two: tuple[Database, Database]) -> None:
    with pytest.raises(BadOption, match="same database"):
        identified(two[0], two[0])


def test_a_schema_or_a_queue_of_others_is_neither_used_nor_removed(
    two: tuple[Database, Database], new_database: Make
) -> None:
    source, target = two
    pair = identified(source, target)
    target.execute(f"create schema {SCHEMA}")
    target.execute(f"create table {SCHEMA}.ledger (n int)")
    before = [catalog(one) for one in two]
    assert "was not created by londiste selftest" in refused(pair, StateError).message
    assert [catalog(one) for one in two] == before
    other = new_database(pgq=True)
    other.execute("select pgq.create_queue(%s)", databases.QUEUE)
    assert databases.QUEUE in refused(identified(other, source), StateError).message
    assert [catalog(one) for one in two] == before


def test_the_removal_stops_at_objects_of_others(two: tuple[Database, Database]) -> None:
    source, target = two
    pair = identified(source, target)
    before = [catalog(one) for one in two]
    with pair.sites() as sites:
        databases.mark(sites, pair)
        databases.create_tables(sites, pair, databases.ALL_SHAPES)
        source.execute(f"create view public.mine as select * from {SCHEMA}.ledger")
        with pytest.raises(StateError, match="depend"):
            databases.remove(sites, pair, pytest.fail)
        assert source.value("select count(*) from public.mine") == 0
        source.execute("drop view public.mine")
        source.execute(f"create table {SCHEMA}.mine (a int)")
        with pytest.raises(StateError, match="depend"):
            databases.remove(sites, pair, pytest.fail)
        assert source.value(f"select count(*) from {SCHEMA}.mine") == 0
        source.execute(f"drop table {SCHEMA}.mine")
        assert databases.left(sites.at(source.dsn)) == [f"schema {SCHEMA}"]
        assert databases.remove(sites, pair, pytest.fail)
        assert not databases.remove(sites, pair, pytest.fail)
    assert [catalog(one) for one in two] == before


MARK = "made by londiste selftest; SQL that it installed: pgq pgq_node pgq_ext pgq_coop londiste"


@pytest.fixture
def mallory(two: tuple[Database, Database]) -> Iterator[str]:
    """A role that may create schemas, and nothing else."""
    name = f"mallory_{two[0].name}"
    two[0].execute(f"create role {name}; grant create on database {two[0].name} to {name}")
    yield name
    two[0].execute(f"drop schema if exists {SCHEMA}; drop owned by {name}; drop role {name}")


def test_a_mark_of_another_role_is_not_believed(
    two: tuple[Database, Database], mallory: str
) -> None:
    source, target = two
    with source.connect() as conn:
        apply.install(conn)
        conn.execute("select pgq.create_queue('orders')")
        conn.execute(f"set role {mallory}")
        conn.execute(f"create schema {SCHEMA}")
        conn.execute(f"comment on schema {SCHEMA} is '{MARK}'")
    error = refused(identified(source, target), StateError)
    assert f"belongs to role {mallory}" in error.message
    assert source.value("select count(*) from pgq.queue where queue_name = 'orders'") == 1


def test_sql_with_a_queue_of_others_stays(two: tuple[Database, Database]) -> None:
    source, target = two
    pair = identified(source, target)
    said: list[str] = []
    with pair.sites() as sites:
        databases.mark(sites, pair)
        apply.install(sites.at(source.dsn))
        apply.install(sites.at(target.dsn))
        source.execute("select pgq.create_queue('orders')")
        assert databases.remove(sites, pair, said.append)
    assert source.value("select count(*) from pgq.queue where queue_name = 'orders'") == 1
    assert len(said) == 1 and "queue orders is in this database" in said[0]
    assert target.value("select to_regnamespace('pgq')") is None
