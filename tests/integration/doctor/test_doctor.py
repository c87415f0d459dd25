"""Each defect is found with a remedy; after the remedy a pair has no finding."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.install.apply import install
from londiste.monitor.doctor.examine import examine
from londiste.monitor.doctor.situation import DoctorLimits
from londiste.monitor.queues.model import Finding
from tests.fixtures.cluster import Database, Server, create_database, template
from tests.fixtures.sources import psql
from tests.integration.doctor.damages import DAMAGES, ROWS, STRUCTURE
from tests.support.servers.pooler import Pooler
from tests.support.suite.slow import first, only

ROLE, PASSWORD = f"doctor_{os.getpid()}", "doctor"

#: What an ordinary role needs, by a word for each.
GRANTS = {
    "tables": "grant doctor_owner to {user}",
    "create on database": "grant create on database {db} to {user}",
    "create on schema public": "grant create on schema public to {user}",
    "londiste_writer": "grant londiste_writer to {user}",
    "replica": "grant set on parameter session_replication_role to {user}",
    "pg_read_all_stats": "grant pg_read_all_stats to {user}",
    "pg_read_all_settings": "grant pg_read_all_settings to {user}",
}


@dataclass
class Pair:
    """A source and a target, and the role that examines them."""

    source: Database
    target: Database
    role: str | None = None

    def dsn(self, side: str) -> str:
        dsn: str = getattr(self, side).dsn
        if self.role is None:
            return dsn
        return conninfo.make_conninfo(dsn, user=self.role, password=PASSWORD)

    def execute(self, side: str, text: str) -> None:
        database: Database = getattr(self, side)
        user = self.role or "postgres"
        database.execute(text.replace("{db}", database.name).replace("{user}", user))

    def examine(self, **options: Any) -> list[Finding]:
        return examine(self.dsn("source"), self.dsn("target"), **options)

    def repair(self, findings: list[Finding]) -> None:
        """Runs what the findings say."""
        for one in findings:
            database: Database = getattr(self, one.side)
            with psycopg.connect(database.dsn, autocommit=True) as conn:
                for statement in one.sql:
                    conn.execute(statement.encode())

    def admit_role(self, lacks: str) -> None:
        """From now on an ordinary role examines."""
        self.role = ROLE
        self.source.execute(f"create role {ROLE} login password '{PASSWORD}'")
        for word, grant in GRANTS.items():
            if word != lacks:
                self.execute("source", grant)
                self.execute("target", grant)

    def drop(self) -> None:
        for database in (self.source, self.target):
            if self.role is not None:
                database.execute(f"drop owned by {ROLE}")
            database.drop()


@pytest.fixture(scope="module")
def templates(cluster: Server) -> Iterator[tuple[Database, Database]]:
    """A source and a target without any defect."""
    template(cluster)  # the group roles
    made = create_database(cluster, pgq=False), create_database(cluster, pgq=False)
    for role in ("doctor_owner", "doctor_other"):
        made[0].execute(
            f"do $$ begin create role {role} nologin;"
            " exception when duplicate_object then null; end $$"
        )
    for database, more in zip(made, (ROWS, ""), strict=True):
        database.execute(f"{STRUCTURE}; {more}; alter table item owner to doctor_owner;")
        database.execute("alter table note owner to doctor_owner")
    yield made
    for database in made:
        database.drop()


@pytest.fixture
def pair(cluster: Server, templates: tuple[Database, Database]) -> Iterator[Pair]:
    made = Pair(*(_clone(cluster, one) for one in templates))
    yield made
    made.drop()
    if made.role is not None:
        templates[0].execute(f"drop owned by {ROLE}; drop role {ROLE}")


def _clone(cluster: Server, one: Database) -> Database:
    name = f"{one.name}_clone"
    one.clone(name)
    return Database(cluster, name)


def kinds(findings: list[Finding]) -> set[str]:
    return {one.kind for one in findings}


@pytest.mark.parametrize("role", first([True, False]))
def test_a_healthy_pair_has_no_finding(pair: Pair, role: bool) -> None:
    if role:
        pair.admit_role("")
    assert pair.examine() == []
    # Also with the SQL on both sides.
    for database in (pair.source, pair.target):
        install(database.connect())
    assert pair.examine() == []


#: Those of which the finding and its remedy are those of another one.
TWINS = (
    "target read only",
    "idle sessions end",
    "captures do not fire",
    "commits without flush",
    "no tables in public",
    "no key",
    "no key but a unique constraint",
    "further column",
    "no identity there",
    "unlogged there",
    "narrow type",
)


@pytest.mark.parametrize("name", only(DAMAGES, *(name for name in DAMAGES if name not in TWINS)))
def test_a_defect_is_found_and_its_remedy_removes_it(
    name: str, pair: Pair, cluster: Server, templates: tuple[Database, Database]
) -> None:
    damage = DAMAGES[name]
    if name.startswith("extension") and not templates[0].value(
        "select exists (select from pg_available_extensions where name = 'vector')"
    ):
        pytest.skip("the server does not offer the extension vector")
    if damage.role:
        pair.admit_role(damage.lacks)
    if damage.session:
        pair.source.connect()
    if damage.create:
        pair.target.drop()
        _create(pair.target, damage.create)
    pair.execute("source", damage.source)
    pair.execute("target", damage.target)

    found = pair.examine()
    assert kinds(found) == {damage.kind}, found
    assert {one.severity.word for one in found} == {damage.level}
    assert all(one.do and one.why for one in found)

    if damage.create:
        pair.target.drop()
        templates[1].clone(pair.target.name)
    elif damage.remedy is not None:
        assert not any(one.sql for one in found)
        pair.execute(*damage.remedy)
    else:
        assert all(one.sql for one in found)
        pair.repair(found)
        # A remedy may leave a lesser finding.
        less = pair.examine()
        assert [one for one in less if one.severity.word == damage.level] == []
        if not less:
            return
        pair.repair(less)
    assert pair.examine() == []


def _create(database: Database, options: str) -> None:
    with psycopg.connect(database.cluster.dsn(), autocommit=True) as conn:
        conn.execute(f"create database {database.name} template template0 {options}".encode())


def test_prepared_transactions_and_temporary_tables(pair: Pair) -> None:
    conn = pair.source.connect(autocommit=False)
    conn.execute("create temporary table scratch (id int)")
    conn.commit()
    other = pair.source.connect()
    other.execute(
        "begin; insert into public.item (name) values ('p'); prepare transaction 'doctor'"
    )
    found = pair.examine(tables=["item", "scratch"])
    assert kinds(found) == {"prepared", "temporary"}
    assert kinds(pair.examine()) == {"prepared"}
    other.execute("rollback prepared 'doctor'")
    conn.close()
    assert pair.examine(tables=["item", "scratch"], exclude=["note"]) == []


def test_a_long_transaction_is_found_and_ended(pair: Pair) -> None:
    conn = pair.source.connect(autocommit=False)
    conn.execute("insert into public.item (name) values ('open')")
    assert pair.examine() == []
    found = pair.examine(limits=DoctorLimits(transaction=0))
    assert kinds(found) == {"transaction"}
    pair.repair(found)
    assert pair.examine(limits=DoctorLimits(transaction=0)) == []


def test_findings_about_tables_that_are_not_wanted_are_absent(pair: Pair) -> None:
    pair.execute("source", "create table log (line text); create unlogged table fast (id int)")
    assert kinds(pair.examine()) == {"key", "unlogged"}
    assert kinds(pair.examine(tables=["l*"])) == {"key"}
    assert pair.examine(exclude=["log", "fast"]) == []


def test_a_database_that_cannot_be_reached_is_a_finding(pair: Pair) -> None:
    wrong = conninfo.make_conninfo(pair.target.dsn, dbname="there_is_none")
    found = examine(pair.source.dsn, wrong)
    assert [(one.kind, one.side) for one in found] == [("unreachable", "target")]
    deaf = conninfo.make_conninfo(pair.target.dsn, host="127.0.0.1", port="1", hostaddr="127.0.0.1")
    assert kinds(examine(pair.source.dsn, deaf)) == {"unreachable"}
    assert kinds(examine(pair.source.dsn, pair.source.dsn)) >= {"same-database"}


def test_a_pooler_in_transaction_mode_is_found(pair: Pair, pooler: Callable[..., Pooler]) -> None:
    shared = pooler("transaction", pair.target)
    found = examine(pair.source.dsn, shared.dsn(pair.target))
    assert [(one.kind, one.side) for one in found] == [("pooler", "target")]
    # The remedy: a connection to the server itself.
    assert pair.examine() == []


def test_sql_of_another_release_is_found_and_upgraded(pair: Pair) -> None:
    install(pair.target.connect())
    pair.execute(
        "target",
        "update pgq.installed_file set sha256 = 'x' where path like 'functions/%version.sql'",
    )
    (one,) = pair.examine()
    assert (one.kind, one.side, one.sql) == ("sql-version", "target", ())
    assert run(cli, shlex.split(one.command)[1:]) == 0
    assert pair.examine() == []


def test_the_command_prints_findings_and_a_script_that_repairs(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    # It changes how names and types are printed, not what they are.
    pair.execute("target", "alter database {db} set quote_all_identifiers = on")
    call = ["doctor", pair.source.dsn, pair.target.dsn, "--engine", "local"]
    assert run(cli, call) == 0
    assert capsys.readouterr().err.strip() == "no findings"

    pair.execute("source", "create table log (line text); insert into log values ('x')")
    pair.execute("source", "alter database {db} set synchronous_commit = off")
    assert run(cli, call) == 1
    pair.execute("target", "alter table note drop body cascade; insert into item (name) values (1)")
    assert run(cli, call) == 2
    out = capsys.readouterr().out
    assert (
        "critical: table public.note has no column body in the target database [structure]" in out
    )

    assert run(cli, [*call, "--json"]) == 2
    rows = json.loads(capsys.readouterr().out)["findings"]
    assert {row["id"] for row in rows} == {"key", "synchronous-commit", "structure", "rows"}
    assert all(row["sql"] and row["side"] and row["severity"] for row in rows)

    assert run(cli, [*call, "--fix-sql"]) == 2
    script = capsys.readouterr().out
    done = psql(pair.source, script, "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 0, done.stderr
    # Rows are deleted by hand only.
    assert kinds(pair.examine()) == {"rows"}
    assert pair.target.value("select count(*) from item") == 1
    assert '-- truncate "public"."item";' in script


def test_a_table_that_another_session_has_locked_is_named_and_the_rest_is_examined(
    pair: Pair,
) -> None:
    pair.execute("source", "create table log (line text); create view lines as table log")
    pair.execute("target", "create table item2 (id int primary key)")
    pair.execute("source", "create table item2 (id int primary key, more int)")
    for side, table, others in (
        ("source", "log", {"key", "structure"}),
        ("target", "item2", {"key", "structure"}),
    ):
        database: Database = getattr(pair, side)
        with database.connect(name="vacuum full", autocommit=False) as other:
            other.execute(f"lock table public.{table}")
            found = pair.examine()
            assert kinds(found) == {"unreadable", *others}
            (one,) = [one for one in found if one.kind == "unreadable"]
            assert (one.side, one.object, one.sql) == (side, f"public.{table}", ())
            assert "is locked by vacuum full of postgres" in one.what
            assert f"select pg_terminate_backend({other.info.backend_pid})" in one.do
        assert kinds(pair.examine()) == others


def test_an_administrator_runs_the_script_of_a_user_who_lacks_rights(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.admit_role("create on database")
    pair.execute("source", "create table mine (line text); alter table mine owner to {user}")
    call = ["doctor", pair.dsn("source"), pair.dsn("target"), "--fix-sql"]
    assert run(cli, call) == 2
    script = capsys.readouterr().out
    assert PASSWORD not in script.replace(ROLE, "")
    done = psql(pair.target, script, "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 0, (done.stderr, script)
    assert run(cli, call[:-1]) == 0, capsys.readouterr().out


def test_the_command_takes_node_and_provider_from_the_settings(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "target.toml"
    path.write_text(
        f'[londiste]\nqueue_name = "q"\njob_name = "w"\ndb = "{pair.target.dsn}"\n'
        f'initial_provider_location = "{pair.source.dsn}"\nengine = "local"\n'
    )
    pair.execute("target", "alter table item drop column price")
    assert run(cli, ["-c", str(path), "doctor"]) == 2
    assert "[structure]" in capsys.readouterr().out
    assert run(cli, ["-c", str(path), "doctor", pair.target.dsn]) == 0
