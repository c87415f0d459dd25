"""``londiste replicate``: one command from two connection strings to the first row."""

from __future__ import annotations

import os
import signal
import stat
import sys
import tomllib
from collections.abc import Sequence

import psycopg
import pytest
from psycopg import conninfo

from londiste.daemon.pidfile import PidFile
from tests.fixtures.cluster import Database, Server
from tests.support.replicating import (
    SCHEMA,
    TABLES,
    Replicate,
    catalog,
    odd_database,
    wait_rows,
)
from tests.support.scenarios import oracles, relocation
from tests.support.scenarios.harness import Cascade
from tests.support.suite.slow import first


def test_one_command_replicates_a_database_with_odd_names(
    cascade: Cascade, cluster: Server
) -> None:
    source = odd_database(cascade, 'My "first" shop', cluster)
    target = odd_database(cascade, "Its copy's", cluster)
    source.execute(SCHEMA)
    command = Replicate(cascade, source, target)
    shown = command.run("--dry-run").out
    assert "create leaf, provider my_first_shop" in shown
    assert target.value("select to_regnamespace('pgq')") is None
    done = command.run("--once")
    assert "in sync, all tables are equal" in done.err
    assert [line.split()[-3] for line in done.out.splitlines()[1:]] == ["yes"] * len(TABLES)
    oracles.assert_same_rows(source, target, TABLES)
    # The sequence of the column came with the table.
    assert target.value("select count(*) from pg_sequences where schemaname = 'My \"shop\"'") == 1


def test_a_live_replication_follows_and_a_repeated_command_adds_tables(cascade: Cascade) -> None:
    source, target = cascade.make_database(), cascade.make_database()
    source.execute(SCHEMA)
    before = catalog(source)
    command = Replicate(cascade, source, target)
    file = cascade.directory / "londiste.toml"
    process = command.start("public.*", "--exclude", "public.history", "--save", str(file))
    wait_rows(target, "select count(*) from public.customer", 100)
    source.execute("insert into public.customer (name) values ('new')")
    wait_rows(target, "select count(*) from public.customer", 101)
    cascade.wait(lambda: "in sync, 1 table" in process.said(), "the line of the node")
    process.send(signal.SIGINT)
    assert process.wait() == 0
    said = process.said()
    for word in ("continue:", "continue in the background:", "remove everything:"):
        assert f"{word.ljust(27)} londiste replicate" in said
    assert "the source keeps the events until then" in said
    # It is there.
    assert "settings of other commands:" not in said
    assert tomllib.loads(file.read_text())["tables"]["exclude"] == ["public.history"]
    assert cascade.processes.find("worker") == []
    assert target.value("select to_regclass('public.history')") is None
    done = command.run("public.history", "--once")
    assert "in sync, all tables are equal" in done.err
    assert "removed" in command.run("--remove").err
    assert catalog(source) == before
    left = {schema for kind, schema, _ in catalog(target) if kind == "schema"}
    assert left == {"information_schema", "pg_catalog", "public"}
    assert target.value("select count(*) from public.history") == 2
    # Rows that somebody else may have written are not replaced.
    refused = command.run("--once", accept=[3])
    assert "public.customer" in refused.err and "truncate" in refused.err


@pytest.mark.slow
def test_a_database_of_another_encoding_is_replicated(cascade: Cascade, cluster: Server) -> None:
    more = "encoding 'LATIN1' locale 'C' template template0"
    source = odd_database(cascade, "old shop", cluster, more)
    target = cascade.make_database()
    with psycopg.connect(source.dsn, client_encoding="UTF8", autocommit=True) as old:
        old.execute(
            'create table "étage" ("numéro" text primary key, "prénom" text);'
            " insert into \"étage\" select 'é' || g, 'ü' from generate_series(1, 9) g"
        )
        process = Replicate(cascade, source, target).start("public.*")
        wait_rows(target, 'select count(*) from public."étage"', 9)
        old.execute(
            "insert into \"étage\" values ('ß', 'Zoë'); update \"étage\" set \"prénom\" = 'ï'"
            ' where "numéro" = \'é3\'; delete from "étage" where "numéro" = \'é5\''
        )
        wait_rows(target, 'select count(*) from public."étage" where "prénom" <> \'ü\'', 2)
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.said()
        asked = 'select * from public."étage"'
        assert sorted(target.execute(asked)) == sorted(old.execute(asked).fetchall())


@pytest.mark.slow
def test_a_copy_of_another_encoding_is_compared_and_repaired(
    cascade: Cascade, cluster: Server
) -> None:
    more = "encoding 'LATIN1' locale 'C' template template0"
    source = odd_database(cascade, "shop", cluster, more)
    target = cascade.make_database()
    with psycopg.connect(source.dsn, client_encoding="UTF8", autocommit=True) as old:
        # More rows than a comparison looks at one by one.
        old.execute(
            "create table t (id text primary key, v text); create table loose (v text);"
            " insert into t select 'é' || g, 'ü' from generate_series(1, 3000) g;"
            " insert into loose select 'é' || g from generate_series(1, 20) g"
        )
        saved = cascade.directory / "shop.toml"
        command = Replicate(cascade, source, target)
        process = command.start("public.*", "--save", str(saved))
        wait_rows(target, "select count(*) from londiste.table_info where merge_state = 'ok'", 2)
        target.execute(
            "set session_replication_role = replica; update loose set v = 'x' where v = 'é7'"
        )
        (node,) = [
            name
            for name, keys in tomllib.loads(saved.read_text())["nodes"].items()
            if keys["role"] == "leaf"
        ]
        words = [sys.executable, "-m", "londiste", "-c", str(saved), "--node", node]
        repaired = cascade.processes.run([*words, "repair", "public.loose", "--apply"])
        assert repaired.code == 0, repaired
        process.send(signal.SIGINT)
        assert process.wait() == 0, process.said()
        assert "in sync, all tables are equal" in command.run("--once").err
        asked = "select v from public.loose"
        assert sorted(target.execute(asked)) == sorted(old.execute(asked).fetchall())


@pytest.mark.parametrize("steps", [(3,), pytest.param((1, 2, 4, 3), marks=pytest.mark.slow)])
def test_it_goes_on_after_a_kill_in_the_middle_and_is_removed_without_a_trace(
    cascade: Cascade, steps: tuple[int, ...]
) -> None:
    source, target = cascade.make_database(), cascade.make_database()
    source.execute(SCHEMA)
    before = [catalog(source), catalog(target)]
    command = Replicate(cascade, source, target)
    # Killed after some of the first steps, and then while it copies.
    for step in steps:
        done = command.run("--once", accept=None, LONDISTE_CRASH=f"plan.after-step:{step}")
        assert done.code == -signal.SIGKILL, str(done)
    process = command.start()
    cascade.wait(lambda: cascade.processes.find("worker"), "the workers")
    process.kill()
    cascade.wait(lambda: not cascade.processes.find("worker"), "the end of the workers")
    command.run("--once")
    oracles.assert_same_rows(source, target, TABLES)
    # Something that others made of a created table is named, and nothing is lost.
    target.execute("create view public.names as select name from public.customer")
    refused = command.run("--remove", "--drop-tables", accept=[3])
    assert "view public.names depends on table public.customer" in refused.err
    assert target.value("select count(*) from public.customer") == 100
    target.execute("drop view public.names")
    assert "removed" in command.run("--remove", "--drop-tables").err
    assert [catalog(source), catalog(target)] == before
    assert "nothing to remove" in command.run("--remove").err


def _give(databases: Sequence[Database], dsns: Sequence[str]) -> None:
    """Everything in the databases belongs to the users of the connection strings."""
    for database, dsn in zip(databases, dsns, strict=True):
        role = conninfo.conninfo_to_dict(dsn)["user"]
        owned = database.execute(
            "select format('alter %s %s owner to', i.type, i.identity)"
            " from pg_class c, pg_identify_object(c.tableoid, c.oid, 0) i"
            " where c.relkind = 'r' and i.schema in ('public', quote_ident('My \"shop\"'))"
            " union all select format('alter schema %I owner to', nspname) from pg_namespace"
            " where nspname in ('public', 'My \"shop\"')"
            " union all select format('alter type %s owner to', i.identity)"
            " from pg_type t, pg_identify_object(t.tableoid, t.oid, 0) i where t.typtype = 'e'"
            " and i.schema = quote_ident('My \"shop\"')"
        )
        for (statement,) in owned:
            database.execute(f'{statement} "{role}"')


@pytest.mark.slow
def test_two_targets_in_the_background_of_a_role_that_is_no_superuser(cascade: Cascade) -> None:
    # The group roles exist on the server.
    cascade.make_database(pgq=True)
    databases = [cascade.make_database() for _ in range(3)]
    source, *targets = databases
    source.execute(SCHEMA)
    command = Replicate(cascade, source, targets[0], also=[targets[1]])
    command.dsns = [relocation.owner(one) for one in databases]
    passwords = [conninfo.conninfo_to_dict(dsn)["password"] for dsn in command.dsns]
    _give(databases, command.dsns)
    before = [catalog(one) for one in databases]
    refused = command.run("--detach", accept=[3])
    assert "session_replication_role" in refused.err, refused.err
    role = conninfo.conninfo_to_dict(command.dsns[0])["user"]
    assert f'grant londiste_writer to "{role}"' in refused.err
    assert [catalog(one) for one in databases] == before
    source.execute(f'grant londiste_writer to "{role}"')
    for one in command.dsns[1:]:
        role = conninfo.conninfo_to_dict(one)["user"]
        source.execute(f'grant set on parameter session_replication_role to "{role}"')
    started = command.run("--detach")
    assert "--also" in started.err and "--stop" in started.err
    for target in targets:
        wait_rows(target, "select count(*) from public.customer", 100)
    assert "already running" in command.run("--detach").err
    shown = command.run("--status")
    assert len(shown.out.splitlines()) == 3 and "not running" not in shown.err
    # Given again it names that process and ends, and its end does not end the replication.
    assert "already running in the background" in command.run().err
    cascade.wait(
        lambda: command.run("--status").out.count("in sync, 3 tables") == 2,
        "the lines of the nodes",
    )
    said = [started.err, shown.out, shown.err]
    said += [path.read_text() for path in command.state.iterdir()]
    said += cascade.processes.living().values()
    assert not any(password in text for password in passwords for text in said)
    assert {stat.S_IMODE(command.state.stat().st_mode)} == {0o700}
    assert "stopped process" in command.run("--stop").err
    cascade.wait(lambda: not cascade.processes.living(), "the end of the process")
    # Whatever is asked for then, the answer contains the command that starts it again.
    command_of = started.err.split("look:")[1].splitlines()[0].strip().removesuffix(" --status")
    stopped, twice = command.run("--status").err, command.run("--stop").err
    assert "not running: ticker" in stopped and f"start: {command_of} --detach\n" in stopped
    assert "no process replicates" in twice and f"start it: {command_of} --detach\n" in twice
    (log,) = command.state.glob("*.log")
    with PidFile(log.with_suffix(".pid")):
        assert f"process {os.getpid()} starts ticker" in command.run("--status").err
    # One of them can go alone.
    single = Replicate(cascade, source, targets[1])
    single.dsns = [command.dsns[0], command.dsns[2]]
    assert "kept" in single.run("--remove").err
    assert targets[1].value("select count(*) from public.customer") == 100


@pytest.mark.parametrize("options", first([["--once"], ["--dry-run", "--once", "--status"]]))
def test_tables_that_cannot_be_replicated_are_named_each_time(
    cascade: Cascade, options: list[str]
) -> None:
    source, target = cascade.make_database(), cascade.make_database()
    source.execute(
        'create schema "a.b"; create table "a.b".t (id int primary key);'
        " create unlogged table u (id int primary key); create table ok (id int primary key);"
        ' create schema "c.d"; create table "c.d".v (id int primary key)'
    )
    command = Replicate(cascade, source, target)
    for option in options:
        done = command.run("--exclude", "c.d.*", option)
        assert "table a.b.t cannot be replicated: the name of its schema" in done.err
        assert "table public.u cannot be replicated: unlogged" in done.err
        assert "table c.d" not in done.err and "all tables are equal" not in done.err
        if option == "--once":
            end = "equal; 2 tables are not replicated: a.b.t, public.u"
            assert done.err.rstrip().endswith(end)
