"""Installation of the SQL is atomic and idempotent."""

from __future__ import annotations

import json
import shlex
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.commands import install_sql
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import connect
from londiste.errors import InstallError, ServerBinariesMissing, StateError
from londiste.install import adopt, apply, compat, ledger, remove
from londiste.install.compat import Compat
from londiste.install.script import script
from londiste.install.source import load
from londiste.replicate.databases import node_of
from tests.fixtures.cluster import Database
from tests.fixtures.sources import ledger_rows, psql, write_component
from tests.support.suite.slow import first
from tests.upgrade.catalog import shape

COMPONENTS = list(load())


def schemas(database: Database) -> set[str]:
    names = database.execute("select nspname::text from pg_namespace")
    return {name for (name,) in names} & set(COMPONENTS)


def test_installing_twice_plans_nothing(database: Database) -> None:
    conn = database.connect()
    assert apply.install(conn)
    before = [ledger_rows(conn, name) for name in COMPONENTS]
    assert apply.install(conn) == []
    assert all(not plan.steps and not plan.leftovers for plan in apply.plan_for(conn))
    assert [ledger_rows(conn, name) for name in COMPONENTS] == before
    assert compat.check(conn, COMPONENTS[-1]) is Compat.SAME


def test_component_installs_exactly_its_requirements(database: Database) -> None:
    apply.install(database.connect(), ["pgq_node"])
    assert schemas(database) == {"pgq", "pgq_node"}


def test_a_dry_run_and_a_script_touch_nothing(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cli, ["install", "--db", database.dsn, "--dry-run"]) == 0
    assert "pgq/tables/" in capsys.readouterr().out
    assert run(cli, ["install", "--sql"]) == 0
    assert "create schema" in capsys.readouterr().out
    assert schemas(database) == set()


def test_second_install_reports_nothing_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cli, ["install", "--db", database.dsn, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer["components"]) == COMPONENTS
    assert answer["done"] is True
    assert {step["action"] for step in answer["steps"]} == {"run", "note"}
    assert run(cli, ["install", "--db", database.dsn, "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing to do\n"


def test_a_file_that_fails_leaves_nothing_and_is_named_with_its_line(
    database: Database, tmp_path: Path
) -> None:
    root = write_component(
        tmp_path,
        "aa",
        "1.0",
        {
            "tables/10_one.sql": "create table aa.one (a int);",
            "functions/two.sql": "select 1;\ncreate functoin aa.two();",
        },
    )
    conn = database.connect()
    with pytest.raises(InstallError, match=r"aa/functions/two.sql, line 2: syntax error") as caught:
        apply.install(conn, root=root)
    assert "nothing of aa was changed" in caught.value.detail
    assert not ledger.read(conn, "aa").schema_exists


def test_deadlock_with_running_sessions_is_retried(database: Database, tmp_path: Path) -> None:
    database.execute("create sequence public.tries")
    fails_once = (
        "create table aa.one (a int); do $$ begin if nextval('public.tries') = 1 then"
        " raise exception using errcode = 'deadlock_detected'; end if; end $$;"
    )
    root = write_component(tmp_path, "aa", "1.0", {"tables/10_one.sql": fails_once})
    conn = database.connect()
    assert apply.install(conn, root=root)
    assert ledger.read(conn, "aa").version == "1.0"


def test_an_upgrade_that_fails_leaves_the_old_version(database: Database, tmp_path: Path) -> None:
    table = {"tables/10_one.sql": "create table aa.one (a int);"}
    conn = database.connect()
    apply.install(conn, root=write_component(tmp_path, "aa", "1.0", table))
    before = ledger_rows(conn, "aa")
    upgrades = {
        "upgrades/1.1/01-b.sql": "alter table aa.one add b int;",
        "upgrades/1.1/02-c.sql": "alter table aa.missing add c int;",
    }
    with pytest.raises(InstallError, match=r"aa/upgrades/1.1/02-c.sql"):
        apply.install(conn, root=write_component(tmp_path, "aa", "1.1", table | upgrades))
    assert ledger_rows(conn, "aa") == before
    assert database.value("select count(*) from pg_attribute where attname = 'b'") == 0


def test_an_upgrade_edited_after_it_ran_is_refused(database: Database, tmp_path: Path) -> None:
    files = {"upgrades/1.0/01-a.sql": "create table aa.a (a int);"}
    conn = database.connect()
    apply.install(conn, root=write_component(tmp_path, "aa", "1.0", files))
    files["upgrades/1.0/01-a.sql"] += " -- one more thing"
    root = write_component(tmp_path, "aa", "1.0", files)
    with pytest.raises(InstallError, match="was changed after its execution"):
        apply.install(conn, root=root)
    refused = psql(database, script(root=root))
    assert refused.returncode == 3
    assert "was changed after its execution" in refused.stderr


def test_a_changed_function_runs_again_and_only_that(database: Database, tmp_path: Path) -> None:
    def source(answer: int) -> Path:
        function = "create or replace function aa.{}() returns int language sql as 'select {}';"
        files = {
            "functions/f.sql": function.format("f", answer),
            "functions/g.sql": function.format("g", 0),
        }
        return write_component(tmp_path, "aa", "1.0", files)

    conn = database.connect()
    apply.install(conn, root=source(1))
    steps = apply.install(conn, root=source(2))
    assert [step.path for step in steps] == ["functions/f.sql"]
    assert database.value("select aa.f()") == 2
    assert psql(database, script(root=source(3))).returncode == 0
    assert database.value("select aa.f()") == 3


def test_incompatible_upgrade_waits_for_its_option(database: Database, tmp_path: Path) -> None:
    old = {"tables/10_one.sql": "create table aa.one (a int, b int);"}
    new = {
        "tables/10_one.sql": "create table aa.one (a int);",
        "upgrades/1.1/after-01-b.sql": "alter table aa.one drop b;",
    }
    conn = database.connect()
    apply.install(conn, root=write_component(tmp_path, "aa", "1.0", old))
    root = write_component(tmp_path, "aa", "1.1", new)
    apply.install(conn, root=root)
    has_b = "select count(*) from pg_attribute where attname = 'b' and not attisdropped"
    assert database.value(has_b) == 1
    (plan,) = apply.plan_for(conn, root=root)
    assert plan.waiting == ("upgrades/1.1/after-01-b.sql",)
    assert psql(database, script(root=root)).returncode == 0
    assert database.value(has_b) == 1
    assert psql(database, script(root=root), "-v", "after=1").returncode == 0
    assert database.value(has_b) == 0
    assert apply.install(conn, root=root, after=True) == []


def test_concurrent_installers_wait_for_each_other(database: Database) -> None:
    results: list[int] = []

    def one() -> None:
        with connect(database.dsn, autocommit=True) as conn:
            results.append(len(apply.install(conn, ["pgq"])))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results)[:3] == [0, 0, 0]
    assert max(results) > 50


def test_databases_of_a_new_server_can_be_installed_at_the_same_time(
    new_cluster: Callable[..., Any],
) -> None:
    server = new_cluster("roles", version=16)
    names = [f"db{number}" for number in range(4)]
    for name in names:
        server.create_database(name)
    failures: list[Exception] = []

    def one(name: str) -> None:
        try:
            with connect(server.dsn(name), autocommit=True) as conn:
                apply.install(conn)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_the_owner_of_a_database_needs_no_superuser(pgq_db: Database, database: Database) -> None:
    # pgq_db is asked for because its installation has made the roles, as an administrator would.
    database.execute(f'create role "{database.name}" login')
    database.execute(f'alter database "{database.name}" owner to "{database.name}"')
    conn = connect(f"{database.dsn} user={database.name}", autocommit=True)
    try:
        assert apply.install(conn)
    finally:
        conn.close()
        database.execute(f'reassign owned by "{database.name}" to postgres')
        database.execute(f'drop owned by "{database.name}"')
        database.execute(f'drop role "{database.name}"')


@pytest.mark.parametrize("version", first([15, 16, 18]))
def test_psql_runs_the_script_and_then_nothing_is_left_to_do(
    version: int, new_cluster: Callable[..., Any]
) -> None:
    try:
        server = new_cluster(f"psql{version}", version=version)
        server.program("psql")
    except ServerBinariesMissing as error:
        pytest.skip(f"no PostgreSQL {version} here: {error}")
    server.create_database("one")
    database = Database(server, "one")
    first = psql(database, script())
    assert (first.returncode, first.stderr, first.stdout) == (0, "", "")
    conn = database.connect()
    assert apply.install(conn) == []
    before = [ledger_rows(conn, name) for name in COMPONENTS]
    second = psql(database, script())
    assert (second.returncode, second.stderr) == (0, "")
    assert [ledger_rows(conn, name) for name in COMPONENTS] == before
    conn.close()


def test_the_script_does_not_depend_on_settings_of_the_database(
    database: Database, new_database: Callable[..., Database]
) -> None:
    usual = new_database(pgq=True)
    for setting in ("standard_conforming_strings = off", "quote_all_identifiers = on"):
        database.execute(f"alter database {database.name} set {setting}")
    for _ in range(2):
        done = psql(database, script())
        assert (done.returncode, done.stderr) == (0, "")
    for schema in COMPONENTS:
        assert shape(database.connect(), schema) == shape(usual.connect(), schema)


def test_a_schema_of_an_extension_is_refused_by_command_and_script(
    database: Database, tmp_path: Path
) -> None:
    # Every database has the extension plpgsql; a component of that name would be its rival.
    root = write_component(tmp_path, "plpgsql", "1.0", {})
    with pytest.raises(InstallError, match="belongs to the extension plpgsql"):
        apply.install(database.connect(), root=root)
    refused = psql(database, script(root=root))
    assert refused.returncode == 3
    assert "belongs to the extension plpgsql" in refused.stderr
    assert "londiste install --adopt" in refused.stderr


def test_foreign_schema_is_refused(database: Database) -> None:
    database.execute("create schema pgq; create table pgq.queue (queue_id int)")
    conn = database.connect()
    for attempt in (apply.install, apply.plan_for):
        with pytest.raises(InstallError, match="schema pgq was not made by londiste install"):
            attempt(conn)
    assert psql(database, script()).returncode == 3
    with pytest.raises(InstallError, match="was not made by londiste install"):
        compat.check(conn, "pgq")


def test_a_schema_that_was_restored_without_its_rows_is_refused(pgq_db: Database) -> None:
    pgq_db.execute("delete from pgq.installed_file")
    conn = pgq_db.connect()
    for attempt in (apply.install, apply.plan_for):
        with pytest.raises(InstallError, match="schema pgq was restored without its rows"):
            attempt(conn)


def test_a_database_without_the_schema_gets_the_command_to_type(database: Database) -> None:
    with pytest.raises(InstallError, match="schema pgq is not installed") as caught:
        compat.check(database.connect(), "londiste")
    assert "londiste install" in caught.value.hint


def test_uninstall_leaves_nothing(pgq_db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    pgq_db.execute("create table mine (id int primary key)")
    pgq_db.execute("select pgq.create_queue('q')")
    pgq_db.execute(
        "create trigger log_it after insert on mine"
        " for each row execute function pgq.logutriga('q')"
    )
    assert run(cli, ["uninstall", "--db", pgq_db.dsn, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "drop trigger log_it on" in out
    assert out.index("schema londiste") < out.index("schema pgq ")
    assert schemas(pgq_db) == set(COMPONENTS)
    assert run(cli, ["uninstall", "--db", pgq_db.dsn]) == 0
    assert schemas(pgq_db) == set()
    assert pgq_db.value("select count(*) from pg_trigger where tgname = 'log_it'") == 0
    pgq_db.execute("insert into mine values (1)")


def test_uninstall_keeps_consumers_without_force(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    pgq_db.execute("select pgq.create_queue('a q'), pgq.register_consumer('a q', 'c')")
    conn = pgq_db.connect()
    assert run(cli, ["uninstall", "--db", pgq_db.dsn]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: queue a q has 1 consumer"
    first, accept = hint.removeprefix("hint: first: londiste ").split("; or accept the loss: ")
    assert accept.endswith(" --allow-data-loss")
    assert schemas(pgq_db) == set(COMPONENTS)
    assert run(cli, shlex.split(first)) == 0
    assert remove.blockers(conn, remove.plan(conn)) == []
    pgq_db.execute("select pgq.register_consumer('a q', 'c')")
    remove.uninstall(conn, force=True)
    assert schemas(pgq_db) == set()
    assert apply.install(conn)


def test_uninstall_names_the_node_to_drop_first_and_both_hints_can_be_pasted(
    pgq_db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(f'[londiste]\ndb = "{pgq_db.dsn}"\nqueue_name = "shop"\n')
    assert run(cli, ["-c", str(file), "create-root", "main"]) == 0
    capsys.readouterr()
    assert run(cli, ["-c", str(file), "uninstall", "londiste", "pgq_node"]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "error: node main of queue shop is in this database"
    drop, accept = (
        f"-c {file} drop-node main",
        "uninstall --allow-data-loss londiste pgq_node",
    )
    assert hint == f"hint: first: londiste {drop}; or accept the loss: londiste -c {file} {accept}"
    assert run(cli, shlex.split(drop)) == 0
    assert run(cli, ["-c", str(file), "uninstall"]) == 0
    assert schemas(pgq_db) == set()


def test_a_position_of_a_consumer_elsewhere_is_not_lost_silently(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq_ext.set_batch_done('c', 1), pgq_ext.set_event_done('c', 2, 1)")
    conn.execute("select pgq_ext.set_last_tick('d', 'worker', 1)")
    with pytest.raises(StateError, match="consumer c keeps its position") as caught:
        remove.uninstall(conn, ["pgq_ext"])
    assert "consumer d keeps its position in this database" in caught.value.detail
    assert "unregister the consumers" in caught.value.hint
    remove.uninstall(conn, ["pgq_ext"], force=True)
    assert "pgq_ext" not in schemas(pgq_db)
    assert "pgq" in schemas(pgq_db)


def test_a_database_is_no_node_while_only_the_queue_is_installed(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert install_sql.has_nodes(conn)
    remove.uninstall(conn, ["pgq_node", "londiste"])
    assert install_sql.installed(conn)
    assert not install_sql.has_nodes(conn)
    assert node_of(conn, "q") is None


def test_required_component_is_not_removed_alone(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    with pytest.raises(InstallError, match="component pgq_node needs pgq") as caught:
        remove.uninstall(conn, ["pgq"])
    assert caught.value.hint == (
        "remove all dependent components: londiste uninstall pgq_coop londiste pgq_node pgq"
    )
    remove.uninstall(conn, ["londiste"])
    assert "pgq_node" in schemas(pgq_db)
    assert "londiste" not in schemas(pgq_db)


def test_a_folder_without_component_file_is_no_component(tmp_path: Path) -> None:
    root = write_component(tmp_path, "aa", "1.0", {})
    shutil.copytree(root / "aa", root / "notes")
    (root / "notes" / "component.toml").unlink()
    assert list(load(root)) == ["aa"]


def test_londiste3_consumers_get_a_hint_with_grants(pgq_db: Database) -> None:
    names = [f"{kind}_{pgq_db.name}" for kind in ("reader", "writer", "stranger")]
    with pgq_db.connect() as conn:
        for name, of in zip(names, ("in role pgq_reader", "in role pgq_writer", ""), strict=True):
            conn.execute(f"create role {name} login {of}")
        try:
            assert adopt.grants(conn, ["pgq"]) == []
            wanted = adopt.grants(conn, ["pgq", "pgq_ext", "pgq_coop"])
            assert wanted == [f"grant pgq_reader to {names[1]}", f"grant pgq_writer to {names[0]}"]
            for statement in wanted:
                conn.execute(statement.encode())
            assert adopt.grants(conn, ["pgq", "pgq_ext", "pgq_coop"]) == []
        finally:
            for name in names:
                conn.execute(f"drop role {name}")


def test_keys_that_only_the_sql_remembers_forbid_its_removal(pgq_db: Database) -> None:
    pgq_db.execute(
        "create table a (id int primary key); create table b (id int);"
        " select londiste.add_pending_fkey('public.b', 'public.a', 'b_to_a',"
        " 'ALTER TABLE ONLY public.b ADD CONSTRAINT b_to_a FOREIGN KEY (id) REFERENCES public.a');"
        " select londiste.add_pending_fkey('public.b', 'public.gone', 'b_to_gone', 'alter table')"
    )
    conn = pgq_db.connect()
    with pytest.raises(StateError) as caught:
        remove.uninstall(conn)
    assert "ADD CONSTRAINT b_to_a FOREIGN KEY (id) REFERENCES public.a;" in str(caught.value)
    assert "b_to_gone" not in f"{caught.value} {caught.value.detail}"
    assert remove.uninstall(conn, force=True)


def test_install_brings_the_queue_without_replication(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cli, ["queue", "install", "--db", database.dsn, "--dry-run"]) == 0
    assert database.value("select to_regnamespace('pgq')") is None
    assert run(cli, ["queue", "install", "--db", database.dsn]) == 0
    assert database.value("select pgq.version()")
    assert database.value("select to_regnamespace('londiste')") is None
