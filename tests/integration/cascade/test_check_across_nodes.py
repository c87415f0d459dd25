"""``check`` and ``missing`` across a cascade: every finding has a command that repairs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from londiste.cascade.model import NodeType
from londiste.handlers.base import TableRules
from londiste.monitor.nodes.rules import NodeFacts, findings
from londiste.monitor.nodes.table_facts import TableFacts
from tests.fixtures.cascade import CommandLine, Nodes


def test_nodes_are_held_against_their_providers(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    root.db.execute(
        "create table kept (id int primary key, v text);"
        "create table left_out (id int primary key);"
        "create table files (id serial primary key, f oid);"
        "create table child (id int primary key, kept int references kept); create sequence s"
    )
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    assert londiste(root.db, "check").code == 0
    added = londiste(root.db, "add-table", "kept", "left_out", "files", "--no-sequences")
    assert added.code == 0
    assert londiste(root.db, "add-seq", "s").code == 0
    answer = londiste(root.db, "check", "--json")
    assert answer.code == 1
    own = {(one["kind"], one["do"]) for one in answer.json["findings"]}
    assert ("sequence", "londiste add-seq public.files_id_seq") in own
    assert ("referenced", "londiste add-table public.child") in own
    assert "large-objects" in {kind for kind, _ in own}

    branch.db.execute("create table kept (id int8 primary key)")
    assert londiste(branch.db, "add-table", "kept", "--expect-sync").code == 0
    leaf.db.execute("create table left_out (id int primary key)")
    copied = londiste(leaf.db, "add-table", "left_out", "--find-copy-node")
    assert copied.code == 0, copied.err

    answer = londiste(leaf.db, "check", "--all-nodes", "--json")
    assert answer.code == 1
    found = {(one["what"], one["do"]) for one in answer.json["findings"]}
    texts = {what for what, _ in found}
    assert (
        "node branch: table public.left_out of node root is not replicated",
        "londiste add-table public.left_out",
    ) in found
    assert (
        "node branch: sequence public.s of node root is not replicated",
        "londiste add-seq --create public.s",
    ) in found
    assert (
        "node branch: table public.kept: column id is bigint, not integer as on node root" in texts
    )
    assert "node branch: table public.kept: column v is not there as on node root" in texts
    (why,) = (one["why"] for one in answer.json["findings"] if "is bigint" in one["what"])
    assert "stops the worker, or is rounded or cut without a message" in why
    do = {one["what"]: one["do"] for one in answer.json["findings"] if one["kind"] == "columns"}
    other_type = next(what for what in do if "is bigint" in what)
    ways = (do.pop(other_type), *do.values())
    assert ways == (
        'on node branch: alter table "public"."kept" alter column "id" type integer; then, with'
        " the settings of branch: londiste compare public.kept",
        "with the settings of branch: londiste columns public.kept --add",
    )
    branch.db.execute(ways[0].partition(": ")[2].partition(";")[0])
    assert londiste(branch.db, "columns", "kept", "--add").code == 0
    after = londiste(leaf.db, "check", "--all-nodes", "--json").json["findings"]
    assert "columns" not in {one["kind"] for one in after}
    assert "node leaf: table public.kept of node branch is not replicated" in texts
    assert (
        "node leaf: table public.left_out is replicated, but its provider branch has no copy of it"
    ) in texts
    assert "node leaf: table public.left_out is not in sync (waits for its copy)" in texts

    answer = londiste(leaf.db, "missing", "--all-nodes", "--json")
    assert answer.code == 1
    assert {row["node"] for row in answer.json["differences"]} == {"branch", "leaf"}
    assert all(row["do"] for row in answer.json["differences"])


KINDS = ("capture-lost", "renamed")


def test_captures_of_other_nodes_are_checked_and_say_where_to_act(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node, args in ((root, ()), (leaf, ("--expect-sync",))):
        node.db.execute(
            "create schema s; create table t (id int primary key);"
            " create table u (id int primary key); create table w (id int primary key)"
        )
        assert londiste(node.db, "add-table", "t", "u", "w", *args).code == 0
    answer = londiste(leaf.db, "check", "--all-nodes", "--json")
    assert {one["kind"] for one in answer.json["findings"]} == {"worker"}
    root.db.execute(
        "alter table t rename to z; alter table u rename to t; alter table z rename to u;"
        "alter table w set schema s"
    )
    shown = londiste(leaf.db, "status").out
    swapped = "table public.t was renamed: its changes are captured as those of table public.u"
    assert f"ERR: capture: {swapped}: londiste" in shown
    assert "not replicated" not in shown
    answer = londiste(leaf.db, "check", "--all-nodes", "--json")
    assert answer.code == 2
    assert answer.json["tables"] == 3
    found = {one["what"]: one["do"] for one in answer.json["findings"] if one["kind"] in KINDS}
    moved = found.pop("node root: table public.w: it was renamed to s.w")
    assert moved.startswith('on node root: alter table "s"."w" set schema "public"; or keep')
    for one, other in (("t", "u"), ("u", "t")):
        what = f"node root: table public.{one}: its changes are captured as those of table"
        do = found.pop(f"{what} public.{other}")
        back, _, keep = do.removeprefix("on node root: once for both tables: ").partition("; or ")
        assert keep == (
            f"keep the new names: londiste triggers --restore public.{one}, then on the nodes"
            f" below: londiste resync public.{one}"
        ), do
    assert found == {}
    root.db.execute(back)
    kept = [one["kind"] for one in londiste(root.db, "check", "--json").json["findings"]]
    assert "capture-lost" not in kept and "renamed" in kept


def test_a_node_that_does_not_answer_is_a_finding(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute(
        "update pgq_node.node_location set node_location = 'host=127.0.0.1 port=1 dbname=none'"
        " where node_name = 'leaf'"
    )
    answer = londiste(root.db, "check", "--all-nodes")
    assert answer.code == 2
    assert "node leaf was not checked" in answer.out
    assert leaf.db.value("select 1") == 1
    # The root has the SQL of an earlier version: it answers, so nobody is told to take over.
    root.db.execute("drop function londiste.get_follow_errors")
    (found,) = [
        one
        for one in londiste(leaf.db, "check", "--all-nodes", "--json").json["findings"]
        if "node root was not checked" in one["what"]
    ]
    assert (found["kind"], found["severity"]) == ("unknown", "unknown")
    assert found["do"].startswith("londiste install --db ")
    answer = londiste(leaf.db, "missing", "--all-nodes")
    assert "node root was not checked" in answer.err and found["do"] in answer.err


def _filtered(
    kind: str, where: str, bases: Mapping[str, str] | None = None, **rules: Any
) -> TableFacts:
    of = TableRules(where=where, **rules)
    return TableFacts(True, "ok", columns={"a": kind}, whole=False, rules=of, bases=bases or {})


def test_a_reader_sees_the_cascade_and_what_it_may_not_see_is_no_dead_node(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    role = f"sees_{os.getpid()}"
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute(f"create role {role} login in role londiste_reader")
    options = (f"db={make_conninfo(root.dsn, user=role)}", f"remote_extra_connstr=user={role}")
    as_reader = [word for one in options for word in ("--set", one)]

    def look() -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
        shown = londiste(root.db, *as_reader, "status")
        assert shown.code == 0, str(shown)
        checked = londiste(root.db, *as_reader, "check", "--all-nodes", "--json").json["findings"]
        found = londiste(root.db, *as_reader, "status", "--check", "--json").json["findings"]
        about = [[one for one in each if one["kind"] == "unknown"] for each in (found, checked)]
        assert not [o for o in (*found, *checked) if "start its server" in o["do"]], found
        assert "takeover" not in f"{found}{checked}" and "(dead" not in shown.out, str(shown)
        return shown.out, about[0], about[1]

    try:
        shown, found, _ = look()
        assert "+--: leaf (leaf)" in shown and "ERR" not in shown
        # Rows that stop a worker are for administrators only.
        why = "permission denied for function get_apply_errors"
        assert [why in one["why"] and "grant" in one["do"] for one in found] == [True, True]
        assert shown.count("UNKNOWN: unknown: whether an event stops its worker") == 2, shown
        for statement, why, do in (
            (
                "revoke execute on function pgq_node.get_node_info(text) from pgq_reader",
                "permission denied for function get_node_info",
                "grant the missing privilege",
            ),
            ("drop schema pgq_node cascade", "pgq_node", "londiste install"),
        ):
            leaf.db.execute(statement)
            shown, *about = look()
            assert "leaf (unknown)" in shown and do in shown, shown
            for found in about:
                (one,) = [one for one in found if one["what"] == "node leaf was not checked"]
                assert why in one["why"] and do in one["do"], one
    finally:
        root.db.execute(f"drop role {role}")


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (TableFacts(True, "ok"), set()),
        (TableFacts(True, "in-copy"), {"state"}),
        (TableFacts(True, "in-copy", "disk full"), {"state"}),
        (TableFacts(False), {"not-kept"}),
        (TableFacts(True, "ok", columns={"a": "text"}), {"columns"}),
        (TableFacts(True, "ok", columns={"a": "text"}, whole=False), set()),
        (_filtered("text", "A > 1 and f(b)"), {"filter-types"}),
        (_filtered("text", "b = 'a' and \"A\" = 1"), {"columns"}),
        (_filtered("bigint", "a = 1"), {"columns"}),
        (_filtered("integer", "a = 1"), set()),
        (_filtered("public.d", "a = 1", bases={"a": "integer"}), {"columns"}),
        (_filtered("public.d", "a = 1", bases={"a": "numeric"}), {"filter-types"}),
        (_filtered("text", "a = 1", changed=frozenset({"a"})), {"filter-types"}),
        (_filtered("text", "b = 1", skip_columns=frozenset({"a"})), set()),
    ],
)
def test_what_a_table_comes_to(table: TableFacts, kinds: set[str]) -> None:
    above = NodeFacts("root", "root", {"t": TableFacts(True, "ok", columns={"a": "integer"})})
    node = NodeFacts("leaf", "leaf", {"t": table})
    assert {one.kind for one in findings(node, above, "q")} == kinds
    if table.error:
        assert findings(node, above, "q")[0].why == "disk full"


def test_a_table_that_nobody_above_knows_is_critical() -> None:
    node = NodeFacts(
        "leaf", "leaf", {"t": TableFacts(True, "ok")}, keys=(("k of t", "pending", "why", "do"),)
    )
    found = findings(node, NodeFacts("root", "root"), "q")
    assert [one.kind for one in found] == ["unknown-above", "foreign-key"]


def test_foreign_keys_that_do_not_hold_are_named_with_what_helps(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    schema = (
        "create table a (id int primary key);"
        'create table b (id int primary key, a int constraint "k k" references a,'
        " a2 int constraint k2 references a);"
    )
    for node in (root, leaf):
        node.db.execute(schema)
    assert londiste(root.db, "add-table", "a", "b").code == 0
    assert londiste(leaf.db, "add-table", "a", "b", "--expect-sync").code == 0

    def keys() -> list[tuple[str, str, str]]:
        answer = londiste(leaf.db, "check", "--json")
        return [
            (f["what"], f["why"], f["do"])
            for f in answer.json["findings"]
            if f["kind"] == "foreign-key"
        ]

    assert keys() == []
    leaf.db.execute("alter table b drop constraint k2")
    leaf.db.execute("alter table b add constraint k2 foreign key (a2) references a not valid")
    assert leaf.db.value("select londiste.drop_table_fkey('public.b', 'k k')") == 1
    (off, not_valid) = keys()
    assert off[0] == "node leaf: foreign key k k of public.b is off"
    assert off[2] == "londiste fkeys --restore public.b"
    assert not_valid[0] == "node leaf: foreign key k2 of public.b is not valid"
    leaf.db.execute(not_valid[2])
    assert [one[0] for one in keys()] == [off[0]]
    # There, and its rows not yet looked at.
    leaf.db.execute(leaf.db.value("select londiste.restore_table_fkey('public.b', 'k k', true)"))
    assert [one[0] for one in keys()] == [
        "node leaf: foreign key k k of public.b is restored, its rows are not validated"
    ]
    assert londiste(leaf.db, *off[2].split()[1:]).code == 0
    assert keys() == []


def test_triggers_that_fire_for_replicated_rows_are_named(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute(
            "create table t (id int primary key) partition by range (id);"
            "create table t_1 partition of t for values from (0) to (10);"
            "create function f() returns trigger language plpgsql as 'begin return new; end';"
            'create trigger "each one" before insert on t for each row execute function f();'
            "create trigger quiet before insert on t for each row execute function f();"
            "create trigger part after insert on t_1 for each row execute function f();"
            'alter table t enable always trigger "each one";'
            "alter table t_1 enable always trigger part"
        )
    assert londiste(root.db, "add-table", "t").code == 0
    assert londiste(leaf.db, "add-table", "t", "--expect-sync").code == 0
    assert "always" not in londiste(root.db, "check", "--json").out
    answer = londiste(leaf.db, "check", "--json")
    assert answer.code == 1
    found = {f["what"]: f["do"] for f in answer.json["findings"] if f["kind"] == "always"}
    name = "node leaf: trigger {} of table public.{} fires for replicated rows, too (ALWAYS)"
    assert found.keys() == {name.format("each one", "t"), name.format("part", "t_1")}
    for what in found:
        leaf.db.execute(found[what].partition(";")[0])
    assert "always" not in londiste(leaf.db, "check", "--json").out


def test_a_compatible_trigger_that_names_partitions_is_found_and_made_again(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute(
        "create table t (id int primary key, v text) partition by range (id);"
        "create table t_1 partition of t for values from (0) to (10)"
    )
    assert londiste(root.db, "add-table", "t", "--trigger", "logutriga").code == 0
    assert londiste(root.db, "check").code == 0
    # As it was made before, by the original, too.
    root.db.execute(
        'drop trigger "_londiste_q" on t; create trigger "_londiste_q" after insert or update'
        " or delete on t for each row execute function pgq.logutriga('q', 'ignore=v')"
    )
    root.db.execute("insert into t values (1)")
    told = "select ev_extra1 from pgq.event_template where ev_type like 'I%' order by ev_id"
    assert root.db.execute(told) == [("public.t_1",)]
    answer = londiste(root.db, "check", "--json")
    assert answer.code == 2
    (found,) = [f for f in answer.json["findings"] if f["kind"] == "partition-names"]
    assert "names the partitions" in found["what"]
    assert "londiste resync public.t" in found["do"]
    shown = londiste(root.db, "triggers", "--json").json["triggers"]
    assert {row["state"] for row in shown} == {"ok", "unnamed"}
    mended = londiste(root.db, *found["do"].partition(";")[0].split()[1:])
    assert mended.code == 0, mended.err
    root.db.execute("insert into t values (2)")
    assert root.db.execute(told) == [("public.t_1",), ("public.t",)]
    (left,) = londiste(root.db, "check", "--json").json["findings"]
    assert left["kind"] == "rewritten"
    args = root.db.value(
        "select encode(tgargs, 'escape') from pg_trigger where tgrelid = 't'::regclass"
        " and tgname = '_londiste_q'"
    )
    assert "ignore=v" in args
