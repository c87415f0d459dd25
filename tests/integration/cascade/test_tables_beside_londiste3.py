"""Tables and nodes where other nodes of the cascade still have the schemas of Londiste 3.

A schema without our ledger is one that others made: that is how such a node looks.
"""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.fixtures.cluster import Database
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import wait_for

TABLES = ("fruit", "nut", "leek")


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes) -> Node:
    node = nodes_of.root()
    for table in TABLES:
        node.db.execute(f"create table {table} (id int primary key, name text, secret text)")
    return node


def give_back(node: Node) -> None:
    """The node has the schemas of others from now on."""
    node.db.execute("alter table londiste.installed_file rename to not_of_ours")


def adopt(node: Node) -> None:
    node.db.execute("alter table londiste.not_of_ours rename to installed_file")


def kinds(node: Node, londiste: CommandLine) -> dict[str, str]:
    answer = londiste(node.db, "tables", "-v", "--json")
    assert answer.code == 0, answer.err
    return {row["table"].removeprefix("public."): row["trigger"] for row in answer.json["tables"]}


@pytest.fixture
def mixed(nodes_of: Nodes, root: Node) -> tuple[Node, Node]:
    """A root of ours with two leaves, of which one is not ours."""
    nodes_of.below(root, "mine")
    leaf = nodes_of.below(root, "theirs")
    give_back(leaf)
    return root, leaf


def test_a_new_table_gets_a_trigger_that_all_nodes_can_read(
    mixed: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, leaf = mixed
    answer = londiste(root.db, "add-table", "fruit")
    assert answer.code == 0, answer.err
    assert "node theirs with the worker of Londiste 3" in answer.err
    assert londiste(root.db, "add-table", "nut", "--trigger", "jsontriga").code == 0
    assert kinds(root, londiste) == {"fruit": "logutriga", "nut": "jsontriga"}
    adopt(leaf)
    assert londiste(root.db, "add-table", "leek").code == 0
    assert kinds(root, londiste)["leek"] == "capture"


@pytest.mark.parametrize("args", [("--trigger", "capture"), ("--form", "row")])
def test_our_own_capture_is_refused_above_a_node_that_cannot_read_it(
    mixed: tuple[Node, Node], londiste: CommandLine, args: tuple[str, ...]
) -> None:
    root, _ = mixed
    answer = londiste(root.db, "add-table", "fruit", *args)
    assert answer.code == 2
    assert "node theirs with the worker of Londiste 3 cannot read" in answer.err
    assert "hint: use --trigger logutriga" in answer.err
    londiste(root.db, "add-table", "nut", "--trigger", "logutriga")
    changed = londiste(root.db, "change-form", "--all", "--trigger", "capture")
    assert changed.code == 2
    assert kinds(root, londiste) == {"nut": "logutriga"}


def test_a_worker_that_is_not_ours_on_schemas_of_ours_counts(
    nodes_of: Nodes, root: Node, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    londiste(root.db, "add-table", "fruit", "--trigger", "logutriga")
    leaf.db.execute("select pgq_node.set_consumer_uptodate('q', 'w_leaf', true)")
    assert londiste(root.db, "add-table", "nut").code == 0
    assert kinds(root, londiste) == {"fruit": "logutriga", "nut": "logutriga"}
    assert londiste(root.db, "change-form", "--all", "--trigger", "capture").code == 2
    forced = londiste(root.db, "change-form", "nut", "--trigger", "capture", "--ignore-old-workers")
    assert forced.code == 0, forced.err
    assert londiste(root.db, "check").code == 2
    # Our worker begins.
    leaf.db.execute(
        "select pgq.note_known_source('q', 'w_leaf', 'root', gen_random_uuid(), 1, 1, now())"
    )
    assert londiste(root.db, "check").code == 0
    assert londiste(root.db, "change-form", "--all", "--trigger", "capture").code == 0


def test_check_finds_captures_that_a_node_cannot_read(
    nodes_of: Nodes, root: Node, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "theirs")
    for table in TABLES:
        assert londiste(root.db, "add-table", table).code == 0
    assert londiste(root.db, "check").code == 0
    give_back(leaf)
    answer = londiste(root.db, "check", "--json")
    assert answer.code == 2
    found = answer.json["findings"]
    assert [one["kind"] for one in found] == ["capture-unreadable"] * 3
    for one in found:
        assert londiste(root.db, *one["do"].split()[1:]).code == 0
    assert londiste(root.db, "check").code == 0
    assert set(kinds(root, londiste).values()) == {"logutriga"}


def test_a_node_that_does_not_answer_is_no_obstacle(root: Node, londiste: CommandLine) -> None:
    root.db.execute("select pgq_node.register_location('q', 'gone', 'dbname=nowhere', false)")
    assert londiste(root.db, "add-table", "fruit").code == 0
    assert kinds(root, londiste) == {"fruit": "capture"}


def test_nodes_and_tables_below_a_provider_that_is_not_ours_are_refused(
    nodes_of: Nodes, root: Node, londiste: CommandLine, pgq_db: Database
) -> None:
    leaf = nodes_of.below(root, "leaf")
    assert londiste(root.db, "add-table", "fruit").code == 0
    leaf.db.execute("create table fruit (id int primary key, name text, secret text)")
    give_back(root)
    answer = londiste(leaf.db, "add-table", "fruit")
    assert answer.code != 0
    assert "node root has the schemas of Londiste 3" in answer.err
    assert "hint: londiste install --adopt" in answer.err
    assert leaf.db.value("select count(*) from londiste.table_info") == 0
    made = londiste(pgq_db, "create-leaf", "later", pgq_db.dsn, "--provider", root.dsn)
    assert made.code != 0
    assert "node root has the schemas of Londiste 3" in made.err
    assert (
        root.db.value("select count(*) from pgq_node.node_location where node_name = 'later'") == 0
    )


def test_all_tables_get_another_trigger_while_others_write(
    root: Node, londiste: CommandLine
) -> None:
    londiste(
        root.db, "add-table", "fruit", "--trigger", "logutriga", "--trigger-arg", "ignore=secret"
    )
    londiste(root.db, "add-table", "nut", "--trigger", "sqltriga", "--trigger-flags", "IU")
    londiste(root.db, "add-table", "leek", "--trigger", "jsontriga", "--trigger-arg", "when=id > 0")
    stop = threading.Event()
    written: list[int] = []
    failed: list[psycopg.Error] = []

    def write(step: int) -> None:
        with psycopg.connect(root.dsn) as conn:
            number = 0
            while not stop.is_set():
                number += 1
                # In another order in each session: a command that held two tables would stop one.
                try:
                    for table in TABLES[::step]:
                        conn.execute(
                            f"insert into {table} values (%s, 'x', 'hidden')",
                            [number * 2 + (step > 0)],
                        )
                    conn.commit()
                except psycopg.Error as error:
                    failed.append(error)
                    return
                written.append(number)

    writers = [threading.Thread(target=write, args=[step]) for step in (1, -1)]
    for writer in writers:
        writer.start()
    try:
        for trigger in ("capture", "logutriga", "capture"):
            seen = len(written)
            wait_for(lambda seen=seen: len(written) > seen + 5, what="writers")  # type: ignore[misc]
            answer = londiste(root.db, "change-form", "--all", "--trigger", trigger)
            assert answer.code == 0, answer.err
            assert set(kinds(root, londiste).values()) == {trigger}
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failed == []
    assert len(root.db.execute("select from pg_stat_activity where state like '%aborted%'")) == 0
    for table in TABLES:
        rows = root.db.value(f"select count(*) from {table}")
        told = root.db.value(
            "select count(*) from pgq.event_template where ev_extra1 = %s", f"public.{table}"
        )
        assert told == rows > 0
    assert (
        root.db.value(
            "select count(*) from pgq.event_template where ev_extra1 = 'public.fruit'"
            " and ev_data like '%hidden%'"
        )
        == 0
    )
    root.db.execute("insert into leek values (-1, 'x', 'y'); delete from nut")
    assert (
        root.db.value(
            "select count(*) from pgq.event_template where ev_type ~ 'DELETE'"
            " or ev_data like '%-1%'"
        )
        == 0
    )


def test_a_trigger_that_cannot_become_another_stays(root: Node, londiste: CommandLine) -> None:
    londiste(
        root.db, "add-table", "fruit", "--trigger", "logutriga", "--trigger-arg", "ev_type='x'"
    )
    answer = londiste(root.db, "change-form", "fruit", "--trigger", "capture")
    assert answer.code != 0
    assert "hint:" in answer.err
    assert kinds(root, londiste) == {"fruit": "logutriga"}
    for args in (["--trigger", "capture"], ["fruit", "--all", "--trigger", "capture"]):
        assert londiste(root.db, "change-form", *args).code == 2
