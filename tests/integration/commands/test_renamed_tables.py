"""Tables that an application renames by hand, on the root and on nodes below, while rows come."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

SCHEMA = (
    "create schema other; create table public.a (id int primary key, v text);"
    " create schema shop; create table shop.c (id int primary key)"
)
#: The old name; the new one, and the statements of the application.
WAYS = {
    "public.b": "alter table public.a rename to b",
    "other.a": "alter table public.a set schema other",
    'other."B c"': 'alter table public.a set schema other; alter table other.a rename to "B c"',
}


def typed(database: object, advice: str) -> None:
    """The statements that an advice begins with, as printed."""
    sql = [part for part in advice.split("; ") if part.startswith("alter table ")]
    assert sql, advice
    database.execute("; ".join(sql))  # type: ignore[attr-defined]


@pytest.fixture
@kept_nodes
def pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    return root, leaf


@pytest.mark.parametrize(
    "now",
    # Another schema and another name are both in the last of them.
    first(['other."B c"', "public.b", "other.a"]),
)
def test_a_table_renamed_on_root_and_leaf_is_named_and_the_advice_brings_it_back(
    line: Line, pair: tuple[LineNode, LineNode], now: str
) -> None:
    root, leaf = pair
    line.add(root, "a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "a")
    root.database.execute("insert into a values (1, 'x')")
    line.tick()
    line.once(leaf)
    for node, row in ((root, 2), (leaf, 3)):
        node.database.execute(WAYS[now])
        root.database.execute(f"insert into {now} values ({row}, 'y')")
    line.tick()
    done = line.run(leaf, "worker", "--once")
    assert done.code == 5
    told = now.replace('"', "")
    assert f"it was renamed to {told}" in done.err
    assert "remove-table" not in done.err
    hint = done.err.partition("hint: ")[2].splitlines()[0]
    for node in (root, leaf):
        found = line.run(node, "check").out
        assert f"table public.a: it was renamed to {told}" in found
        assert "does not exist" not in found
        assert f"table public.a was renamed to {told}" in line.run(node, "status").out
        shown = line.run(node, "triggers").out
        assert f"the table was renamed to {told}" in shown
    assert "rename to" in hint or "set schema" in hint
    typed(leaf.database, hint)
    line.once(leaf)
    assert leaf.database.execute("select id from a order by 1") == [(1,), (2,), (3,)]
    assert "it was renamed to" not in line.run(leaf, "check").out
    advice = line.run(root, "check").out.partition("do:  ")[2].splitlines()[0]
    assert "resync" not in advice
    typed(root.database, advice.partition("; or keep")[0])
    root.database.execute("insert into a values (4, 'z')")
    line.tick()
    line.once(leaf)
    assert leaf.database.execute("select * from a order by 1") == root.database.execute(
        "select * from a order by 1"
    )
    assert leaf.database.value("select count(*) from a") == 4


def test_events_of_a_compatible_trigger_carry_the_new_name_and_the_table_is_copied_again(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    line.add(root, "a", trigger="logutriga")
    line.tick()
    line.once(leaf)
    line.add(leaf, "a")
    root.database.execute("alter table a rename to b")
    root.database.execute("insert into b values (1, 'x')")
    line.tick()
    line.once(leaf)
    found = line.run(root, "check").out
    assert "table public.a: it was renamed to public.b" in found
    assert "they lack rows" in found
    assert "its events carry the new name" in line.run(root, "triggers").out
    advice = found.partition("do:  ")[2].splitlines()[0].partition("; or keep")[0]
    typed(root.database, advice)
    _, _, below = advice.partition("; then on each node below: ")
    done = line.run(leaf, *below.split()[1:])
    assert done.code == 0, str(done)
    root.database.execute("insert into a values (2, 'y')")
    line.start(leaf)
    line.wait(
        lambda: (
            line.tick(),
            leaf.database.execute("select id from a order by 1") == [(1,), (2,)],
        )[1],
        "the copy",
    )


def test_the_new_name_is_kept_everywhere_as_the_advice_says(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    line.add(root, "a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "a")
    line.start(leaf)
    root.database.execute("alter table a rename to b")
    root.database.execute("insert into b values (1, 'x')")
    advice = line.run(root, "check").out.partition("; or keep the new name: ")[2].splitlines()[0]
    refused = line.run(root, "add-table", "b")
    assert refused.code == 3
    assert "table public.b is replicated by its old name public.a" in refused.err
    assert f"hint: {advice}\n" in refused.err
    first, _, below = advice.partition(", and on each node below: ")
    for command in first.split(", "):
        done = line.run(root, *command.split()[1:])
        assert done.code == 0, str(done)
        root.database.execute("insert into b select count(*) + 1, 'y' from b")
    wait, rename, add = below.split(", ")
    assert rename == "then rename the table there"
    line.processes.start("ticker", line._argv(root, "ticker"))
    assert line.run(leaf, *wait.split()[1:]).code == 0
    leaf.database.execute("alter table a rename to b")
    done = line.run(leaf, *add.split()[1:])
    assert done.code == 0, str(done)
    root.database.execute("insert into b values (9, 'z')")
    line.wait(
        lambda: (
            leaf.database.execute("select * from b order by 1")
            == root.database.execute("select * from b order by 1")
        ),
        "the copy",
    )
    assert line.run(root, "check").code == 0


@pytest.mark.parametrize(
    ("statements", "back"),
    [
        ("alter schema shop rename to sold", 'alter schema "sold" rename to "shop"'),
        # The other schema has not become this one: it keeps its name.
        (
            "alter table shop.c set schema public; drop schema shop",
            'create schema "shop"; alter table "public"."c" set schema "shop"',
        ),
    ],
)
def test_a_table_whose_schema_is_gone_is_brought_back_with_it(
    line: Line, pair: tuple[LineNode, LineNode], statements: str, back: str
) -> None:
    root, leaf = pair
    for name in ("a", "shop.c"):
        line.add(root, name)
        line.tick()
        line.once(leaf)
        line.add(leaf, name)
    root.database.execute("insert into shop.c values (1)")
    line.tick()
    line.once(leaf)
    # A worker that runs remembers the table.
    worker = line.start(leaf)
    root.database.execute("insert into shop.c values (2)")
    line.wait_position(leaf, line.tick())
    leaf.database.execute(statements)
    root.database.execute("insert into shop.c values (3)")
    line.tick()
    line.wait(lambda: line.error(leaf) is not None, "the halt")
    worker.stop()
    assert "it was renamed to" in (line.error(leaf) or "")
    assert "resync" not in (line.error(leaf) or "")
    for command in ("check", "triggers"):
        shown = line.run(leaf, command).out
        assert back in shown, shown
    leaf.database.execute(back)
    line.once(leaf)
    assert leaf.database.execute("select id from shop.c order by 1") == [(1,), (2,), (3,)]
