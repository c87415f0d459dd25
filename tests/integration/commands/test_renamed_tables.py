"""Tables that an application renames or swaps by hand, on root and nodes below, while rows come."""

from __future__ import annotations

import json

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.hints import plain
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first, only

SCHEMA = (
    "create schema other; create table public.a (id int primary key, v text);"
    " create schema shop; create table shop.c (id int primary key);"
    " create table public.d (id int primary key, v text)"
)
#: The old name; the new one, and the statements of the application.
WAYS = {
    "public.b": "alter table public.a rename to b",
    "other.a": "alter table public.a set schema other",
    'other."B c"': 'alter table public.a set schema other; alter table other.a rename to "B c"',
}


def typed(database: object, advice: str) -> None:
    """The statements that an advice begins with, as printed."""
    starts = ("alter table ", "begin", "com", "create schema ", "drop schema ")
    sql = [part for part in advice.split("; ") if part.startswith(starts)]
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
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5
    told = now.replace('"', "")
    assert f"it was renamed to {told}" in done.err
    assert "remove-table" not in done.err
    hint = done.err.partition("hint: ")[2].splitlines()[0]
    for node in (root, leaf):
        found = line.here(node, "check").out
        assert f"table public.a: it was renamed to {told}" in found
        assert "does not exist" not in found
        assert f"table public.a was renamed to {told}" in line.here(node, "status").out
        shown = line.here(node, "triggers").out
        assert f"the table was renamed to {told}" in shown
    assert "rename to" in hint or "set schema" in hint
    assert choices(line, leaf)[0]["what"] == f"{hint}; then retry"
    typed(leaf.database, hint)
    line.once(leaf)
    assert leaf.database.execute("select id from a order by 1") == [(1,), (2,), (3,)]
    assert "it was renamed to" not in line.here(leaf, "check").out
    advice = line.here(root, "check").out.partition("do:  ")[2].splitlines()[0]
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
    found = line.here(root, "check").out
    assert "table public.a: it was renamed to public.b" in found
    assert "they lack rows" in found
    assert "its events carry the new name" in line.here(root, "triggers").out
    advice = found.partition("do:  ")[2].splitlines()[0].partition("; or keep")[0]
    typed(root.database, advice)
    _, _, below = advice.partition("; then on each node below: ")
    done = line.here(leaf, *below.split()[1:])
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
    found = plain(line.here(root, "check").out)
    advice = found.partition("; or keep the new name: ")[2].splitlines()[0]
    refused = line.here(root, "add-table", "b")
    assert refused.code == 3
    assert "table public.b is replicated by its old name public.a" in refused.err
    assert f"hint: {advice}\n" in refused.err
    first, _, below = advice.partition(", and on each node below: ")
    for command in first.split(", "):
        done = line.here(root, *command.split()[1:])
        assert done.code == 0, str(done)
        root.database.execute("insert into b select count(*) + 1, 'y' from b")
    wait, rename, add = below.split(", ")
    assert rename == "then rename the table there"
    line.processes.start("ticker", line._argv(root, "ticker"))
    assert line.here(leaf, *wait.split()[1:]).code == 0
    leaf.database.execute("alter table a rename to b")
    done = line.here(leaf, *add.split()[1:])
    assert done.code == 0, str(done)
    root.database.execute("insert into b values (9, 'z')")
    line.wait(
        lambda: (
            leaf.database.execute("select * from b order by 1")
            == root.database.execute("select * from b order by 1")
        ),
        "the copy",
    )
    assert line.here(root, "check").code == 0


@pytest.mark.parametrize(
    ("statements", "back"),
    [
        pytest.param(
            "alter schema shop rename to sold",
            'alter schema "sold" rename to "shop"',
            marks=pytest.mark.slow,
        ),
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
        shown = line.here(leaf, command).out
        assert back in shown, shown
    leaf.database.execute(back)
    line.once(leaf)
    assert leaf.database.execute("select id from shop.c order by 1") == [(1,), (2,), (3,)]


#: What an application does with two tables; the name that the copied table a has then.
SWAPS = {
    "two": ("alter table a rename to z; alter table d rename to a; alter table z rename to d", "d"),
    "prepared": ("alter table a rename to old; create table a (id int primary key, v text)", "old"),
    "schema": (
        "alter table a set schema other; alter table other.a rename to x;"
        " create table a (id int primary key, v text)",
        "other.x",
    ),
}


def rows(node: LineNode) -> list[list[tuple[object, ...]]]:
    """The rows of both tables."""
    return [node.database.execute(f"select * from {name} order by 1") for name in ("a", "d")]


def in_step(line: Line, pair: tuple[LineNode, LineNode], **keys: object) -> None:
    """Replicates tables a and d, and makes the leaf equal."""
    root, leaf = pair
    if keys:
        line.configure(leaf, **keys)
    line.add(root, "a", "d")
    root.database.execute("insert into a select i, 'a' from generate_series(1, 3) i")
    root.database.execute("insert into d select i, 'd' from generate_series(1, 3) i")
    leaf.database.execute("insert into a select i, 'a' from generate_series(1, 3) i")
    leaf.database.execute("insert into d select i, 'd' from generate_series(1, 3) i")
    line.tick()
    line.once(leaf)
    line.add(leaf, "a", "d")
    line.once(leaf)


def choices(line: Line, node: LineNode) -> list[dict[str, str]]:
    """What ``events show`` offers about the only failed event."""
    (event,) = json.loads(line.here(node, "events", "show", "--json").out)["events"]
    offered: list[dict[str, str]] = event["choices"]
    return offered


CHANGES = """
    insert into {0} values (9, '{0}');
    update {0} set v = '{0} new' where id = 1;
    delete from {0} where id = 2
"""


@pytest.mark.parametrize("swap", first(["schema", "two", "prepared"]))
@pytest.mark.parametrize(
    "keys", first([{}, {"parallel_apply_min_events": 2}]), ids=["small", "large"]
)
def test_a_table_with_the_name_of_the_copied_one_is_not_written(
    line: Line, pair: tuple[LineNode, LineNode], swap: str, keys: dict[str, object]
) -> None:
    root, leaf = pair
    in_step(line, pair, **keys)
    before, position = rows(leaf), line.position(leaf)
    statements, now = SWAPS[swap]
    leaf.database.execute(f"begin; {statements}; commit")
    root.database.execute(CHANGES.format("a") + ";" + CHANGES.format("d"))
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    named = now if "." in now else f"public.{now}"
    assert "table public.a: public.a of node leaf is not the table that was copied" in done.err
    assert f"which is {named} now" in done.err
    assert line.position(leaf) == position
    hint = done.err.partition("hint: ")[2].splitlines()[0]
    assert hint.endswith("; or londiste resync public.a")
    offered = choices(line, leaf)
    assert offered[0]["what"] == hint.replace("; or londiste resync public.a", "; then retry")
    assert offered[1]["command"] == "londiste resync public.a"
    typed(leaf.database, hint)
    assert rows(leaf) == before
    line.once(leaf)
    assert rows(leaf) == rows(root)


def test_a_table_that_was_made_again_waits_for_a_decision(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    in_step(line, pair)
    leaf.database.execute("create table z as table a; drop table a; alter table z rename to a")
    leaf.database.execute("alter table a add primary key (id)")
    root.database.execute(CHANGES.format("a"))
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5 and "which was dropped" in done.err, str(done)
    hint = done.err.partition("hint: ")[2].splitlines()[0]
    assert hint.startswith("londiste resync public.a; or, if it has all rows: select ")
    offered = choices(line, leaf)
    assert offered[0]["command"] == "londiste resync public.a"
    assert offered[1]["what"] == f"if it has all rows: {hint.partition('rows: ')[2]}; then retry"
    leaf.database.execute(hint.partition("rows: ")[2])
    line.once(leaf)
    assert rows(leaf) == rows(root)


def test_the_worker_goes_on_in_a_database_that_was_restored(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    in_step(line, pair)
    leaf.database.execute("update londiste.table_version set home = 1, relid = 1")
    root.database.execute(CHANGES.format("a"))
    line.tick()
    line.once(leaf)
    assert rows(leaf) == rows(root)


def test_tables_that_are_swapped_while_a_batch_waits_for_them_are_not_written(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    in_step(line, pair)
    line.start(leaf)
    root.database.execute("insert into a values (4, 'a')")
    line.wait_position(leaf, line.tick())
    with leaf.database.connect() as conn, conn.transaction():
        conn.execute("set local search_path = public")
        conn.execute("lock table a, d in access exclusive mode")
        root.database.execute(CHANGES.format("a") + ";" + CHANGES.format("d"))
        line.tick()
        waiting = "select count(*) from pg_locks where not granted and relation = %s::regclass"
        line.wait(lambda: leaf.database.value(waiting, "a") > 0, "the write")
        for statement in SWAPS["two"][0].split(";"):
            conn.execute(statement.encode())
    line.wait(lambda: "is not the table that was copied" in (line.error(leaf) or ""), "the halt")
    leaf.database.execute(f"begin; {SWAPS['two'][0]}; commit")
    line.wait(lambda: rows(leaf) == rows(root), "the rows")


def test_one_of_two_exchanged_tables_is_not_removed_with_the_capture_of_the_other(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, _leaf = pair
    line.add(root, "a", "d")
    root.database.execute(f"begin; {SWAPS['two'][0]}; commit")
    done = line.here(root, "remove-table", "a")
    assert done.code != 0 and "captured as those of table public." in done.err, str(done)
    hint = done.err.partition("hint: once for both tables: ")[2].splitlines()[0]
    assert hint.endswith("; then repeat the command")
    typed(root.database, hint)
    line.here(root, "remove-table", "a")
    root.database.execute("insert into a values (1, 'a'); insert into d values (1, 'd')")
    assert told(root) == [("public.d",)]


#: How the table a is replaced on the root, where a script runs, or its capture is refreshed.
REPLACED = {
    "script": ("begin; {0}; {1}; commit", "execute", ""),
    "before": ("{0}", "execute", "{1}"),
    "refreshed": ("begin; {0}; {1}; commit", "", "select londiste.refresh_capture('line', 'old')"),
    # What another version left.
    "there": (
        "begin; {0}; {1}; commit; select londiste.create_capture('line', 'a', '{{ignore=v}}')",
        "",
        "select londiste.create_capture('line', 'old', '{{ignore=v}}', 'public.a')",
    ),
}


@pytest.mark.parametrize("way", only(REPLACED, "script", "before"))
def test_a_table_that_was_replaced_sends_no_changes_in_the_name_of_its_successor(
    line: Line, pair: tuple[LineNode, LineNode], way: str
) -> None:
    root, _leaf = pair
    line.add(root, "a", trigger_args=("ignore=v",))
    rename, create = "alter table a rename to old", "create table a (id int primary key, v text)"
    before, script, after = (part.format(rename, create) for part in REPLACED[way])
    root.database.execute(before)
    if script:
        path = line.directory / "x.sql"
        path.write_text("create table unrelated (x int)")
        assert line.here(root, "execute", str(path)).code == 0
    if way == "before":
        assert "table public.a: it was renamed to public.old" in line.here(root, "check").out
        root.database.execute("insert into old values (1, 'x')")
        assert told(root) == [("public.a",)]
    if after:
        root.database.execute(after)
    found = line.here(root, "check", "--json")
    (one,) = [one for one in json.loads(found.out)["findings"] if one["severity"] != "hint"]
    assert (one["kind"], one["severity"]) == ("capture-lost", "critical")
    assert "changes of public.old, which is not replicated, are captured as its own" in one["what"]
    assert one["do"].startswith("londiste triggers --restore public.a, then on the nodes below: ")
    assert "public.old" in line.here(root, "status").out
    events = len(told(root))
    assert line.here(root, "triggers", "--restore", "public.a").code == 0
    root.database.execute("insert into old values (2, 'x'); insert into a values (3, 'y')")
    root.database.execute("delete from old")
    assert told(root)[events:] == [("public.a",)]
    data = root.database.value("select ev_data from pgq.event_template order by ev_id desc limit 1")
    assert "id" in data and "v" not in data
    # What was not captured is named until the nodes below have it.
    (one,) = json.loads(line.here(root, "check", "--json").out)["findings"]
    root.database.execute(one["do"].partition("; then here: ")[2])
    assert line.here(root, "check").code == 0


def test_a_renamed_parent_and_its_inheriting_tables_send_the_old_name_until_it_is_removed(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, _leaf = pair
    strays = "select table_name, stray, is_renamed from londiste.stray_captures('line', null)"
    line.add(root, "a")
    root.database.execute("create table kid () inherits (a)")
    root.database.execute("select londiste.create_capture('line', 'kid', '{}', 'public.a')")
    assert root.database.execute(strays) == []
    root.database.execute("alter table a rename to old")
    root.database.execute("select londiste.refresh_capture('line', 'old')")
    assert root.database.execute(strays) == [("public.a", "public.old", True)]
    assert "table public.a: it was renamed to public.old" in line.here(root, "check").out
    root.database.execute("insert into old values (1, 'x'); insert into kid values (2, 'y')")
    assert told(root) == [("public.a",)] * 2
    assert line.here(root, "remove-table", "a").code == 0
    assert root.database.execute("select * from londiste._captures('line')") == []


def told(root: LineNode) -> list[tuple[object, ...]]:
    """The tables of the changes in the queue of a root."""
    return root.database.execute(
        "select ev_extra1 from pgq.event_template where ev_type !~ '^(pgq|londiste|EXECUTE)'"
    )
