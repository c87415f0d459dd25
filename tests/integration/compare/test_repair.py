"""``londiste compare`` down to the rows, and ``londiste repair``."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.compare import repair_plan
from londiste.errors import BadOption
from tests.fixtures.line import Command, Line, LineNode
from tests.integration.compare.test_compare import damage
from tests.support.servers.kept_nodes import kept_nodes

HOSTILE = 'we"ird\n-- \\ table; x'
SCHEMA = """
create type mood as enum ('sad', 'ok');
create table keyed (id int primary key, a text, b numeric, "C c" bytea, m mood);
create table words (w text primary key, n int);
create table two (a int, b uuid, v float8, primary key (a, b));
create table bare (a int, b text);
create table uniq (id int primary key, u int not null unique, v text);
create table ident (id int primary key, s int generated always as identity, v text,
    g int generated always as (id * 2) stored);
create table parent (id int primary key);
create table child (id int primary key, p int references parent on delete cascade);
create table "we""ird
-- \\ table; x" ("k%s" int primary key, "v
'" text);
"""
TABLES = ["keyed", "words", "two", "bare", "uniq", "ident", "parent", "child", HOSTILE]
FILL = """
insert into keyed select i, 'x' || i, i / 7.0, '\\x00', 'ok' from generate_series(1, 50) i;
insert into words select md5(i::text), i from generate_series(1, 30) i;
insert into two select i % 5, md5(i::text)::uuid, i / 3.0 from generate_series(1, 30) i;
insert into bare select i % 3, null from generate_series(1, 12) i;
insert into uniq select i, i, 'u' from generate_series(1, 10) i;
insert into ident (id, v) select i, 'v' from generate_series(1, 5) i;
insert into parent select i from generate_series(1, 5) i;
insert into child select i, i from generate_series(1, 5) i;
insert into "we""ird
-- \\ table; x" values (1, E'a\\nb\\\\c'), (2, $$'; drop table keyed; --$$), (3, null);
"""
DAMAGE = """
delete from keyed where id in (7, 50);
insert into keyed values (100, E'line\\n-- \\\\ '' row', 1.00, null, 'sad');
update keyed set a = null, m = null where id = 3;
update keyed set b = 1.0 where id = 8;
update words set n = -n where w = md5('1');
insert into words values (E'new\\r\\n\\t', 1), ('', null);
update two set v = '-0' where a = 0;
delete from bare where ctid = (select min(ctid) from bare where a = 1);
insert into bare select 2, null from generate_series(1, 3);
insert into bare values (null, null), (null, 'x');
update uniq set u = -u;
update uniq set u = 11 + u;
update ident set s = default where id = 2;
delete from ident where id = 4;
delete from parent where id = 2;
update "we""ird
-- \\ table; x" set "v
'" = E'z\\n' where "k%s" in (1, 3);
"""


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    for node in (root, leaf):
        node.database.execute(FILL)
        line.add(node, *TABLES, insert_only=True, expect_sync=True)
    line.tick()
    line.once(leaf)
    return root, leaf


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """Root and leaf with the same rows, and a running worker."""
    root, leaf = _pair(line)
    line.start(leaf)
    return root, leaf


def answer(line: Line, node: LineNode, *args: str, code: int) -> dict[str, Any]:
    done = line.here(node, *args, "--json")
    assert done.code == code, str(done)
    found: dict[str, Any] = json.loads(done.out)
    return found


def contents(node: LineNode, *tables: str) -> dict[str, list[Any]]:
    return {
        table: sorted(
            str(row) for row in node.database.execute(f"select t::text from {quoted(table)} t")
        )
        for table in tables or TABLES
    }


def quoted(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def test_every_row_that_differs_is_named_and_nothing_else(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    damage(leaf, DAMAGE)
    found = {t["table"]: t for t in answer(line, leaf, "compare", code=3)["tables"]}
    counts = {
        name.removeprefix("public."): (t["missing"], t["extra"], t["differs"])
        for name, t in found.items()
    }
    assert counts == {
        "keyed": (2, 1, 2),
        "words": (0, 2, 1),
        "two": (0, 0, 6),
        "bare": (1, 5, 0),
        "uniq": (0, 0, 10),
        "ident": (1, 0, 1),
        "parent": (1, 0, 0),
        "child": (0, 0, 0),
        HOSTILE: (0, 0, 2),
    }
    rows = found["public.keyed"]["rows"]
    assert {
        "kind": "differs",
        "key": {"id": "8"},
        "columns": {"b": {"root": "1.1428571428571429", "here": "1.0"}},
    } in rows
    assert {
        "kind": "missing",
        "key": {"id": "50"},
        "row": {"id": "50", "a": "x50", "b": "7.1428571428571429", "C c": "\\x00", "m": "ok"},
    } in rows
    assert found["public.two"]["rows"][0]["columns"]["v"]["here"] == "-0"


def test_repair_writes_a_plan_and_applies_it(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path
) -> None:
    root, leaf = pair
    damage(leaf, DAMAGE)
    path = tmp_path / "fix.sql"
    broken = contents(leaf)
    assert answer(line, leaf, "repair", "--plan", str(path), code=3)["equal"] is False
    assert contents(leaf) == broken
    assert path.stat().st_mode & 0o077 == 0
    statements = [
        row
        for row in path.read_text(encoding="utf-8").splitlines()
        if row and not row.startswith("--")
    ]
    assert all(row.endswith(";") for row in statements)
    # With the options of this call, so that it works with the file of a cascade, too.
    apply = f"--     londiste -c {leaf.config} repair --apply --plan {path}"
    assert apply in path.read_text(encoding="utf-8").splitlines()
    again = line.here(leaf, "repair", "--plan", str(path))
    assert (again.code, again.err.splitlines()[0]) == (2, f"error: {path}: file exists")
    assert (
        "in one transaction"
        in line.here(leaf, "repair", "--apply", "--plan", str(path), "--dry-run").out
    )
    done = answer(line, leaf, "repair", "--apply", "--plan", str(path), code=0)
    assert (done["equal"], done["stale"]) == (True, [])
    assert contents(leaf) == contents(root)
    assert answer(line, leaf, "compare", code=0)["equal"] is True
    # The rows that depend on one that was deleted and is back are still there.
    assert leaf.database.value("select count(*) from child where p = 2") == 1
    # Replication goes on.
    root.database.execute("update keyed set a = 'on' where id = 7")
    line.wait_position(leaf, line.tick())
    assert leaf.database.value("select a from keyed where id = 7") == "on"


def test_a_plan_is_what_psql_can_run_too(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    root, leaf = pair
    damage(leaf, DAMAGE)
    done = line.here(leaf, "repair")
    assert done.code == 3
    with psycopg.connect(leaf.database.dsn, autocommit=True) as conn:
        conn.execute(done.out.encode())
    assert contents(leaf) == contents(root)


def test_a_plan_leaves_rows_alone_that_were_taken_out_or_have_changed_since(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path
) -> None:
    root, leaf = pair
    damage(leaf, "update keyed set a = 'wrong' where id in (1, 2, 3, 5)")
    path = tmp_path / "fix.sql"
    line.here(leaf, "repair", "keyed", "--plan", str(path))
    # Row 5 is to stay as it is.
    blocks = path.read_text().split("\n\n")
    path.write_text(
        "\n\n".join(block for block in blocks if '"id": "5"' not in block and '["5"]' not in block)
    )
    # One is changed on the root, one was repaired here; one stays to be done.
    root.database.execute("update keyed set a = 'newer' where id = 1")
    damage(leaf, "update keyed set a = 'x2' where id = 2")
    line.wait_position(leaf, line.tick())
    damage(leaf, "update keyed set a = 'odd' where id = 1")
    done = line.here(leaf, "repair", "--apply", "--plan", str(path))
    assert done.code == 3, str(done)
    assert "public.keyed: row (id) = (1): skipped, it has changed since" in done.err
    assert "public.keyed: row (id) = (2): already equal" in done.err
    assert "update only" not in done.err
    assert "wrote 1 row" in done.err
    assert leaf.database.execute("select a from keyed where id in (1, 2, 3, 5) order by id") == [
        ("odd",),
        ("x2",),
        ("x3",),
        ("wrong",),
    ]


def test_a_plan_with_an_edited_statement_is_refused_with_its_line(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path, command: Command
) -> None:
    root, leaf = pair
    damage(
        leaf,
        "update keyed set a = 'wrong' where id = 5; delete from keyed where id = 6;"
        "update uniq set u = 77 where id = 1; insert into words values ('extra', 1)",
    )
    path = tmp_path / "fix.sql"
    assert command(leaf, "repair", "--plan", str(path)).code == 3
    good = path.read_text()
    broken = contents(leaf)

    def numbers(text: str, what: str) -> list[int]:
        return [n for n, one in enumerate(text.split("\n"), 1) if one.startswith(what)]

    # Each hits one row, and is not what the note says.
    for what, old, new in (
        ('update only "public"."keyed"', "'x5'", "'hand made'"),
        ('update only "public"."keyed"', "E'5'::integer", "E'7'::integer"),
        ('update only "public"."keyed"', " set ", " set b = 0, "),
        ('insert into "public"."keyed"', "'x6'", "'y6'"),
        ('delete from only "public"."words"', "'extra'", "'other'"),
        ('update only "public"."keyed"', ";", "; drop table keyed;"),
    ):
        lines = good.split("\n")
        (number,) = numbers(good, what)
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new)
        path.write_text("\n".join(lines))
        done = command(leaf, "repair", "--apply", "--plan", str(path))
        assert done.code == 2, str(done)
        assert f"fix.sql, line {number}: the statement does not match its row" in done.err
        assert "hint: do not edit values" in done.err
        assert contents(leaf) == broken
    # A row that is deleted and inserted goes as a whole, or not at all.
    lines = good.split("\n")
    (number,) = numbers(good, 'delete from only "public"."uniq"')
    del lines[number - 2 : number]
    text = "\n".join(lines)
    path.write_text(text)
    done = command(leaf, "repair", "--apply", "--plan", str(path))
    (number,) = numbers(text, 'insert into "public"."uniq"')
    assert f"fix.sql, line {number}: the row has 2 statements" in done.err
    assert (done.code, contents(leaf)) == (2, broken)
    path.write_text(good)
    assert command(leaf, "repair", "--apply", "--plan", str(path)).code == 0
    assert contents(leaf) == contents(root)


def test_a_repair_that_is_killed_has_written_nothing_and_holds_nothing(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    damage(leaf, DAMAGE)
    broken = contents(leaf)
    done = line.run(leaf, "repair", "--apply", env={"LONDISTE_CRASH": "repair.mid-plan:4"})
    assert done.code == -signal.SIGKILL
    line.wait(
        lambda: (
            not leaf.database.value(
                "select count(*) from pg_stat_activity where application_name = 'londiste repair'"
            )
        ),
        "the end of the session",
    )
    assert contents(leaf) == broken
    assert line.here(leaf, "repair", "--apply").code == 0
    assert contents(leaf) == contents(root)


PLANS = [
    ("select 1;", "line 1: not a repair plan"),
    ("-- londiste repair plan 1\ndelete from keyed;", "line 2: a statement without a -- row line"),
    ("-- londiste repair plan 1\n-- row {", "line 2: invalid format"),
    ("-- londiste repair plan 1\n", "line 2: the end of the file is missing"),
    (
        '-- londiste repair plan 1\n-- plan {"queue": "q"}\nbegin;\n',
        "line 4: the end of the file is missing",
    ),
    (
        "-- londiste repair plan 1\nbegin;\ndrop table keyed;",
        "line 3: a statement without a -- row line",
    ),
]


@pytest.mark.parametrize(("text", "error"), PLANS)
def test_a_file_that_is_no_plan_is_refused(text: str, error: str) -> None:
    with pytest.raises(BadOption) as caught:
        repair_plan.parse(text, "fix.sql")
    assert str(caught.value).startswith(f"fix.sql, {error}")


def test_conditions_counts_and_limits(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path
) -> None:
    _, leaf = pair
    damage(leaf, "update keyed set b = -1 where id in (1, 40); delete from keyed where id = 2")
    found = answer(line, leaf, "compare", "keyed", "--where", "b < 1", code=3)["tables"][0]
    # Row 40 is inside of the condition here only: a row that differs, and not one too many.
    assert [(r["kind"], r["key"]["id"]) for r in found["rows"]] == [
        ("differs", "1"),
        ("missing", "2"),
        ("differs", "40"),
    ]
    done = line.here(leaf, "compare", "keyed", "--where", "nope <")
    assert (done.code, done.err.splitlines()[0][:21]) == (2, "error: --where nope <")
    done = line.here(leaf, "compare", "keyed", "--where", "true); drop table keyed; select (true")
    assert done.code == 2 and "multiple commands" in done.err, str(done)
    damage(leaf, "insert into keyed (id) values (51)")
    tables = answer(line, leaf, "compare", "--count-only", "keyed", "words", code=0)["tables"]
    assert [(t["equal"], t["rows_here"]) for t in tables] == [(True, 50), (True, 30)]
    found = answer(line, leaf, "compare", "keyed", "--limit", "3", code=3)["tables"][0]
    assert (found["more"], len(found["rows"])) == (True, 3)
    done = line.here(leaf, "repair", "keyed", "--limit", "3", "--apply")
    assert done.code == 3
    assert "error: table public.keyed: more than 3 rows differ" in done.err
    assert "londiste resync public.keyed" in done.err
    other = tmp_path / "other.sql"
    other.write_text('-- londiste repair plan 1\n-- plan {"queue": "other"}\ncommit;\n')
    done = line.here(leaf, "repair", "--apply", "--plan", str(other))
    assert (done.code, "plan of queue other" in done.err) == (2, True)
    done = line.here(leaf, "repair", "--plan", str(tmp_path / "no" / "fix.sql"))
    assert (done.code, "does not exist" in done.err) == (2, True)


def test_swapped_unique_values_of_a_table_with_columns_of_its_own(line: Line) -> None:
    schema = "create table swap (id int primary key, u text unique{});"
    schema += "create table more (id int primary key)"
    root = line.node("root", NodeType.ROOT, schema=schema.format(""))
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema.format(", own text"))
    root.database.execute("insert into swap values (1, 'a'), (2, 'b'); insert into more values (1)")
    leaf.database.execute("insert into swap values (1, 'b', 'x'), (2, 'a', 'y')")
    for node in (root, leaf):
        line.add(node, "swap", "more", insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    done = line.here(leaf, "repair", "--apply")
    assert done.code == 1, str(done)
    assert "nothing was written; update of public.swap: row (id) = (1)" in done.err
    assert "hint: give one of the rows of public.swap on this node an unused value" in done.err
    damage(leaf, "update swap set u = 'unused' where id = 2")
    assert line.here(leaf, "repair", "--apply").code == 0
    expected = [(1, "a", "x"), (2, "b", "y")]
    assert leaf.database.execute("select * from swap order by id") == expected
