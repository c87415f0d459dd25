"""Auto-add: tables added on the root appear on the node, and are removed with those of the root."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line

#: A function that a type needs: --create creates types, and no functions.
FITS = "create function fits(text) returns bool language sql immutable as 'select true'"


def test_tables_added_on_the_root_appear_where_they_are_followed(
    line: Line, command: Command
) -> None:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        auto_add_tables=["*", "sales.*"],
        auto_add_exclude=["*_log"],
        auto_add_create="columns",
    )
    root.database.execute(
        f"create schema sales; {FITS}; create domain mood as text check (fits(value));"
        "create table a (id serial primary key, v text); insert into a values (1, 'there');"
        'create table sales."B*" (id int primary key);'
        "create table odd (id int primary key, m mood);"
        "create table a_log (id int primary key)"
    )
    line.start(leaf)
    line.add(root, "a", "sales.*", "odd", "a_log")
    root.database.execute("insert into a values (2, 'meanwhile')")

    def kept() -> set[str]:
        line.tick()
        rows = leaf.database.execute(
            "select table_name from londiste.table_info where local and merge_state = 'ok'"
        )
        return {name for (name,) in rows}

    # What cannot be made holds nothing else up.
    line.wait(lambda: kept() == {"public.a", "sales.B*"}, "the followed tables", 60)
    assert leaf.worker is not None
    line.wait(
        lambda: "table public.odd: cannot add it automatically" in line.processes.report(),
        "the reason",
    )
    shown = command(leaf, "status").out
    assert "ERR: follow: public.odd cannot be added:" in shown
    assert "fits" in shown
    answer = command(leaf, "check", "--json")
    (found,) = [f for f in answer.json["findings"] if f["kind"] == "not-followed"]
    assert found["what"] == "node leaf: public.odd matches auto_add_tables and cannot be added"
    assert "fits" in found["why"] and "auto_add_exclude" in found["do"]
    missing = line.here(leaf, "missing")
    assert "public.odd" in missing.out and "public.a_log" in missing.out
    # Nobody hears of it again when its worker dies.
    leaf.worker.kill()
    leaf.database.execute(FITS)
    line.start(leaf)
    line.wait(lambda: "public.odd" in kept(), "the table whose function is there now", 60)
    line.wait(lambda: "follow:" not in command(leaf, "status").out, "the reason to be gone")
    sequences = "select seq_name from londiste.seq_info where local"
    refused = line.here(leaf, "remove-table", "a")
    assert refused.code == 2
    assert "auto_add_exclude" in refused.err
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute("select * from a order by id") == [
        (1, "there"),
        (2, "meanwhile"),
    ]
    assert root.database.execute(sequences) == [("public.a_id_seq",)]
    assert line.here(root, "remove-table", "a").code == 0
    line.wait(lambda: "public.a" not in kept(), "the table to be gone", 60)
    assert leaf.database.value("select count(*) from a") == 2
    assert leaf.worker.stop() == 0


def test_sequences_are_followed_where_they_exist(line: Line) -> None:
    root = line.node(
        "root", NodeType.ROOT, schema='create sequence "s*"; create sequence only_here'
    )
    leaf = line.node(
        "leaf", NodeType.LEAF, root, schema='create sequence "s*"', auto_add_tables=["*"]
    )
    done = line.here(root, "add-seq", r"s\*", "only_here")
    assert done.code == 0, str(done)
    line.start(leaf)

    def followed() -> bool:
        line.tick()
        return bool(leaf.database.value('select last_value from "s*"') == 30001)

    line.wait(followed, "the sequence to be followed", 40)
    assert leaf.worker is not None and leaf.worker.stop() == 0
