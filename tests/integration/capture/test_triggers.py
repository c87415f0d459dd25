"""``londiste triggers`` lists triggers of replicated tables and repairs capture triggers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

SCHEMA = """
create table t (id int primary key, v text);
create function note() returns trigger language plpgsql as 'begin return new; end';
create trigger plain before insert on t for each row execute function note();
create trigger each after insert on t for each row execute function note();
alter table t enable always trigger each;
"""


@pytest.fixture
@kept_nodes
def pair(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute(SCHEMA)
    assert londiste(root.db, "add-table", "t", "--trigger-arg", "ignore=v").code == 0
    assert londiste(leaf.db, "add-table", "t", "--expect-sync").code == 0
    return root, leaf


def shown(node: Node, londiste: CommandLine) -> list[dict[str, Any]]:
    answer = londiste(node.db, "triggers", "--json")
    assert answer.code == 0, answer.err
    rows: list[dict[str, Any]] = answer.json["triggers"]
    return rows


def kinds(node: Node, londiste: CommandLine) -> set[str]:
    """What captures its tables."""
    return {row["kind"] for row in shown(node, londiste)} - {"user"}


def states(node: Node, londiste: CommandLine) -> set[str]:
    return {row["state"] for row in shown(node, londiste)}


def test_triggers_are_shown_with_when_they_fire(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, leaf = pair
    for node, kind in ((root, "capture"), (leaf, "deny")):
        rows = shown(node, londiste)
        assert {row["kind"] for row in rows} == {"user", kind}
        users = {row["trigger"]: (row["fires"], row["on_apply"]) for row in rows
                 if row["kind"] == "user"}  # fmt: skip
        assert users == {"plain": ("application", False), "each": ("always", True)}
        assert states(node, londiste) == {"ok"}
        assert londiste(node.db, "triggers", "--restore", "--dry-run").out == "nothing to do\n"


def test_a_capture_that_is_disabled_is_made_again_and_the_gap_is_said(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, leaf = pair
    root.db.execute("alter table t disable trigger user")
    assert "lost" in states(root, londiste)
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    accept = "select londiste.accept_rewrite(E'q', E'public.t')"
    assert f"on every node below: londiste resync public.t; then here: {accept}\n" in answer.err
    # Nobody takes the nodes below for equal before that.
    shown = ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--status"]
    assert "table public.t was changed on this node without events" in londiste(root.db, *shown).out
    root.db.execute(accept)
    assert "without events" not in londiste(root.db, *shown).out
    assert states(root, londiste) == {"ok"}
    assert kinds(root, londiste) == {"capture"}
    # Its options are those of before, and what the user disabled stays so.
    root.db.execute("insert into t values (1, 'secret')")
    root.tick()
    events = "select ev_data from pgq.event_template where ev_extra1 = 'public.t'"
    told = root.db.execute(events)
    assert len(told) == 1
    assert "secret" not in str(told)
    assert root.db.value("select tgenabled from pg_trigger where tgname = 'plain'") == "D"


def test_captures_that_do_not_fit_keep_no_other_from_coming_back(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, _ = pair
    for name in ("a", "b"):
        root.db.execute(f"create table {name} (id int primary key, v text)")
        added = londiste(root.db, "add-table", name, "--trigger-arg", "when=v > ''")
        assert added.code == 0, added.err
    root.db.execute("alter table a rename v to w; alter table b rename v to w")
    root.db.execute("alter table b disable trigger user; alter table t disable trigger user")
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 2, answer.err
    assert "root: recreate the triggers of table public.t" in answer.err
    assert "arguments do not fit their tables: public.a, public.b" in answer.err
    left = {row["table"] for row in shown(root, londiste) if row["state"] != "ok"}
    assert left == {"public.a", "public.b"}
    # The statements of the hint help.
    hint = answer.err.rpartition("with the arguments corrected: ")[2].partition("\n")[0]
    assert hint.count("when=v") == 2
    root.db.execute(hint.replace("when=v", "when=w"))
    assert states(root, londiste) == {"ok"}


#: What takes a capture away: the triggers are disabled, some are dropped, all are dropped.
LOSSES = {
    "disabled": "alter table mine disable trigger user",
    "main": 'drop trigger "_londiste_q" on mine; drop trigger "_londiste_q_truncate" on mine',
    "dropped": (
        "do $$ declare t name; begin for t in select tgname from pg_trigger"
        " where tgrelid = 'mine'::regclass and not tgisinternal"
        " loop execute format('drop trigger %I on mine', t); end loop; end $$"
    ),
}


@pytest.mark.parametrize("form", first(["statement", "row"]))
@pytest.mark.parametrize("loss", LOSSES)
def test_a_native_capture_comes_back_with_all_its_options(
    nodes_of: Nodes, londiste: CommandLine, loss: str, form: str
) -> None:
    root = nodes_of.root()
    root.db.execute("create table mine (id int primary key, k int not null unique, v text)")
    words = [f"--trigger-arg={one}" for one in ("ignore=v", "when=id > 0", "pkey=k")]
    given = ["t", "--dest-table", "mine", "--form", form, *words]
    assert londiste(root.db, "add-table", *given).code == 0
    before = root.db.execute("select args from londiste._captures('q')")
    root.db.execute(LOSSES[loss])
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    assert kinds(root, londiste) == {"capture"}
    assert root.db.execute("select args from londiste._captures('q')") == before
    assert before[0][0][:2] == ["q", "public.t"]


def test_a_capture_of_replicated_rows_stays_one_when_it_is_restored(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int primary key)")
    for options in ((), ("--trigger", "logutriga")):
        assert londiste(root.db, "add-table", "t", *options).code == 0
        root.db.value("select londiste.fire_always('q', 't')")
        root.db.execute('alter table t disable trigger "_londiste_q"')
        assert londiste(root.db, "triggers", "--restore").code == 0
        rows = shown(root, londiste)
        assert {row["fires"] for row in rows if "no_partition" not in row["trigger"]} == {"always"}
        assert londiste(root.db, "remove-table", "t").code == 0


def test_options_that_nothing_shows_any_more_are_named(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute("create table mine (id int, v text)")
    assert londiste(root.db, "add-table", "mine", "--whole-row").code == 0
    root.db.execute(LOSSES["dropped"])
    # As an older version left it.
    name = root.db.value("select p.oid::regprocedure from pg_proc p where proname ~ '^_capture_q'")
    comment = '{"queue": "q", "table": "public.mine"}'
    root.db.execute(f"comment on function {name} is '{comment}'")
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    assert "select londiste.create_capture('q', 'public.mine', '{ignore=COLUMN}')" in answer.err
    # That it has no key is an attribute of the table.
    assert root.db.value("select args[3:] from londiste._captures('q')") == ["whole_row"]


@pytest.mark.parametrize("loss", ["alter table t disable trigger user", 'drop trigger "{}" on t'])
@pytest.mark.parametrize("kind", first(["logutriga", "jsontriga", "sqltriga"]))
def test_a_compatible_trigger_stays_compatible(
    nodes_of: Nodes, londiste: CommandLine, kind: str, loss: str
) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int primary key, v text)")
    words = ["--trigger", kind, "--trigger-arg", "ignore=v"]
    assert londiste(root.db, "add-table", "t", *words).code == 0
    arguments = "select tgargs from pg_trigger where tgname = '_londiste_q'"
    before = root.db.value(arguments)
    root.db.execute(loss.format("_londiste_q"))
    assert states(root, londiste) & {"disabled", "missing"}
    answer = londiste(root.db, "triggers", "t", "--restore")
    assert answer.code == 0, answer.err
    assert states(root, londiste) == {"ok"}
    if "disable" in loss:
        assert kinds(root, londiste) == {kind}
        assert root.db.value(arguments) == before
    else:
        # The trigger for TRUNCATE is left.  It is the same for the three.
        assert kinds(root, londiste) == {"logutriga"}
        assert "it gets logutriga without options" in answer.err


def test_a_table_without_triggers_gets_the_one_that_add_table_gives(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int primary key, v text)")
    assert londiste(root.db, "add-table", "t", "--no-triggers").code == 0
    answer = londiste(root.db, "triggers", "t", "--restore")
    assert answer.code == 0, answer.err
    assert "it gets capture without options" in answer.err
    assert "londiste change-form public.t --trigger KIND" in answer.err
    assert kinds(root, londiste) == {"capture"}


def test_the_capture_of_another_queue_is_not_taken_for_its_own(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute(
        "create table t (id int primary key, v text); select pgq.create_queue('a');"
        " select londiste.create_capture('a', 't', '{form=row,ignore=v}')"
    )
    assert londiste(root.db, "add-table", "t", "--no-triggers").code == 0
    assert "missing" in states(root, londiste)
    answer = londiste(root.db, "change-form", "t", "row")
    assert "its trigger is none" in answer.err
    assert londiste(root.db, "triggers", "t", "--restore").code == 0
    assert root.db.value("select args[3:] from londiste._captures('q')") == []
    assert root.db.value("select args[3:] from londiste._captures('a')") == ["form=row", "ignore=v"]


def test_a_stale_capture_is_made_anew(pair: tuple[Node, Node], londiste: CommandLine) -> None:
    root, _ = pair
    root.db.execute("alter table t add w int")
    assert "stale" in states(root, londiste)
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    assert "resync" not in answer.err
    assert states(root, londiste) == {"ok"}


def test_a_leaf_that_no_longer_refuses_writes_is_named_and_mended(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    _, leaf = pair
    names = [row["trigger"] for row in shown(leaf, londiste) if row["kind"] == "deny"]
    for name in names:
        leaf.db.execute(f'drop trigger "{name}" on t')
    assert "missing" in states(leaf, londiste)
    # It may have been added so.
    assert londiste(leaf.db, "triggers", "--restore", "--dry-run").out == "nothing to do\n"
    assert londiste(leaf.db, "triggers", "t", "--restore").code == 0
    with pytest.raises(psycopg.Error):
        leaf.db.execute("insert into t values (1, 'x')")
    assert londiste(leaf.db, "triggers", "nope").code == 2


@pytest.mark.parametrize("of_leaf", first([True, False]))
def test_a_table_that_another_session_has_locked_is_named_and_the_others_are_listed(
    pair: tuple[Node, Node], londiste: CommandLine, of_leaf: bool
) -> None:
    node = pair[of_leaf]
    for one, *expect in ((pair[0],), (pair[1], "--expect-sync")):
        one.db.execute("create table parted (id int primary key) partition by range (id)")
        one.db.execute("create table part partition of parted for values from (0) to (9)")
        one.db.execute("create table u (id int primary key)")
        assert londiste(one.db, "add-table", "parted", "u", *expect).code == 0
        one.db.execute("create table free (id int primary key) partition by range (id)")
        one.db.execute("create table free_1 partition of free for values from (0) to (9)")
    with node.db.connect(name="vacuum full", autocommit=False) as other:
        other.execute("lock table public.t, only public.part, only public.free_1")
        by = f"locked by vacuum full of postgres, process {other.info.backend_pid}"
        answer = londiste(node.db, "triggers", "--json")
        assert answer.code == 0, answer.err
        rows = answer.json["triggers"]
        assert {row["table"] for row in rows if row["state"] == "ok"} == {"public.u"}
        table, part = (row for row in rows if row["state"] != "ok")
        assert (part["table"], table["table"]) == ("public.parted", "public.t")
        assert part["state"] == table["state"] == "locked"
        assert part["why"].startswith(f"with its partition public.part {by}")
        assert table["why"].startswith(by)
        assert f"select pg_terminate_backend({other.info.backend_pid})" in table["do"]
        restored = londiste(node.db, "triggers", "--restore")
        assert restored.code == 6 and f"table public.t: {by}" in restored.err
        shown = londiste(node.db, "tables", "-v")
        assert shown.code == 0, shown.err
        for name, told in (("t", not of_leaf), ("parted", not of_leaf), ("u", False)):
            (line,) = (x for x in shown.out.splitlines() if x.startswith(f"public.{name} "))
            assert ("another session has locked the table" in line) is told
            assert (f"warning: table public.{name} is" in shown.err) is (name != "u")
        checked = londiste(node.db, "check", "--json").json["findings"]
        found = sorted(one["what"] for one in checked if one["kind"] == "capture-stale")
        assert [one.partition(", for ")[0] for one in found] == [
            f"table public.parted: it is with its partition public.part {by}",
            f"table public.t: it is {by}",
        ][: 0 if of_leaf else 2]
        shown = londiste(node.db, "missing")
        assert shown.code == 0, shown.err
        not_known = f"not checked: with its partition public.free_1 {by}"
        assert (not_known in shown.out) is not of_leaf
