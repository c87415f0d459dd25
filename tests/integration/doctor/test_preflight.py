"""Commands that set up replication find defects before their first step."""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import pytest
from psycopg import conninfo

from londiste.monitor.doctor import collect
from londiste.monitor.doctor.examine import examine
from londiste.monitor.queues.model import Severity
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.cluster import Database

ROLE, PASSWORD = f"worker_{os.getpid()}", "worker"


def test_a_leaf_whose_worker_could_not_apply_is_refused(
    nodes_of: Nodes, new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root, leaf = nodes_of.root(), new_database(pgq=True)
    leaf.execute(f"create role {ROLE} login password '{PASSWORD}' in role londiste_writer")
    # An administrator has not given the function to a superuser, who alone can lend the right.
    leaf.execute(
        "alter function londiste.set_session_replication_role(text, boolean)"
        " owner to londiste_writer"
    )
    dsn = conninfo.make_conninfo(leaf.dsn, user=ROLE, password=PASSWORD)
    call = ["create-leaf", "leaf", leaf.dsn, "--provider", root.dsn, "--nocheck"]
    try:
        as_role = ["--set", f"db={dsn}"]
        refused = londiste(leaf, *as_role, *call)
        assert refused.code == 2
        assert f"{ROLE} may not set session_replication_role" in refused.err
        _, _, grant = refused.err.partition("hint: as an administrator: ")
        assert leaf.value("select count(*) from pgq_node.node_info") == 0
        assert root.db.value("select count(*) from pgq_node.subscriber_info") == 0
        leaf.execute(grant.strip())
        leaf.execute(f"alter role {ROLE} connection limit 9")
        made = londiste(leaf, *as_role, *call)
        assert (made.code, f"warning: role {ROLE} accepts" in made.err) == (0, True), str(made)
    finally:
        leaf.execute(f"drop owned by {ROLE}; drop role {ROLE}")


@pytest.mark.parametrize("server", ["database", "database16"])
def test_time_limits_of_a_database_do_not_end_sessions(
    server: str, request: pytest.FixtureRequest
) -> None:
    there: Database = request.getfixturevalue(server)
    with there.connect() as conn:
        version = conn.info.server_version
    limits = ["idle_session_timeout"] + ["transaction_timeout"] * (version >= 170000)
    for name in limits:
        there.execute(f"alter database {there.name} set {name} = '1h'")
    with psycopg.connect(there.dsn) as other:
        assert other.execute("show idle_session_timeout").fetchone() == ("1h",)
    with there.connect() as conn:
        assert [conn.execute(f"show {name}").fetchone() for name in limits] == [("0",)] * len(
            limits
        )
    found = examine(there.dsn)
    assert [(one.kind, one.severity) for one in found if "timeout" in one.what] == [
        ("statement-timeout", Severity.OK)
    ] * len(limits)


def test_added_tables_are_examined_and_no_others(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    mood = "create type mood as enum ('sad'{}); create table {} (id int primary key, m mood);"
    root.db.execute(
        mood.format(", 'glad'", "felt") + "create table plain (id int primary key, x xml)"
    )
    leaf.db.execute(mood.format("", "felt") + "create table plain (id int primary key, x xml)")
    added = londiste(root.db, "add-table", "felt", "plain")
    assert (added.code, "warning" in added.err) == (0, False)
    added = londiste(leaf.db, "add-table", "plain")
    assert (added.code, "warning" in added.err) == (0, False)
    added = londiste(leaf.db, "add-table", "felt")
    assert added.code == 0
    assert "warning: enum public.mood lacks labels in the node database: glad" in added.err
    assert "alter type" in added.err


def test_rows_that_a_copy_would_replace_are_named(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    names = ["mine", "others", "vacant", "large"]
    for node in (root, leaf):
        for name in names:
            node.db.execute(f"create table {name} (id int primary key)")
    leaf.db.execute("insert into mine values (7); insert into others values (1), (2)")
    leaf.db.execute("insert into large select generate_series(1, 1500); analyze large")
    root.db.execute("insert into mine values (1)")
    assert "existing rows" not in londiste(root.db, "add-table", *names).err
    wanted = (
        "warning: tables public.mine (1 row), public.large (about 1,500 rows) of this node:"
        " the copy replaces existing rows; --skip-truncate keeps them, --expect-sync copies"
        " nothing because the rows are equal"
    )
    tried = londiste(leaf.db, "add-table", "mine", "vacant", "large", "--dry-run")
    assert (tried.code, wanted in tried.err) == (0, True), str(tried)
    for option in ("--skip-truncate", "--expect-sync"):
        kept = londiste(leaf.db, "add-table", *names, option, "--dry-run")
        assert (kept.code, "existing rows" in kept.err) == (0, False), str(kept)
    added = londiste(leaf.db, "add-table", "mine", "vacant", "large")
    assert (added.code, wanted in added.err) == (0, True), str(added)
    # The target has another name than the table.
    root.db.execute("create table far (id int primary key)")
    londiste(root.db, "add-table", "far")
    added = londiste(leaf.db, "add-table", "far", "--dest-table", "others")
    assert "warning: table public.others (2 rows) of this node" in added.err, str(added)


def test_a_server_tells_whether_it_can_have_xml(database: Database) -> None:
    built = "select setting like '%--with-libxml%' from pg_config where name = 'CONFIGURE'"
    with database.connect() as conn:
        assert collect.has_xml(conn) is database.value(built)
        # Also in a transaction, which continues.
        with conn.transaction():
            collect.has_xml(conn)
            assert conn.execute("select 1").fetchone() == (1,)


def test_a_server_tells_whether_it_has_icu_and_what_uses_it(
    new_database: Callable[..., Database],
) -> None:
    database = new_database()
    built = "select setting like '%--with-icu%' from pg_config where name = 'CONFIGURE'"
    # Since PostgreSQL 16 it is the default of a build.
    default = "select setting not like '%--without-icu%' from pg_config where name = 'CONFIGURE'"
    since = database.value("select current_setting('server_version_num')::int >= 160000")
    has = database.value(default if since else built)
    with database.connect() as conn:
        assert collect.examine(conn, database.dsn).more.icu is has
    database.execute('create table plain (a text collate "C" primary key)')
    wanted: tuple[str, ...] = ()
    if has:
        database.execute(
            "create collation mine (provider = icu, locale = 'de'); create domain d text collate"
            ' mine; create table t (a text collate "und-x-icu", b d);'
            " create view v as select from t where 'a' < 'b' collate mine"
        )
        wanted = ("collation public.mine", 'rule "_RETURN" on public.v')
        wanted += ("table column public.t.a", "table column public.t.b", "type public.d")
    with database.connect() as conn:
        assert collect.examine(conn, database.dsn).more.icu_users == wanted


def test_a_partitioned_table_that_the_target_lacks_is_examined(
    new_database: Callable[..., Database],
) -> None:
    source, target = new_database(), new_database()
    source.execute("create table p (id int primary key) partition by range (id)")
    source.execute("create table p_a partition of p default")
    found = examine(source.dsn, target.dsn, ["public.p"])
    assert not [one for one in found if one.severity is Severity.CRITICAL], found


def test_what_is_replicated_is_no_obstacle(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute(
            "create table m (id int primary key) partition by range (id);"
            " create table m1 partition of m for values from (0) to (9);"
            " insert into m values (1); create table k (a int); insert into k values (1)"
        )

    def obstacles() -> dict[str, str]:
        found = examine(root.dsn, leaf.dsn)
        return {one.kind: one.object for one in found if one.kind in ("rows", "key")}

    # The copy truncates the partitioned table.
    assert obstacles() == {"rows": "public.k, public.m", "key": "public.k"}
    for node, more in ((root, []), (leaf, ["--expect-sync"])):
        assert londiste(node.db, "add-table", "m", "k", "--whole-row", *more).code == 0
    assert obstacles() == {}
