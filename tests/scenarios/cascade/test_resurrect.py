"""A failed root with diverged events is rejoined as a branch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from londiste.cascade.commands import queue_settings
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.embedded.postgres import Cluster
from tests.fixtures.cascade import Answer
from tests.fixtures.cluster import Database, Server
from tests.support.scenarios import following_writer, oracles
from tests.support.scenarios.following_writer import Follower
from tests.support.scenarios.harness import Cascade, Node

SCHEMA = """
create schema app;
create table app.kept (id int primary key, v text, unique (v) deferrable);
create table app.plain (id int primary key, v text);
create table app.numbered (id serial primary key, v text);
"""
DATA = """
insert into app.kept select i, 'row ' || i from generate_series(1, 5) i;
insert into app.plain select i, 'row ' || i from generate_series(1, 5) i;
insert into app.numbered (v) select 'row ' || i from generate_series(1, 5) i;
"""
TABLES = ("app.kept", "app.plain", "app.numbered")


@contextlib.contextmanager
def cut_off(database: Database) -> Iterator[None]:
    """Nobody reaches the database, as when its network is cut; meanwhile it lives."""
    server = psycopg.conninfo.make_conninfo(database.dsn, dbname="postgres")
    with psycopg.connect(server, autocommit=True) as conn:
        name = psycopg.sql.Identifier(database.name)
        conn.execute(psycopg.sql.SQL("alter database {} allow_connections false").format(name))
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
            [database.name],
        )
        try:
            yield
        finally:
            conn.execute(psycopg.sql.SQL("alter database {} allow_connections true").format(name))


def _equal(cascade: Cascade, root: Node, tables: tuple[str, ...] = TABLES) -> None:
    for node in cascade.nodes.values():
        if node is not root:
            cascade.wait_root(node)
            cascade.wait_sync(node)
            oracles.assert_same_rows(root.database, node.database, tables)


@pytest.mark.slow
def test_what_only_the_old_root_has_is_exported_then_undone_or_copied_again(
    cascade: Cascade, cluster16: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def londiste(node: Node, *args: str, code: int = 0) -> Answer:
        """In this process, which takes a fraction of the time."""
        capsys.readouterr()
        found = run_command(cli, ["-c", str(node.config), *args])
        answer = Answer(found, *capsys.readouterr())
        assert found == code, answer
        return answer

    n1 = cascade.root("n1", on=cluster16, schema=SCHEMA + DATA)
    n2 = cascade.branch("n2", provider=n1, on=cluster16, schema=SCHEMA)
    n3 = cascade.leaf("n3", provider=n1, on=cluster16, schema=SCHEMA)
    cascade.start_ticker(rotate=False)
    for node in (n2, n3):
        cascade.start_worker(node)
    for node in (n1, n2):
        londiste(node, "add-table", "app.kept", "--trigger-arg", "backup")
    for node in (n1, n2, n3):
        londiste(node, "add-table", "--all")
    for node in (n2, n3):
        londiste(node, "wait-sync")
        londiste(node, "wait-root")
    # Committed, and in no tick that anybody has read.
    n1.database.execute("update pgq.queue set queue_ticker_paused = true")
    n1.database.execute(
        "update app.kept set v = 'lost ' || id where id < 4; delete from app.kept where id = 5;"
        " insert into app.kept values (6, 'lost'); update app.kept set v = 'row 1' where id = 6;"
        " insert into app.numbered (v) values ('lost')"
    )
    with cut_off(n1.database):
        londiste(n2, "takeover", "n1", "--failover")
        n2.database.execute("insert into app.kept values (6, 'new'), (7, 'lost 7')")
        n2.database.execute("update app.plain set v = 'new' where id = 1")
    # It is back, and somebody writes there before its worker has noticed.
    n1.database.execute("update app.plain set v = 'lost' where id in (1, 2)")
    n1.database.execute("select pgq.insert_event('scenario', 'custom', E'a\\nb')")
    n1.database.execute("update pgq.queue set queue_ticker_paused = false")
    path = tmp_path / "lost"
    command = ("resurrect", "--export", str(path))
    planned = londiste(n1, *command, "--dry-run")
    assert "n1: export diverged events" in planned.out
    assert n1.database.value("select queue_disable_insert from pgq.queue") is False
    # As its worker would do.
    n1.database.execute("select pgq_node.fence_root('scenario')")
    told = londiste(n1, *command, "--json", code=3)
    assert "rows of 3 tables were changed on n1 only" in told.err
    lost = json.loads(told.out)["lost"]
    assert lost["events"] == 10 and lost["others"] == {"custom": 1}
    assert {t["name"]: bool(t["obstacle"]) for t in lost["tables"]} == {
        "app.kept": False,
        "app.plain": True,
        "app.numbered": False,
    }
    lines = path.with_suffix(".jsonl")
    head, *events = [json.loads(line) for line in lines.read_text().splitlines()]
    assert (head["node"], head["events"], len(events)) == ("n1", 10, 10)
    assert events[-1]["data"] == "a\nb"
    sql = path.with_suffix(".sql")
    assert 'delete from "app"."kept" where "id" = E\'5\';' in sql.read_text()
    assert {lines.stat().st_mode & 0o777, sql.stat().st_mode & 0o777} == {0o600}
    # Nothing is overwritten, and nothing is done without the files.
    sql.rename(tmp_path / "away")
    sql.write_text("mine")
    refused = londiste(n1, *command, "--undo", "--resync", code=3)
    assert f"{sql} exists and is from another operation" in refused.err
    (tmp_path / "away").rename(sql)
    refused = londiste(n1, *command, "--undo", code=3)
    assert "tables that cannot be undone: app.plain" in refused.err
    assert n1.database.value("select v from app.kept where id = 1") == "lost 1"
    both = (*command, "--undo", "--resync")
    cascade.londiste(n1, *both, accept=[-9], LONDISTE_CRASH="resurrect.before-commit")
    assert n1.database.value("select node_type from pgq_node.node_info") == "root"
    londiste(n2, *both, "--node", "n1")
    assert oracles.rows(n1.database, "app.numbered").total() == 5
    assert "nothing to do" in londiste(n1, *both).err
    cascade.start_worker(n1)
    n2.database.execute("insert into app.numbered (id, v) values (100, 'after')")
    n2.database.execute("update app.kept set v = 'after' where id = 1")
    _equal(cascade, n2)
    for node in (n1, n2, n3):
        assert node.database.value("select count(*) from pgq_node.operation") == 0
        assert node.database.value("select count(*) from pgq_node.node_location where dead") == 0
    with pytest.raises(psycopg.Error) as caught:
        n1.database.execute("insert into app.kept values (9, 'no')")
    assert caught.value.sqlstate == "LD102"
    # It can be the root again, ticks as the last one did, and its sequence repeats nothing.
    n2.database.execute("select pgq.set_queue_config('scenario', 'ticker_max_lag', '7 ms')")
    n2.database.execute("select pgq.set_queue_config('scenario', 'packed_events', 'false')")
    londiste(n1, "switchover")
    assert queue_settings.different(n2.database.connect(), n1.database.connect(), "scenario") == {}
    assert n1.database.value("select queue_ticker_max_lag = '7 ms' from pgq.queue")
    left = n2.database.value("select max(tick_id) from pgq.tick")
    n1.database.execute("insert into app.numbered (v) values ('at home')")
    assert n1.database.value("select max(id) from app.numbered where v = 'at home'") > 6
    _equal(cascade, n1)
    # Its ticks come from the ticker that looks after all nodes; n2 has only copies of them.
    made = "select max(tick_id) > %s from pgq.tick"
    assert n1.database.value(made, left) and n2.database.value(made, left)
    assert n2.database.value("select queue_external_ticker from pgq.queue") is True
    assert n1.database.value("select queue_external_ticker from pgq.queue") is False


@pytest.mark.slow
def test_a_root_that_was_killed_under_load_comes_back(
    cascade: Cascade,
    cluster16: Server,
    new_cluster: Callable[..., Cluster],
    tmp_path: Path,
) -> None:
    own = new_cluster("lost", version=16, settings={"fsync": "on"})
    n1 = cascade.root("n1", on=own, schema=following_writer.SCHEMA + following_writer.DATA)
    n2 = cascade.branch("n2", provider=n1, on=cluster16, schema=following_writer.SCHEMA)
    n3 = cascade.branch("n3", provider=n1, on=cluster16, schema=following_writer.SCHEMA)
    n4 = cascade.leaf("n4", provider=n3, on=cluster16, schema=following_writer.SCHEMA)
    cascade.start_ticker(rotate=False)
    for node in (n1, n2, n3, n4):
        cascade.start_worker(node)
    cascade.add_tables("--all")
    for node in (n2, n3, n4):
        cascade.wait_sync(node)
    for round_number, choice in enumerate(("--resync", "--undo --resync")):
        old, new = (n1, n2) if round_number == 0 else (n2, n1)
        others = [n for n in (n1, n2, n3, n4) if n is not old]
        with Follower([old.database], first=1 + 3_000_000 * round_number) as writer:
            writer.wait(50)
            old.database.execute("update pgq.queue set queue_ticker_paused = true")
            writer.wait(50)
            if old is n1:
                own.stop("immediate")
            elif old.worker is not None:
                old.worker.kill()
            writer._stop.set()
        with contextlib.ExitStack() as stack:
            if old is n2:
                stack.enter_context(cut_off(n2.database))
            cascade.londiste(new, "takeover", old.name, "--failover")
            with Follower([new.database], first=1_000_000 + 3_000_000 * round_number) as writer:
                writer.wait(50)
                confirmed = writer.stop()
        if old is n1:
            own.up()
        old.database.execute("update pgq.queue set queue_ticker_paused = false")
        path = tmp_path / f"lost{round_number}"
        command = ("resurrect", "--node", old.name, "--export", str(path), *choice.split())
        cascade.londiste(
            n3, *command, accept=[-9], seconds=300, LONDISTE_CRASH="resurrect.before-commit"
        )
        with Follower([new.database], first=confirmed + 1) as writer:
            writer.wait(20)
            cascade.londiste(n3, *command, seconds=300)
            if old is n2:
                cascade.start_worker(n2)
            writer.wait(20)
            confirmed = writer.stop()
        lost = path.with_suffix(".jsonl").read_text().splitlines()
        assert len(lost) > 50
        assert path.with_suffix(".sql").stat().st_mode & 0o777 == 0o600
        _equal(cascade, new, following_writer.TABLES)
        assert len(others) == 3
        assert new.database.value("select count(*) from public.written where n = %s", confirmed)
