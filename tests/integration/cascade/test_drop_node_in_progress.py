"""A drop-node in progress is visible, and the same command completes it."""

from __future__ import annotations

import re
import threading

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cascade.switching import drop_node
from londiste.cascade.switching.cluster_state import look
from londiste.db.connection import connect
from londiste.errors import AccessDenied
from londiste.install import locks
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute, remaining
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent, takes_events
from tests.fixtures.cluster import Database
from tests.fixtures.owners import OWNER, make_owner
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import wait_for

NOTES = "select operation, node_name from pgq_node.operation"
KNOWN = "select node_name from pgq_node.node_location order by 1"


@pytest.fixture
@kept_nodes
def three(nodes_of: Nodes) -> tuple[Node, Node, Node]:
    """root <- branch, root <- leaf; all know each other."""
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(root, "leaf")
    branch.db.execute("select pgq_node.register_location('q', 'leaf', %s, false)", leaf.dsn)
    return root, branch, leaf


def _one_step(at: Node) -> str:
    """The first step of dropping the leaf that is left to do; what it is."""
    with Connections(name="test") as sites:
        steps = drop_node.drop(sites, look(sites, at.dsn, QUEUE, ""), "leaf", force=False)
        left = remaining(steps, sites)
        execute(left[:1], sites)
        return left[0].describe()


def _shown(londiste: CommandLine, at: Node) -> bool:
    out = londiste(at.db, "status").out
    told = re.search(r"finish it: londiste -c \S+\.toml drop-node leaf\n", out) is not None
    assert told is ("UNDER WAY: the drop of node leaf, started by " in out)
    return told


def test_a_drop_that_is_interrupted_is_shown_everywhere_and_finished_by_its_command(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, branch, _ = three
    done = []
    for at in (branch, root, branch):
        done.append(_one_step(at))
        assert _shown(londiste, root)
        assert _shown(londiste, branch)
    assert done == [
        "root: record drop-node leaf",
        "leaf: drop the node, its queue and the triggers on its tables",
        "branch: forget node leaf",
    ]
    refused = londiste(root.db, "rename-node", "branch", "other")
    assert refused.code == 3
    assert refused.err.endswith("hint: finish it: londiste drop-node leaf\n")
    assert londiste(branch.db, "drop-node", "leaf").code == 0
    for node in (root, branch):
        assert not _shown(londiste, node)
        assert node.db.execute(NOTES) == []
        assert node.db.execute(KNOWN) == [("branch",), ("root",)]
    again = londiste(branch.db, "drop-node", "leaf")
    assert (again.code, "has no node leaf" in again.err) == (2, True)


def test_a_drop_is_finished_by_its_command_where_the_root_has_forgotten_the_node(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, branch, _ = three
    _closed(root.db, closed=True)
    assert _one_step(branch) == "branch: record drop-node leaf"
    _closed(root.db, closed=False)
    _closed(branch.db, closed=True)
    dropped = londiste(root.db, "drop-node", "leaf")
    assert dropped.code == 0
    assert "node branch does not answer and keeps the node in its list" in dropped.err
    assert "run there: londiste drop-node leaf\n" in dropped.err
    assert root.db.execute(NOTES) == []
    _closed(branch.db, closed=False)
    assert branch.db.execute(NOTES) == [("drop-node", "leaf")]
    assert _shown(londiste, branch)
    for at in (branch, root):
        assert londiste(at.db, "drop-node", "leaf").code == (0 if at is branch else 2)
    assert branch.db.execute(NOTES) == []
    assert branch.db.execute(KNOWN) == [("branch",), ("root",)]


def test_a_node_that_is_dropped_at_itself_goes_last_and_is_not_noted_again(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, branch, leaf = three
    assert _one_step(leaf) == "root: record drop-node leaf"
    impatient = ("--set", "lock_timeout=0.1", "drop-node", "leaf")
    for held_at, forgotten in ((leaf, False), (root, True)):
        with psycopg.connect(held_at.dsn) as other:
            other.execute("lock table pgq_node.node_location in share row exclusive mode")
            refused = londiste(leaf.db, *impatient)
        assert refused.code == 6, refused
        assert "at this step: leaf: drop the node" in refused.err
        assert leaf.db.value("select count(*) from pgq_node.node_info") == 1
        assert root.db.value("select count(*) from pgq_node.subscriber_info") == 2
        assert (("leaf",) not in branch.db.execute(KNOWN)) is forgotten
        assert _shown(londiste, root)
    finished = londiste(leaf.db, "drop-node", "leaf")
    assert finished.code == 0, finished
    assert "note" not in finished.err
    assert leaf.db.value("select count(*) from pgq_node.node_info") == 0
    assert root.db.value("select count(*) from pgq_node.subscriber_info") == 1
    for node in (root, branch):
        assert node.db.execute(NOTES) == []
        assert node.db.execute(KNOWN) == [("branch",), ("root",)]
    assert londiste(leaf.db, "drop-node", "leaf").code == 2


def _closed(db: Database, *, closed: bool) -> None:
    """Nobody gets into the database, or everybody again."""
    with psycopg.connect(db.cluster.dsn("postgres"), autocommit=True) as conn:
        conn.execute(f'alter database "{db.name}" with allow_connections {not closed}')
        if closed:
            conn.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                [db.name],
            )


_WAITS = """
select l.waitstart from pg_locks l
where l.relation = 'b'::regclass and not l.granted and not exists (
    select from pg_locks h where h.pid = l.pid and h.granted
        and h.mode = 'AccessExclusiveLock' and h.relation = any (%s::regclass[]))
"""


@pytest.mark.parametrize(
    "command",
    [("drop-node", "root"), pytest.param(("remove-table", "a"), marks=pytest.mark.slow)],
)
def test_a_drop_gives_way_to_an_application_that_uses_the_tables(
    nodes_of: Nodes,
    londiste: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, str],
) -> None:
    """Table b is a partition of a.  A first attempt that fails is not the end."""
    root = nodes_of.root()
    root.db.execute("create table a (id int primary key)")
    assert londiste(root.db, "add-table", "a").code == 0
    root.db.execute("select londiste.create_partition('a', 'b', '', '', now(), 'day')")
    words = ("--set", "lock_timeout=0.1", *command)
    codes: list[int] = []
    drop = threading.Thread(target=lambda: codes.append(londiste(root.db, *words).code))
    with psycopg.connect(root.dsn) as application:
        application.execute("insert into b values (1)")
        with monkeypatch.context() as impatient:
            impatient.setattr(locks, "PATIENCE", 0.1)
            refused = londiste(root.db, *words)
        assert "table public.b stays locked" in refused.err
        assert re.search(r"repeat the command; to wait longer: --set lock_timeout=\d", refused.err)
        drop.start()
        waits = "a drop that waits for b"
        first = wait_for(lambda: root.db.value(_WAITS, ["a"]), timeout=9, what=waits)
        wait_for(
            lambda: root.db.value(_WAITS, ["a"]) not in (None, first),
            timeout=9,
            what="its next attempt",
        )
        # It would become the victim of a deadlock, or wait until the drop gives up.
        application.execute("insert into a values (1)")
    drop.join(60)
    assert codes == [0]
    root.db.execute("insert into b values (2)")
    rows = "select (select count(*) from only a), (select count(*) from b)"
    assert root.db.execute(rows) == [(1, 2)]


def test_a_root_is_not_dropped_and_its_successor_is_named(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, branch, _ = three
    refused = londiste(branch.db, "drop-node", "root")
    assert refused.code == 3
    assert "node root is the root" in refused.err
    assert "first: londiste switchover --to branch; " in refused.err
    with silent(root):
        refused = londiste(branch.db, "drop-node", "root")
        assert refused.code == 3
        assert "first: londiste takeover root --node branch --failover" in refused.err
        hint = refused.err.partition("first: londiste ")[2].split()
        taken = londiste(branch.db, *hint, "--timeout", "0")
        assert takes_events(branch.db, QUEUE), taken.err


def test_a_branch_below_a_silent_root_names_no_takeover_of_itself(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    one = nodes_of.below(root, "one", NodeType.BRANCH)
    two = nodes_of.below(root, "two", NodeType.BRANCH)
    nodes_of.below(one, "leaf")
    one.db.execute("select pgq_node.register_location('q', 'two', %s, false)", two.dsn)
    refused = londiste(one.db, "drop-node", "one")
    assert "londiste change-provider --node leaf --provider root" in refused.err
    with silent(root):
        refused = londiste(one.db, "drop-node", "one")
        assert "londiste change-provider --node leaf --provider two" in refused.err


SQL_OWNER = "londiste_test_repl"

#: The SQL belongs to a role that owns no table.
_INSTALLED_BY = f"""
    do $$
    declare
        v_what text;
    begin
        if to_regrole('{SQL_OWNER}') is null then
            create role {SQL_OWNER} nologin;
        end if;
        for v_what in
            select format('function %s', p.oid::regprocedure) from pg_proc p
            where p.pronamespace::regnamespace::text in ('pgq', 'pgq_node', 'londiste')
            union all
            select format('table %s', c.oid::regclass) from pg_class c
            where c.relnamespace::regnamespace::text in ('pgq', 'pgq_node', 'londiste')
                and c.relkind = 'r'
            union all
            select format('schema %s', n) from unnest(array['pgq', 'pgq_node', 'londiste']) n
        loop
            execute format('alter %s owner to {SQL_OWNER}', v_what);
        end loop;
    end;
    $$
"""


def test_a_node_whose_tables_the_owner_of_the_sql_may_not_alter_is_not_dropped(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, _, leaf = three
    for node in (root, leaf):
        make_owner(node.db)
        node.db.execute(f"create schema app authorization {OWNER}")
        node.db.execute("create table app.t (i int primary key)")
        node.db.execute(f"alter table app.t owner to {OWNER}")
        added = londiste(node.db, "add-table", "app.t", "--expect-sync")
        assert added.code == 0, added.err
    leaf.db.execute(_INSTALLED_BY)
    root.db.execute(f"alter role {OWNER} login; grant londiste_writer to {OWNER}")
    drop = ("--set", f"remote_extra_connstr=user={OWNER}", "drop-node", "leaf")
    usage, owner = f'usage on schema "app" to "{SQL_OWNER}"', f'"{OWNER}" to "{SQL_OWNER}"'
    try:
        # The function itself names one right after the other, and whose they are.
        with connect(make_conninfo(leaf.dsn, user=OWNER), name="test", autocommit=True) as conn:
            for right in (usage, owner):
                refused = londiste(root.db, *drop)
                assert refused.code == 2, refused.err
                assert "may not drop the triggers of app.t\n" in refused.err
                assert f"hint: as an administrator there: grant {owner}\n" in refused.err
                assert root.db.execute(NOTES) == []
                with pytest.raises(AccessDenied) as told, conn.transaction():
                    nodes.drop_node(conn, QUEUE, "leaf")
                assert told.value.hint.startswith(f"as an administrator: grant {right}; ")
                leaf.db.execute(f"grant {right}")
        done = londiste(root.db, *drop)
        assert done.code == 0, done.err
    finally:
        root.db.execute(f"alter role {OWNER} nologin; revoke {OWNER} from {SQL_OWNER}")


def test_a_name_whose_drop_is_under_way_is_not_taken(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, _, leaf = three
    for _ in range(2):
        _one_step(root)
    again = londiste(leaf.db, "create-leaf", "leaf", f"--provider={root.dsn}")
    assert again.code == 3, again.err
    assert "error: node root: the drop of node leaf, started by " in again.err
    assert again.err.endswith(
        "hint: finish it, with the settings of root: londiste drop-node leaf\n"
    )
    assert londiste(root.db, "drop-node", "leaf").code == 0
    assert londiste(leaf.db, "create-leaf", "leaf", f"--provider={root.dsn}").code == 0
