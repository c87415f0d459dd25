"""Creating root, branch and leaf from the command line: interrupted, repeated, refused."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.commands import create_node, location_check, upstream
from londiste.cascade.model import NodeType
from londiste.dsn import place_of
from londiste.errors import BadOption, StateError, UnknownNode, UsageError
from londiste.orchestration import steps as plan
from tests.fixtures.cascade import QUEUE, CommandLine, Nodes
from tests.fixtures.cluster import Database
from tests.support.suite.slow import first


def untouched(db: Database) -> bool:
    return all(
        db.value(f"select count(*) from pgq_node.{table}") == 0
        for table in ("node_info", "node_location", "local_state", "subscriber_info")
    )


def test_a_cascade_grows_from_the_command_line(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root, branch, leaf = (new_database(pgq=True) for _ in range(3))
    assert londiste(root, "create-root", "root").code == 0
    assert londiste(branch, "create-branch", "branch", "--provider", root.dsn).code == 0
    assert londiste(leaf, "create-leaf", "leaf", "--provider", branch.dsn).code == 0

    found = topology.read(leaf.connect(), QUEUE)
    assert found.roots == ["root"]
    assert found.children("root") == ["branch"]
    assert found.children("branch") == ["leaf"]
    members = londiste(leaf, "members", "--json").json["nodes"]
    assert [m["node_name"] for m in members] == ["branch", "leaf", "root"]
    # The branch has not read the event that tells of the leaf, and knows it all the same.
    assert "leaf" in [m["node_name"] for m in londiste(branch, "members", "--json").json["nodes"]]
    info = londiste(leaf, "node-info", "--json").json
    assert (info["type"], info["provider"], info["name"]) == ("leaf", "branch", "leaf")


def test_new_queue_gets_replication_settings_and_an_existing_one_keeps_its_own(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    lag = "select queue_ticker_max_lag::text from pgq.get_queue_info('q')"
    root, branch, old = (new_database(pgq=True) for _ in range(3))
    assert londiste(root, "create-root", "root").code == 0
    assert root.value(lag) == "00:00:00.005"
    root.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '40 ms')")
    assert londiste(branch, "create-branch", "branch", "--provider", root.dsn).code == 0
    assert branch.value(lag) == "00:00:00.04", "should it become the root"

    old.execute("select pgq.create_queue('q')")
    before = old.value(lag)
    assert londiste(old, "create-root", "root").code == 0
    assert old.value(lag) == before


def test_explaining_touches_nothing(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root, leaf = new_database(pgq=True), new_database(pgq=True)
    answer = londiste(root, "create-root", "root", "--dry-run")
    assert answer.code == 0
    assert "create root" in answer.out
    assert untouched(root)
    londiste(root, "create-root", "root")
    before = root.value("select count(*) from pgq.event_template")
    answer = londiste(leaf, "create-leaf", "leaf", "--provider", root.dsn, "--dry-run", "--json")
    assert answer.code == 0
    assert len(answer.json["steps"]) == 4
    assert untouched(leaf)
    assert root.value("select count(*) from pgq.event_template") == before
    assert root.value("select count(*) from pgq_node.node_location") == 1


def test_giving_a_command_twice_is_fine(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root, leaf = new_database(pgq=True), new_database(pgq=True)
    for _ in range(2):
        assert londiste(root, "create-root", "root").code == 0
        assert londiste(leaf, "create-leaf", "leaf", "--provider", root.dsn).code == 0
    assert "nothing to do" in londiste(root, "create-root", "root").err


@pytest.mark.parametrize("kind", first([NodeType.BRANCH, NodeType.LEAF]))
def test_interrupted_create_is_finished_by_repeating_the_command(
    nodes_of: Nodes, kind: NodeType
) -> None:
    root = nodes_of.root()
    make = create_node.create_leaf if kind is NodeType.LEAF else create_node.create_branch
    branch = nodes_of.below(root, "between", NodeType.BRANCH)
    count = 0
    stop_after = 0
    while True:
        node = nodes_of.new(f"n{stop_after}", kind)
        steps = make(nodes_of.sites, node, branch.dsn)
        count = len(steps)
        plan.execute(steps[:stop_after], nodes_of.sites)
        # The same command again plans afresh.
        again = make(nodes_of.sites, node, branch.dsn)
        assert len(plan.remaining(again, nodes_of.sites)) == count - stop_after
        plan.execute(again, nodes_of.sites)
        info = nodes.get_node_info(nodes_of.sites.at(node.dsn), QUEUE)
        assert (info.name, info.type, info.provider) == (node.name, kind, "between")
        if stop_after == count:
            break
        stop_after += 1
    assert count == 5


def test_a_resumed_node_starts_where_its_subscription_is(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    node = nodes_of.new("leaf", NodeType.LEAF)
    steps = create_node.create_leaf(nodes_of.sites, node, root.dsn)
    plan.execute(steps[:2], nodes_of.sites)
    root.tick()
    # A subscriber that lies behind holds the watermark, whatever the root publishes.
    nodes.set_global_watermark(nodes_of.sites.at(root.dsn), QUEUE, None)
    plan.execute(create_node.create_leaf(nodes_of.sites, node, root.dsn), nodes_of.sites)
    position = root.db.value("select last_tick from pgq.get_consumer_info('q', 'w_leaf')")
    assert nodes.get_node_info(nodes_of.sites.at(node.dsn), QUEUE).last_tick == position


def test_new_node_lists_the_tables_of_its_provider(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int primary key); create sequence s")
    assert londiste(root.db, "add-table", "t").code == 0
    assert londiste(root.db, "add-seq", "s").code == 0
    leaf = nodes_of.below(root, "leaf")
    missing = londiste(leaf.db, "missing", "--json").json["missing"]
    assert missing == [
        {"kind": "table", "name": "public.t", "why": None},
        {"kind": "sequence", "name": "public.s", "why": None},
    ]


# -- mistakes -----------------------------------------------------------------


def test_database_with_a_node_refuses_a_second_one(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    for args in (("create-root", "second"), ("create-leaf", "root", "--provider", root.dsn)):
        answer = londiste(root.db, *args)
        assert answer.code == 3
        assert "is already node root (root)" in answer.err
        assert "hint:" in answer.err


def test_provider_without_node_is_refused(
    nodes_of: Nodes, new_database: Callable[..., Database]
) -> None:
    stranger = new_database(pgq=True)
    node = nodes_of.new("leaf", NodeType.LEAF)
    with pytest.raises(UnknownNode, match="is not a node of queue q"):
        create_node.create_leaf(nodes_of.sites, node, stranger.dsn)


def test_a_provider_that_is_a_leaf_is_refused(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    with pytest.raises(StateError, match="cannot be a provider"):
        create_node.create_leaf(nodes_of.sites, nodes_of.new("other", NodeType.LEAF), leaf.dsn)


def test_provider_cycle_is_reported_as_no_root(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    one = nodes_of.below(root, "one", NodeType.BRANCH)
    two = nodes_of.below(one, "two", NodeType.BRANCH)
    one.db.execute("update pgq_node.local_state set provider_node = 'two'")
    with pytest.raises(StateError, match="form a circle"):
        upstream.upstream(nodes_of.sites, QUEUE, two.dsn)


def test_a_name_that_is_taken_is_refused_before_anything_is_done(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    nodes_of.below(root, "leaf")
    again = nodes_of.new("leaf", NodeType.LEAF)
    nodes_of.below(nodes_of.below(root, "branch", NodeType.BRANCH), "below")
    # Dropping one of these would destroy the cascade, or cut off the nodes below.
    for name in ("root", "branch"):
        with pytest.raises(UsageError, match=f"has a node {name} already") as e:
            create_node.create_leaf(nodes_of.sites, nodes_of.new(name, NodeType.LEAF), root.dsn)
        assert e.value.hint == "choose another name"
    with pytest.raises(UsageError, match="has a node leaf already") as e:
        create_node.create_leaf(nodes_of.sites, again, root.dsn)
    assert e.value.hint.startswith("choose another name; or, if it is no longer needed,")
    assert e.value.hint.endswith("with the settings of root root: londiste drop-node leaf")


def test_a_consumer_that_is_taken_is_refused_before_anything_is_done(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    root.db.execute("select pgq.register_consumer('q', 'w_leaf')")
    with pytest.raises(UsageError, match="consumer w_leaf is registered"):
        create_node.create_leaf(nodes_of.sites, nodes_of.new("leaf", NodeType.LEAF), root.dsn)


def test_a_branch_does_not_take_over_a_queue_that_exists(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    node = nodes_of.new("branch", NodeType.BRANCH)
    nodes_of.sites.at(node.dsn).execute("select pgq.create_queue('q')")
    with pytest.raises(StateError, match="queue q exists already"):
        create_node.create_branch(nodes_of.sites, node, root.dsn)


@pytest.mark.parametrize(
    "location",
    [
        "host=h dbname=d password=secret",
        "postgresql://u:secret@h/d",
        "host=h dbname=d sslpassword=secret",
    ],
)
def test_a_password_is_never_stored(pgq_db: Database, londiste: CommandLine, location: str) -> None:
    answer = londiste(pgq_db, "create-root", "root", location)
    assert answer.code == 2
    assert "password" in answer.err
    assert "service" in answer.err
    assert "secret" not in answer.err + answer.out
    assert untouched(pgq_db)


def test_a_location_that_leads_elsewhere_is_refused(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    here, elsewhere = new_database(pgq=True), new_database(pgq=True)
    answer = londiste(here, "create-root", "root", elsewhere.dsn)
    assert answer.code == 2
    assert "another database" in answer.err
    assert untouched(here)
    assert londiste(here, "create-root", "root", elsewhere.dsn, "--nocheck").code == 0


def test_a_provider_that_its_stored_location_does_not_lead_to_is_refused(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root, leaf = new_database(pgq=True), new_database(pgq=True)
    londiste(root, "create-root", "root")
    root.execute("update pgq_node.node_location set node_location = 'host=127.0.0.1 port=1'")
    create = ("create-leaf", "leaf", "--provider", root.dsn)
    refused = londiste(leaf, *create)
    assert refused.code == 3
    assert "error: node root: its stored location does not answer" in refused.err
    assert "hint: with the settings of root: londiste move-node root CONNECTION;" in refused.err
    assert untouched(leaf)
    assert root.value("select count(*) from pgq_node.node_location") == 1
    assert londiste(root, "move-node", "root", root.dsn).code == 0
    assert londiste(leaf, *create).code == 0
    root.execute("update pgq_node.node_location set node_location = 'host=127.0.0.1 port=1'")
    assert londiste(leaf, *create).code == 3
    assert londiste(leaf, *create, "--nocheck").code == 0


def test_nonsense_as_location_is_refused() -> None:
    for text in ("nonsense", "host=h"):
        with pytest.raises(BadOption):
            location_check.check_location(text)


def test_unreachable_server_is_reported(pgq_db: Database, londiste: CommandLine) -> None:
    nowhere = "host=/nowhere dbname=x"
    assert londiste(pgq_db, "create-root", "root", nowhere).code == 6
    assert londiste(pgq_db, "create-leaf", "leaf", "--provider", nowhere).code == 6
    assert untouched(pgq_db)


def test_database_without_sql_hints_at_install(database: Database, londiste: CommandLine) -> None:
    answer = londiste(database, "create-root", "root")
    assert answer.code == 4
    with database.connect() as conn:
        shown = shlex.quote(place_of(conn.info.dsn))
    assert f"hint: londiste install --db {shown}\n" in answer.err


def test_missing_argument_is_named(pgq_db: Database, londiste: CommandLine) -> None:
    assert "create-root NAME" in londiste(pgq_db, "create-root").err
    assert "--provider" in londiste(pgq_db, "create-leaf", "leaf").err


# -- pausing ------------------------------------------------------------------


def test_pause_without_worker_is_stored_and_names_the_worker(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(nodes_of.root(), "leaf")
    answer = londiste(leaf.db, "pause", "--timeout", "0.1")
    assert answer.code == 6
    assert "worker w_leaf of node leaf did not answer" in answer.err
    with leaf.connect() as conn:
        assert nodes.get_node_info(conn, QUEUE).paused
        nodes.set_consumer_uptodate(conn, QUEUE, leaf.worker, True)
    assert "already paused" in londiste(leaf.db, "pause").err
    assert londiste(leaf.db, "resume", "--timeout", "0").code == 0
    assert londiste(leaf.db, "pause", "--node", "nobody").code == 2


def test_node_can_be_paused_from_another_node(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    answer = londiste(root.db, "pause", "--node", "leaf", "--timeout", "0", "--json")
    assert answer.json == {
        "version": 1,
        "node": "leaf",
        "consumer": "w_leaf",
        "paused": True,
    }
    with leaf.connect() as conn:
        assert nodes.get_node_info(conn, QUEUE).paused


def test_members_of_a_database_without_node_is_an_error(
    pgq_db: Database, londiste: CommandLine
) -> None:
    for command in ("members", "node-info", "status", "tables", "missing", "seqs", "wait-root"):
        answer = londiste(pgq_db, command)
        assert answer.code == 2, command
        assert "is not a node of queue q" in answer.err


def test_waiting_ends_with_the_reason(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    assert londiste(leaf.db, "wait-provider", "--timeout", "1", "--json").json == {
        "version": 1,
        "node": "leaf",
        "tick": 1,
    }
    assert londiste(root.db, "wait-root").code == 0
    with branch.connect() as conn:
        nodes.set_consumer_completed(conn, QUEUE, branch.worker, 2)
    answer = londiste(leaf.db, "wait-provider", "--timeout", "0.1")
    assert answer.code == 6
    assert "did not reach tick 2 of branch" in answer.err


def test_a_server_that_refuses_views_is_told_how_to_allow_them(
    new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    setting = "restrict_nonsystem_relation_kind"
    database = new_database(pgq=True)
    if not database.value("select exists (select from pg_settings where name = %s)", setting):
        pytest.skip("this server has no such setting")
    database.execute(f"alter database {database.name} set {setting} = 'view'")
    refused = londiste(database, "create-root", "root", database.dsn)
    assert refused.code == 1
    assert 'access to non-system view "subscription" is restricted' in refused.err
    assert f"alter role current_user set {setting} = ''" in refused.err
