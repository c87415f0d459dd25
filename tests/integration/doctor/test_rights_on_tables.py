"""Tables of other roles and row-level security: what lacks is named before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import conninfo

from londiste.db.connection import Connection, connect
from londiste.db.names import TableName
from londiste.errors import from_database
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.examine import run_checks
from londiste.monitor.doctor.preflight import table_findings
from londiste.monitor.doctor.situation import Situation
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.fixtures.cluster import Database

ROLE, OWNER = f"rights_{os.getpid()}", f"rights_owner_{os.getpid()}"
TABLE = "create table t (id int primary key, v text)"
T = TableName("public", "t")


@pytest.fixture
def leaf(nodes_of: Nodes, londiste: CommandLine) -> Iterator[Node]:
    """A leaf whose table belongs to another role than the user of its worker."""
    root = nodes_of.root()
    root.db.execute(TABLE)
    assert londiste(root.db, "add-table", "t").code == 0
    node = nodes_of.below(root, "leaf")
    node.db.execute(
        f"create role {ROLE} login password 'x' in role londiste_writer; create role {OWNER};"
        f" {TABLE}; alter table t owner to {OWNER}; grant all on t to {ROLE};"
        f" grant create on schema public to {ROLE}"
    )
    yield node
    node.db.execute(f"drop owned by {ROLE}, {OWNER}; drop role {ROLE}; drop role {OWNER}")


def as_role(db: Database) -> str:
    return conninfo.make_conninfo(db.dsn, user=ROLE, password="x")


@pytest.mark.parametrize("more", [[], ["--expect-sync"]])
def test_a_table_of_another_role_is_refused_with_the_statement_that_helps(
    leaf: Node, londiste: CommandLine, more: list[str]
) -> None:
    call = ["--set", f"db={as_role(leaf.db)}", "add-table", "t", *more]
    done = londiste(leaf.db, *call)
    assert done.code == 2, str(done)
    assert f"table public.t belongs to {OWNER}, and {ROLE} has not the rights" in done.err
    assert leaf.db.value("select count(*) from londiste.table_info where local") == 0
    leaf.db.execute(done.err.partition("hint: as an administrator of ")[2].partition(": ")[2])
    done = londiste(leaf.db, *call)
    assert done.code == 0, str(done)


def test_a_member_that_inherits_nothing_gets_statements_that_give_the_rights(leaf: Node) -> None:
    leaf.db.execute(
        f"create schema hidden authorization {OWNER}; set role {OWNER};"
        " create domain hidden.d as int; create table hidden.t (id hidden.d primary key);"
        f" reset role; alter role {ROLE} noinherit; grant {OWNER} to {ROLE}"
    )
    try:
        with connect(as_role(leaf.db), name="test", autocommit=True) as conn:

            def found() -> list[str]:
                facts = collect.examine(conn, as_role(leaf.db), rows=True)
                findings = [one for one in run_checks(Situation(facts)) if one.kind == "owner"]
                return [statement for one in findings for statement in one.sql]

            (statement,) = found()
            leaf.db.execute(statement)
            assert found() == []
    finally:
        leaf.db.execute("drop schema hidden cascade")


def test_errors_about_owners_and_policies_name_what_helps(leaf: Node) -> None:
    leaf.db.execute("alter table t enable row level security")
    with connect(as_role(leaf.db), name="test", autocommit=True) as conn:
        for statement, words in (
            (
                "alter table public.t add column c int",
                f'alter table t owner to "{ROLE}"; or make "{ROLE}" a member',
            ),
            ("select from public.t", f'alter role "{ROLE}" bypassrls'),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
                conn.execute(statement.encode())
            hint = from_database(raised.value).hint or ""
            assert words in hint
            assert "pgq_writer" not in hint


def test_errors_about_other_rights_name_what_grants_them(leaf: Node) -> None:
    leaf.db.execute(
        "create schema sales; create table sales.t (a int); create schema londiste_apply"
    )
    writer = f'grant londiste_writer to "{ROLE}", if it is that of commands and daemons'
    try:
        with connect(as_role(leaf.db), name="test", autocommit=True) as conn:
            # The role of nodes goes in between.
            for revoked, statement, words in (
                ("", "select from sales.t", f'grant usage on schema "sales" to "{ROLE}";'),
                ("", "select londiste_apply.x()", "drop schema londiste_apply cascade; the worker"),
                ("", "create table londiste.x (a int)", "run it as the owner of schema londiste"),
                ("londiste_writer", "select pgq_node.get_node_info('q')", writer),
                ("", "select from londiste.apply_error", writer),
                ("", "create function londiste_capture.x() returns int return 1", writer),
            ):
                if revoked:
                    leaf.db.execute(f"revoke {revoked} from {ROLE}")
                with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
                    conn.execute(statement.encode())
                hint = from_database(raised.value).hint or ""
                assert words in hint, (statement, hint)
    finally:
        leaf.db.execute(f"drop schema sales cascade; grant londiste_writer to {ROLE}")


def refused(conn: Connection, statement: str) -> str:
    """The hint for a statement that the server refuses."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as raised:
        conn.execute(statement.encode())
    return from_database(raised.value).hint


def test_an_owner_whom_the_user_cannot_become_is_granted_with_set(leaf: Node) -> None:
    version = leaf.db.value("select current_setting('server_version_num')::int")
    more = "with inherit true, set false" if version >= 160000 else ""
    leaf.db.execute(
        f"do $$ begin execute format('grant create on database %I to {ROLE}', current_database());"
        f" end $$; {f'grant {OWNER} to {ROLE} {more}' if more else ''}"
    )
    call = f"select londiste._owner_function('{OWNER}'::regrole)"
    with connect(as_role(leaf.db), name="test", autocommit=True) as conn:
        hint = refused(conn, call)
        leaf.db.execute(hint.removeprefix("as an administrator: ").partition(";")[0])
        conn.execute(call.encode())


def test_a_member_without_the_rights_of_its_role_gets_them_by_the_hint(leaf: Node) -> None:
    version = leaf.db.value("select current_setting('server_version_num')::int")
    leaf.db.execute(
        f"revoke londiste_writer from {ROLE}; alter role {ROLE} noinherit;"
        f" grant londiste_writer to {ROLE}"
    )
    call = "select pgq_node.get_node_info('q')"
    with connect(as_role(leaf.db), name="test", autocommit=True) as conn:
        both = refused(conn, call).partition("that does not inherit its rights: ")[2]
        now, _, earlier = both.partition("; before PostgreSQL 16: ")
        leaf.db.execute(now if version >= 160000 else earlier)
        conn.execute(call.encode())


def test_a_condition_of_compare_is_not_to_blame_for_a_policy(
    leaf: Node, londiste: CommandLine
) -> None:
    assert londiste(leaf.db, "add-table", "t", "--expect-sync").code == 0
    leaf.db.execute("alter table t enable row level security")
    done = londiste(leaf.db, "--set", f"db={as_role(leaf.db)}", "compare", "t", "--where", "id > 1")
    assert "row-level security" in done.err, str(done)
    assert "bypassrls" in done.err
    assert "boolean expression" not in done.err


@pytest.mark.parametrize("forced", [False, True])
def test_policies_that_hide_rows_are_found_before_a_table_is_added(
    leaf: Node, new_database: Callable[..., Database], forced: bool
) -> None:
    node = new_database()
    node.execute(TABLE)
    with (
        connect(node.dsn, name="test", autocommit=True) as here,
        connect(as_role(leaf.db), name="test", autocommit=True) as above,
    ):
        assert "policies" not in {one.kind for one in table_findings(here, above, [T])}
        leaf.db.execute("alter table t enable row level security")
        if forced:
            leaf.db.execute("alter table t force row level security")
        (found,) = (one for one in table_findings(here, above, [T]) if one.kind == "policies")
        assert found.what.startswith("table public.t " + ("forces" if forced else "has"))
        assert f"alter role {ROLE} bypassrls" in found.do.replace('"', "")
        leaf.db.execute(f"alter role {ROLE} bypassrls")
    with (
        connect(as_role(leaf.db), name="test", autocommit=True) as above,
        connect(node.dsn, name="test", autocommit=True) as here,
    ):
        assert "policies" not in {one.kind for one in table_findings(here, above, [T])}


def test_a_member_that_may_not_become_the_owner_is_told_before_the_worker_starts(
    leaf: Node, londiste: CommandLine
) -> None:
    with connect(as_role(leaf.db), name="test", autocommit=True) as conn:
        if conn.info.server_version < 160000:
            pytest.skip("a grant has this option since PostgreSQL 16")
        grant = f"grant {OWNER} to {ROLE}"
        leaf.db.execute(f"{grant} with inherit true, set false")
        own = ["--set", f"db={as_role(leaf.db)}"]
        done = londiste(leaf.db, *own, "add-table", "t", "--expect-sync")
        assert done.code == 0 and f"{grant} with set true" in done.err, str(done)

        def found() -> list[str]:
            facts = collect.examine(conn, as_role(leaf.db), rows=True)
            told = [one for one in run_checks(Situation(facts, facts)) if one.kind == "table-owner"]
            checked = londiste(leaf.db, *own, "check", "--json").json["findings"]
            told_by_check = [one["do"] for one in checked if one["kind"] == "table-owner"]
            assert [statement for one in told for statement in one.sql] == told_by_check
            return told_by_check

        (statement,) = found()
        assert statement == f"{grant} with set true"
        leaf.db.execute(statement)
        assert found() == []


def test_every_role_that_an_object_of_a_user_names_is_found(pgq_db: Database) -> None:
    kinds = ("schema", "user", "reader", "column", "function", "type", "policy", "ours")
    role = {kind: f"names_{kind}_{os.getpid()}" for kind in kinds}
    pgq_db.execute("; ".join(f"create role {one}" for one in role.values()))
    try:
        pgq_db.execute(
            f"create schema app authorization {role['schema']};"
            f" grant usage on schema app to {role['user']}, pg_monitor;"
            " create table app.a (id int, v int); create table app.b (id int);"
            f" grant select on app.a, app.b to {role['reader']}, public;"
            f" grant update (v) on app.a to {role['column']};"
            " create function app.f() returns int language sql as 'select 1';"
            f" grant execute on function app.f() to {role['function']};"
            f" create domain app.d as int; grant usage on type app.d to {role['type']};"
            f" create policy p on app.a to {role['policy']}; create policy q on app.a to public;"
            f" grant usage on schema londiste to {role['ours']};"
            f" grant select on londiste.table_info to {role['ours']}"
        )
        found = collect.collect_tables(pgq_db.connect()).named_roles
        assert found - {"postgres"} == {*role.values()} - {role["ours"]}
    finally:
        every = ", ".join(role.values())
        pgq_db.execute(f"drop owned by {every} cascade; drop role {every}")
