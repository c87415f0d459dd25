"""Real schemas, all tables added with one command while pgbench writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node, shared_file

PGBENCH = (
    "public.pgbench_accounts",
    "public.pgbench_branches",
    "public.pgbench_tellers",
    "public.pgbench_history",
)


@pytest.fixture
def chinook() -> Path:
    """The script of the Chinook database; it is not part of this repository."""
    path = shared_file("chinook.sql")
    if path is None:
        pytest.skip("no ../shared/data/chinook.sql beside the repository")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])],
)
def test_chinook_and_a_small_pgbench_come_into_step_while_written(
    engine: str, chinook: Path, cascade: Cascade, cluster16: Server
) -> None:
    _come_into_step(cascade, cluster16, engine=engine, scale=1, chinook=chinook)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_chinook_and_pgbench_of_scale_10_come_into_step_while_written(
    engine: str, chinook: Path, cascade: Cascade, cluster16: Server
) -> None:
    _come_into_step(cascade, cluster16, engine=engine, scale=10, chinook=chinook)


@pytest.mark.slow
def test_tables_that_are_missing_on_the_leaf_are_made_like_the_provider_has_them(
    chinook: Path, cascade: Cascade, cluster16: Server
) -> None:
    cascade.engine = "local"
    root = cascade.root(on=cluster16)
    _psql(cascade, root, chinook)
    leaf = cascade.leaf(provider=root)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    cascade.londiste(root, "add-table", "--all")
    cascade.londiste(leaf, "add-table", "--all", "--create")
    cascade.wait_sync(leaf)
    tables = _chinook_tables(root)
    assert len(tables) > 5
    oracles.assert_same_rows(root.database, leaf.database, tables)
    assert cascade.compare(leaf)["equal"]


def _come_into_step(
    cascade: Cascade, cluster16: Server, *, engine: str, scale: int, chinook: Path
) -> None:
    cascade.engine = engine
    # By the command here, from nothing, as the others get their SQL cloned.
    for name, server in (("root", cluster16), ("leaf", None)):
        cascade.londiste(cascade.node(name, on=server), "install")
    root, leaf = cascade.nodes["root"], cascade.nodes["leaf"]
    cascade.londiste(root, "create-root", "root", root.database.dsn)
    provider = ("--provider", root.database.dsn)
    cascade.londiste(leaf, "create-leaf", "leaf", leaf.database.dsn, *provider)
    for node, empty in ((root, False), (leaf, True)):
        _psql(cascade, node, chinook)
        writers.initialise_pgbench(cascade, node.database, scale=scale, empty=empty)
    tables = _chinook_tables(root)
    assert len(tables) > 5
    keys_before = _foreign_keys(leaf)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    pgbench = writers.start_pgbench(cascade, root.database)
    cascade.wait(
        lambda: root.database.value("select count(*) from pgbench_history"), "pgbench writing"
    )
    cascade.londiste(root, "add-table", "--all", "--insert-only", seconds=120)
    cascade.londiste(leaf, "add-table", "--all", "--insert-only", seconds=120)
    cascade.wait_sync(leaf, seconds=400)
    _chinook_changes(root)
    assert pgbench.running(), pgbench.said()
    pgbench.send(signal.SIGINT)
    pgbench.wait()
    assert "ERROR" not in pgbench.said()
    cascade.wait_root(leaf, seconds=400)
    answer = cascade.compare(leaf, seconds=400)
    assert answer["equal"], answer
    assert len(answer["tables"]) == len(tables) + len(PGBENCH)
    oracles.assert_same_rows(root.database, leaf.database, (*tables, *PGBENCH))
    cascade.wait(lambda: _foreign_keys(leaf) == keys_before, "the foreign keys on the leaf")
    assert keys_before
    if engine == "spark":
        cascade.assert_spark_copied()


def _chinook_changes(root: Node) -> None:
    """Changes in tables with foreign keys, in one transaction."""
    root.database.execute(
        "insert into artist (name) values ('Größenwahn ''n'' Roll');"
        "insert into album (title, artist_id) select 'x', max(artist_id) from artist;"
        "update track set name = name || ' \\ ' || e'\\t' where track_id % 7 = 0;"
        "delete from playlist_track where track_id % 11 = 0;"
        "update invoice set total = total + 0.01, billing_state = null"
    )


def _chinook_tables(node: Node) -> list[str]:
    return [
        f"public.{name}"
        for (name,) in node.database.execute(
            "select tablename from pg_tables where schemaname = 'public'"
            " and tablename not like 'pgbench%' order by 1"
        )
    ]


def _foreign_keys(node: Node) -> set[tuple[str, str, bool]]:
    return set(
        node.database.execute(
            "select conrelid::regclass::text, pg_get_constraintdef(oid), convalidated"
            " from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace"
        )
    )


def _psql(cascade: Cascade, node: Node, script: Path) -> None:
    server = node.database.cluster
    done = cascade.processes.run(
        [
            *(os.fspath(server.program("psql")), "-X", "-q", "-v", "ON_ERROR_STOP=1"),
            *("-1", "-f", os.fspath(script), node.database.dsn),
        ],
        server.environment(),
    )
    assert done.code == 0, str(done)
