"""``londiste check`` reports faulty captures and nothing else."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from londiste.monitor.captures.rules import BrokenCapture, CaptureFacts, findings
from londiste.monitor.doctor.examine import examine
from londiste.monitor.queues.model import Severity
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.support.hints import plain
from tests.support.servers.kept_nodes import kept_nodes


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes, londiste: CommandLine) -> Node:
    node = nodes_of.root()
    node.db.execute("create table fruit (id int primary key, name text, doc jsonb)")
    assert londiste(node.db, "add-table", "fruit").code == 0
    return node


def kinds(node: Node, londiste: CommandLine, *args: str) -> tuple[int, list[str]]:
    answer = londiste(node.db, "check", "--json", *args)
    return answer.code, [finding["kind"] for finding in answer.json["findings"]]


def test_a_table_without_fault_has_no_finding(root: Node, londiste: CommandLine) -> None:
    root.db.execute(
        "insert into fruit select g, repeat('x', 100000) from generate_series(1, 9) as g"
    )
    assert kinds(root, londiste) == (0, [])
    assert kinds(root, londiste, "--sizes") == (0, [])
    assert londiste(root.db, "check").out == ""


def test_a_lost_capture_is_critical_and_the_finding_restores_it_with_its_options(
    root: Node, londiste: CommandLine
) -> None:
    # The queue has the table under another name; its events omit a column.
    root.db.execute('create table "Herbs there" (id int primary key, secret text)')
    options = ("--dest-table", "Herbs there", "--trigger-arg", "ignore=secret")
    assert londiste(root.db, "add-table", "herbs", *options).code == 0
    root.db.execute('alter table "Herbs there" disable trigger user')
    assert kinds(root, londiste) == (2, ["capture-lost"])
    (found,) = londiste(root.db, "check", "--json").json["findings"]
    assert "create_capture" not in found["do"]
    restore, _, copy = found["do"].partition(", then on the nodes below: ")
    assert copy == "londiste resync public.herbs"
    assert londiste(root.db, *shlex.split(restore)[1:]).code == 0
    assert kinds(root, londiste) == (1, ["rewritten"])
    (found,) = londiste(root.db, "check", "--json").json["findings"]
    root.db.execute(found["do"].partition("; then here: ")[2])
    assert kinds(root, londiste) == (0, [])
    root.db.execute("insert into \"Herbs there\" values (7, 'hidden')")
    events = "select ev_data from pgq.event_template where ev_extra1 = 'public.herbs'"
    (event,) = root.db.execute(events)
    assert "7" in event[0] and "hidden" not in event[0]


def test_a_table_without_any_trigger_is_critical(root: Node, londiste: CommandLine) -> None:
    root.db.execute(
        "do $$ declare t record; begin for t in select tgname from pg_trigger"
        " where tgrelid = 'fruit'::regclass and not tgisinternal"
        " loop execute format('drop trigger %I on fruit', t.tgname); end loop; end $$"
    )
    code, found = kinds(root, londiste)
    assert (code, found[0]) == (2, "capture-lost")
    printed = plain(londiste(root.db, "check").out)
    assert "do:  londiste triggers --restore public.fruit, then" in printed
    assert londiste(root.db, "triggers", "--restore", "public.fruit").code == 0
    assert kinds(root, londiste) == (1, ["rewritten"])


def test_every_finding_about_a_table_that_was_dropped_on_the_root_removes_it(
    root: Node, londiste: CommandLine
) -> None:
    root.db.execute("drop table fruit")
    answer = londiste(root.db, "check", "--json")
    found = answer.json["findings"]
    assert answer.code == 2 and {one["kind"] for one in found} == {"capture-lost", "missing"}
    removals = {one["do"].partition("; ")[0] for one in found}
    assert removals == {"londiste remove-table public.fruit"}
    assert londiste(root.db, *shlex.split(removals.pop())[1:]).code == 0
    assert kinds(root, londiste) == (0, [])


def test_a_stale_capture_says_how_to_refresh_it(root: Node, londiste: CommandLine) -> None:
    root.db.execute("alter table fruit add price numeric")
    assert kinds(root, londiste) == (1, ["capture-stale"])
    answer: Any = londiste(root.db, "check", "--json").json
    root.db.execute(answer["findings"][0]["do"])
    assert kinds(root, londiste) == (0, [])


def test_a_trigger_argument_at_which_writes_fail_is_critical(
    root: Node, londiste: CommandLine
) -> None:
    for name, trigger in (("a", "capture"), ("b", "sqltriga")):
        root.db.execute(f"create table {name} (id int primary key, v int)")
        how = ("--trigger", trigger, "--trigger-arg", "when=v is not null")
        assert londiste(root.db, "add-table", name, *how).code == 0
    root.db.execute("alter table a rename v to w; alter table b rename v to w")
    code, found = kinds(root, londiste)
    assert (code, found) == (2, ["capture-broken"] * 2)
    for one in londiste(root.db, "check", "--json").json["findings"]:
        assert one["why"] == 'column "v" does not exist'
        root.db.execute(one["do"].partition(": ")[2].replace("when=v", "when=w"))
    assert kinds(root, londiste) == (0, [])
    root.db.execute("insert into a values (1, 1); insert into b values (1, 1)")


def test_keys_that_cost_or_are_missing(root: Node, londiste: CommandLine) -> None:
    root.db.execute("create table log (a int); create table f (id float8 primary key)")
    root.db.execute("create table given (a int not null unique, b text)")
    assert londiste(root.db, "add-table", "log", "--insert-only").code == 0
    assert londiste(root.db, "add-table", "f").code == 0
    assert londiste(root.db, "add-table", "given", "--trigger-arg", "pkey=a").code == 0
    assert kinds(root, londiste) == (1, ["no-key", "key-text"])


def test_a_table_whose_rows_match_by_all_columns_needs_no_key(
    nodes_of: Nodes, root: Node, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    for node, words in ((root, ("--whole-row",)), (leaf, ("--expect-sync",))):
        node.db.execute("create table nk (a int, b text); create table k (a int primary key)")
        assert londiste(node.db, "add-table", "nk", *words).code == 0
        assert londiste(node.db, "add-table", "k", *words[node is root :]).code == 0
        assert "no-key" not in kinds(node, londiste)[1]
    leaf.db.execute("alter table k drop constraint k_pkey")
    [lost] = [
        one
        for one in londiste(leaf.db, "check", "--json").json["findings"]
        if one["kind"] == "no-key"
    ]
    assert lost["what"] == "table public.k: it has no primary key"
    assert "each UPDATE and DELETE reads the whole table" in lost["why"]
    assert "refused" not in lost["why"]


def test_a_given_key_that_may_be_null(root: Node, londiste: CommandLine) -> None:
    root.db.execute('create table given (a int not null unique, "é b" int not null)')
    assert londiste(root.db, "add-table", "given", "--trigger-arg", "pkey=a,é b").code == 0
    root.db.execute('alter table given alter "é b" drop not null')
    assert kinds(root, londiste) == (1, ["key-null"])
    answer: Any = londiste(root.db, "check", "--json").json
    root.db.execute(answer["findings"][0]["do"])
    assert kinds(root, londiste) == (0, [])


def test_large_values_are_found_when_they_are_looked_for(root: Node, londiste: CommandLine) -> None:
    # compresses to little, but has to be written out
    root.db.execute("alter table fruit disable trigger user")
    root.db.execute("insert into fruit values (1, repeat('x', 150 * 1024 * 1024))")
    root.db.execute("alter table fruit enable trigger user")
    assert kinds(root, londiste) == (0, [])
    assert kinds(root, londiste, "--sizes") == (1, ["size"])
    assert "its largest value has 150 MB" in londiste(root.db, "check", "--sizes").out


def test_a_leaf_captures_nothing_and_that_is_right(
    nodes_of: Nodes, root: Node, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table fruit (id int primary key, name text, doc jsonb)")
    assert londiste(leaf.db, "add-table", "fruit", "--expect-sync").code == 0
    assert kinds(leaf, londiste) == (1, ["worker"])


def test_a_key_that_a_copy_has_dropped_is_not_missing(
    nodes_of: Nodes, root: Node, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table fruit (id int primary key, name text, doc jsonb)")
    assert londiste(leaf.db, "add-table", "fruit").code == 0
    ddl = "alter table public.fruit add constraint fruit_pkey primary key (id)"
    with leaf.db.connect() as conn:
        conn.execute("select londiste.local_set_table_state('q', 'public.fruit', null, 'in-copy')")
        conn.execute("alter table public.fruit drop constraint fruit_pkey")
        conn.execute("select londiste.local_set_table_struct('q', 'public.fruit', %s)", [ddl])
    assert "no-key" not in kinds(leaf, londiste)[1]
    found = examine(root.db.dsn, leaf.db.dsn, ["fruit"])
    assert [one for one in found if one.kind == "structure"] == []
    leaf.db.execute("select londiste.local_set_table_struct('q', 'public.fruit', null)")
    assert "no-key" in kinds(leaf, londiste)[1]
    found = examine(root.db.dsn, leaf.db.dsn, ["fruit"])
    assert [one.kind for one in found if one.kind == "structure"] == ["structure"]


UNKNOWN = BrokenCapture("t", "when=keep(v)", None, "select 1")


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        (CaptureFacts("t", broken=UNKNOWN), Severity.WARNING),
        (CaptureFacts("t", value=127 << 20, row=249 << 20), None),
        (CaptureFacts("t", value=128 << 20, row=1), Severity.WARNING),
        (CaptureFacts("t", value=256 << 20, row=1), Severity.CRITICAL),
        (CaptureFacts("t", value=1, row=500 << 20), Severity.CRITICAL),
        (CaptureFacts("t", width=1 << 20), Severity.WARNING),
        (CaptureFacts("t", width=1 << 20, value=2, row=2), None),
        (CaptureFacts("t", captures=False, trigger="deny"), None),
        (CaptureFacts("t", trigger="none"), Severity.CRITICAL),
        (CaptureFacts("t", stray="old"), Severity.CRITICAL),
        (CaptureFacts("t", stray="old", root=False), Severity.WARNING),
    ],
)
def test_findings_follow_from_facts(facts: CaptureFacts, severity: Severity | None) -> None:
    found = findings([facts], "q")
    assert [one.severity for one in found] == ([] if severity is None else [severity])


def test_rows_that_ddl_by_hand_has_changed_are_to_be_compared(
    root: Node, londiste: CommandLine
) -> None:
    root.db.execute("insert into fruit values (1, 'apple')")
    root.db.execute("alter table fruit alter name type text using upper(name)")
    root.db.execute("select londiste.refresh_capture('q', 'public.fruit')")
    root.db.execute("select londiste.periodic_maintenance()")
    assert kinds(root, londiste) == (1, ["rewritten"])
    (found,) = londiste(root.db, "check", "--json").json["findings"]
    assert "londiste resync public.fruit" in found["do"]
    shown = londiste(root.db, "status").out
    assert "table public.fruit was changed on this node without events" in shown
    root.db.execute(found["do"].rpartition("here: ")[2])
    assert kinds(root, londiste) == (0, [])
    assert "rewritten" not in londiste(root.db, "status").out


def test_check_finds_what_status_shows(root: Node, nodes_of: Nodes, londiste: CommandLine) -> None:
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table fruit (id int primary key, name text, doc jsonb)")
    assert londiste(leaf.db, "add-table", "fruit", "--expect-sync").code == 0
    # Its worker has never run: that is not ok.
    assert kinds(leaf, londiste) == (1, ["worker"])
    assert "worker: NOT RUNNING (never reported here)" in londiste(leaf.db, "check").out
    leaf.db.execute(
        "select pgq_node.set_consumer_error('q', %s, %s)", leaf.worker, "cannot go on\nmore"
    )
    leaf.db.execute("select pgq_node.set_consumer_paused('q', %s, true)", leaf.worker)
    assert kinds(leaf, londiste) == (2, ["error", "worker", "paused"])
    shown = plain(londiste(leaf.db, "check").out)
    assert "why: cannot go on" in shown
    assert "londiste resume --node leaf" in shown
    assert kinds(root, londiste, "--all-nodes") == (2, ["error", "worker", "paused"])


def test_wait_sync_of_a_node_without_tables_is_no_success(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(nodes_of.root(), "leaf")
    empty = londiste(leaf.db, "wait-sync")
    assert empty.code == 4
    assert "node leaf: no table is replicated" in empty.err
    assert londiste(leaf.db, "wait-sync", "--allow-empty").code == 0


def test_a_step_with_many_tables_is_one_short_line(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for number in range(40):
        root.db.execute(f"create table a_table_with_a_long_name_{number} (id serial primary key)")
    assert londiste(root.db, "add-table", "--all").code == 0
    shown = londiste(leaf.db, "add-table", "--all", "--create-full", "--dry-run")
    assert "-- add table public.a_table_with_a_long_name_39" in shown.out
    assert max(map(len, shown.out.splitlines())) < 400
    done = londiste(leaf.db, "add-table", "--all", "--create-full")
    assert done.code == 0, done.err
    assert "40 tables: public." in done.err
    assert max(map(len, done.err.splitlines())) < 400


def test_sessions_in_which_captures_do_not_fire_are_critical_until_the_finding_is_done(
    root: Node, londiste: CommandLine
) -> None:
    role = f'no "captures" {root.db.name}'
    quoted = role.replace('"', '""')
    database = f'database "{root.db.name}"'
    for statement in (
        f'create role "{quoted}" login',
        f'alter role "{quoted}" set session_replication_role = local',
        f"alter {database} set session_replication_role = replica",
    ):
        root.db.execute(statement)
    try:
        code, found = kinds(root, londiste)
        assert (code, found) == (2, ["replication-role"] * 2)
        shown = londiste(root.db, "status", "--check").out
        assert f"session_replication_role is local for role {role}: changes" in shown
        findings = londiste(root.db, "check", "--json").json["findings"]
        for finding in findings:
            statement = finding["do"].removeprefix("as an administrator: ").partition(";")[0]
            root.db.execute(statement)
        assert kinds(root, londiste) == (0, [])
    finally:
        root.db.execute(f"alter {database} reset session_replication_role")
        root.db.execute(f'drop role "{quoted}"')


def test_what_is_set_for_the_database_counts_more(root: Node, londiste: CommandLine) -> None:
    role = f"loader {root.db.name}"
    for statement in (
        f'create role "{role}" login',
        f'alter role "{role}" set session_replication_role = replica',
        f'alter role "{role}" in database "{root.db.name}" set session_replication_role = origin',
    ):
        root.db.execute(statement)
    try:
        assert kinds(root, londiste) == (0, [])
        root.db.execute(f'alter role "{role}" in database "{root.db.name}" reset all')
        root.db.execute(f'alter role "{role}" nologin')
        assert kinds(root, londiste) == (0, [])
    finally:
        root.db.execute(f'drop role "{role}"')


@pytest.mark.parametrize(
    ("kind", "why"), [("changed", "slower"), ("owner", "former owner"), ("locked", "waits for")]
)
def test_the_reason_of_a_stale_capture_is_decided_by_a_value(kind: str, why: str) -> None:
    (found,) = findings([CaptureFacts("t", stale="any text: select 1", stale_kind=kind)], "q")
    assert why in found.why
