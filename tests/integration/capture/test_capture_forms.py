"""Commands that choose the trigger and the capture mode of a table."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes) -> Node:
    node = nodes_of.root()
    node.db.execute("create table fruit (id int primary key, name text)")
    node.db.execute("create table nut (id int primary key, name text)")
    return node


def kinds(node: Node, londiste: CommandLine) -> dict[str, tuple[str, str | None]]:
    answer = londiste(node.db, "tables", "-v", "--json")
    assert answer.code == 0, answer.err
    return {row["table"]: (row["trigger"], row["form"]) for row in answer.json["tables"]}


@pytest.mark.parametrize("kind", ["capture", "logutriga", "jsontriga", "sqltriga"])
def test_the_trigger_is_chosen_by_name(root: Node, londiste: CommandLine, kind: str) -> None:
    answer = londiste(root.db, "add-table", "fruit", "--trigger", kind)
    assert answer.code == 0, answer.err
    assert kinds(root, londiste)["public.fruit"][0] == kind


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--trigger", "capture", "--trigger-flags", "L"], "letter L selects another trigger"),
        (["--trigger", "sqltriga", "--trigger-flags", "JI"], "letter J selects another trigger"),
        (["--trigger", "capture", "--trigger-flags", "BS"], "can neither fire before"),
        (["--trigger", "logutriga", "--form", "row"], "modes of the native capture"),
        (["--trigger-flags", "Q", "--form", "row"], "modes of the native capture"),
        (["--form", "row", "--trigger-arg", "form=statement"], "use one of them"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(
    root: Node, londiste: CommandLine, args: list[str], what: str
) -> None:
    answer = londiste(root.db, "add-table", "fruit", *args)
    assert answer.code == 2
    assert answer.err.startswith("error: --")
    assert what in answer.err
    assert "hint: " in answer.err
    assert kinds(root, londiste) == {}


def test_a_form_is_chosen_shown_and_changed(root: Node, londiste: CommandLine) -> None:
    assert londiste(root.db, "add-table", "fruit", "--form", "row").code == 0
    assert londiste(root.db, "add-table", "nut").code == 0
    shown = londiste(root.db, "tables", "-v", "--json").json["tables"]
    assert shown[0]["form"] == "row"
    assert all(row["trigger"] == "capture" and row["reason"] for row in shown)
    assert "reason" in londiste(root.db, "tables", "-v").out

    explained = londiste(root.db, "change-form", "fruit", "nut", "statement", "--dry-run")
    assert explained.code == 0
    assert len(explained.out.splitlines()) == 2
    assert kinds(root, londiste)["public.fruit"] == ("capture", "row")

    answer = londiste(root.db, "change-form", "fruit", "nut", "statement", "--json")
    assert answer.code == 0, answer.err
    assert len(answer.json["done"]) == 2
    assert kinds(root, londiste) == {
        "public.fruit": ("capture", "statement"),
        "public.nut": ("capture", "statement"),
    }
    again = londiste(root.db, "change-form", "*", "statement", "--json")
    assert again.code == 0
    assert again.json == {"version": 1, "done": []}
    root.db.execute("insert into fruit values (1, 'kiwi')")


def test_what_cannot_be_changed_is_said(root: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "fruit")
    londiste(root.db, "add-table", "nut", "--trigger", "logutriga")
    for args, what in (
        (["fruit"], "fruit: unknown capture mode"),
        (["row"], "no table given"),
        ([], "unknown capture mode"),
        (["fruit", "column"], "column: unknown capture mode"),
        (["absent", "row"], "table absent is not replicated here"),
        (["nut", "row"], "table public.nut has no capture mode: its trigger is logutriga"),
    ):
        answer = londiste(root.db, "change-form", *args)
        assert answer.code != 0
        assert what in answer.err.splitlines()[0]
        assert "hint: " in answer.err
        assert "Traceback" not in answer.err


def test_a_form_for_a_table_that_is_there_is_not_taken_and_says_so(
    root: Node, londiste: CommandLine
) -> None:
    assert londiste(root.db, "add-table", "fruit", "--form", "row").code == 0
    again = londiste(root.db, "add-table", "fruit", "--form", "statement")
    assert again.code == 0
    assert "londiste change-form" in again.err
    assert kinds(root, londiste)["public.fruit"] == ("capture", "row")


def test_a_leaf_has_no_forms(nodes_of: Nodes, root: Node, londiste: CommandLine) -> None:
    leaf = nodes_of.below(root, "leaf")
    answer = londiste(leaf.db, "change-form", "fruit", "row")
    assert answer.code == 2
    assert "captures no changes of its own" in answer.err
    assert "run the command on the root" in answer.err


def test_a_locked_table_keeps_its_form(root: Node, londiste: CommandLine) -> None:
    assert londiste(root.db, "add-table", "fruit", "--form", "row").code == 0
    with psycopg.connect(root.dsn) as writer:
        writer.execute("insert into fruit values (1, 'kiwi')")
        answer = londiste(root.db, "--set", "lock_timeout=0.2", "change-form", "fruit", "statement")
        assert answer.code != 0
        assert "stays locked" in answer.err
    assert kinds(root, londiste)["public.fruit"] == ("capture", "row")


def test_a_form_changes_while_others_write(root: Node, londiste: CommandLine) -> None:
    assert londiste(root.db, "add-table", "fruit", "--form", "row").code == 0
    stop = threading.Event()
    written = []

    def write() -> None:
        with psycopg.connect(root.dsn, autocommit=True) as conn:
            while not stop.is_set():
                conn.execute(
                    "insert into fruit select %s + g from generate_series(1, 12) as g",
                    [20 * len(written)],
                )
                written.append(12)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for form in ("statement", "row", "auto", "statement"):
            answer = londiste(root.db, "change-form", "fruit", form)
            assert answer.code == 0, answer.err
    finally:
        stop.set()
        thread.join()
    captured = root.db.value(
        "select sum(array_length(string_to_array(ev_data, E'\\n'), 1))"
        " from pgq.event_template where ev_extra1 = 'public.fruit'"
    )
    assert captured == sum(written)
