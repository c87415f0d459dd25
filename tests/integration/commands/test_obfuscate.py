"""``obfuscate``: no original value comes to the leaf; ``shard``: each leaf has a part."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.handlers.obfuscate import Mask
from tests.fixtures.line import Line, LineNode
from tests.integration.capture.test_row_filter import in_step

SCHEMA = """
create table t (
    id int primary key, mail text unique, phone text default 'none', doc jsonb, age int, ok bool
)
"""
RULES = (
    '{"id": "keep", "mail": "hash", "doc": {"n": "keep", "who": "hash32"},'
    ' "age": "hash64", "ok": "bool"}'
)
LEAF = SCHEMA.replace("mail text", "mail uuid").replace("age int", "age bigint")
WRITES = """
insert into t select i, '0r1ginal-' || i, '0r1ginal-p' || i,
    jsonb_build_object('n', i, 'who', '0r1ginal-w' || i, 'x', '0r1ginal'), i, i % 2 = 0
from generate_series({}, {}) i
"""


def everything(node: LineNode) -> str:
    """The text of every row of every table of a database, system catalogs included."""
    with psycopg.connect(node.database.dsn, autocommit=True) as conn:
        names = conn.execute(
            "select oid::regclass::text from pg_class where relkind in ('r', 'm')"
            " and pg_table_is_visible(oid) is not null"
        ).fetchall()
        rows = " union all ".join(
            f"select string_agg(t::text, E'\\n') from {name} t" for (name,) in names
        )
        return "\n".join(text for (text,) in conn.execute(rows.encode()) if text)


def expected(root: LineNode) -> list[Any]:
    mask = Mask(RULES, b"k3y-of-test")
    rows = root.database.execute(
        "select id::text, mail, phone, doc::text, age::text, ok::text from t order by id"
    )
    result = []
    for row in rows:
        image = mask(dict(zip(("id", "mail", "phone", "doc", "age", "ok"), row, strict=True)))
        result.append(tuple(image[name] for name in ("id", "mail", "age", "ok")))
    return result


def here(leaf: LineNode) -> list[Any]:
    return leaf.database.execute(
        "select id::text, mail::text, age::text, left(ok::text, 1) from t order by id"
    )


@pytest.mark.parametrize("mode", ["snapshot", pytest.param("resumable", marks=pytest.mark.slow)])
def test_no_original_value_comes_to_the_leaf(line: Line, mode: str) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema=LEAF,
        obfuscator_key="k3y-of-test",
        parallel_apply_min_events=400,
    )
    line.add(root, "t", form="row")
    root.database.execute(WRITES.format(1, 300))
    done = line.run(
        leaf,
        "add-table",
        "t",
        "--copy-mode",
        mode,
        "--handler",
        "obfuscate",
        "--handler-arg",
        f"rules={RULES}",
    )
    assert done.code == 0, str(done)
    in_step(line, leaf)
    assert here(leaf) == expected(root)
    for statement in (
        "update t set mail = '0r1ginal-new' || id, doc = null where id < 20",
        "delete from t where id between 20 and 30",
        "update t set id = id + 5000 where id between 40 and 45",
        WRITES.format(1000, 1010),
        WRITES.format(2000, 3500),
        "update t set ok = not ok, mail = mail || '-more'",
        # Unique values that move.
        "begin; update t set mail = 'tmp' where id = 50;"
        "update t set mail = '0r1ginal-50-more' where id = 51;"
        "update t set mail = '0r1ginal-51-more' where id = 50; commit",
    ):
        root.database.execute(statement)
        line.wait_position(leaf, line.tick())
    assert here(leaf) == expected(root)
    assert leaf.database.value("select count(*) from t where phone <> 'none'") == 0
    assert leaf.database.value("select way from londiste.get_large_batch('line')") == "job"
    done = line.run(leaf, "compare")
    assert done.code == 0, str(done)
    with psycopg.connect(leaf.database.dsn) as conn:
        conn.execute("set session_replication_role = replica")
        conn.execute("update t set mail = gen_random_uuid() where id = 60")
        conn.execute("delete from t where id = 61")
    done = line.run(leaf, "compare")
    assert (done.code, "differs: id='60': mail" in done.err) == (3, True), str(done)
    assert "0r1ginal" not in done.err
    assert line.run(leaf, "repair", "--apply").code == 0
    assert here(leaf) == expected(root)
    found = everything(leaf)
    assert "0r1ginal" not in found
    assert "k3y-of-test" not in found
    assert "0r1ginal" in everything(root)


def test_a_worker_with_another_key_stops(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=LEAF, obfuscator_key="k3y-of-test")
    options = ("--handler", "obfuscate", "--handler-arg", f"rules={RULES}")
    line.configure(root, obfuscator_key="k3y-of-test")
    assert "the root cannot change values" in line.run(root, "add-table", "t", *options).err
    line.add(root, "t")
    assert (
        "reads column mail"
        in line.run(leaf, "add-table", "t", *options, "--where", "mail is not null").err
    )
    assert line.run(leaf, "add-table", "t", "--expect-sync", *options).code == 0
    line.configure(leaf, obfuscator_key="another")
    root.database.execute(WRITES.format(1, 3))
    line.tick()
    done = line.run(leaf, "worker", "--once")
    assert done.code != 0
    assert "not the one that the table was added with" in done.err
    assert leaf.database.value("select count(*) from t") == 0


def test_shards_are_all_of_the_table_and_each_row_is_in_one(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    line.add(root, "t")
    root.database.execute(WRITES.format(1, 100))
    leaves = []
    for nr in (0, 1):
        leaf = line.node(f"leaf{nr}", NodeType.LEAF, root, schema=SCHEMA)
        done = line.run(
            leaf,
            "add-table",
            "t",
            "--handler",
            "part",
            "--handler-arg",
            "key=mail",
            "--handler-arg",
            f"nr={nr}",
            "--handler-arg",
            "count=2",
        )
        assert done.code == 0, str(done)
        in_step(line, leaf)
        leaves.append(leaf)
    root.database.execute("update t set mail = mail || 'x' where id < 50")
    root.database.execute("delete from t where id > 90;" + WRITES.format(200, 240))
    tick = line.tick()
    for leaf in leaves:
        line.wait_position(leaf, tick)
        assert line.run(leaf, "compare").code == 0
    parts = [leaf.database.execute("select t::text from t") for leaf in leaves]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == sorted(root.database.execute("select t::text from t"))
    for wrong in ("count=3", "nr=2"):
        name, _, value = wrong.partition("=")
        options = {"nr": "0", "count": "2", name: value}
        done = line.run(
            leaves[0],
            "change-handler",
            "t",
            "--handler",
            "shard",
            "--handler-arg",
            "key=id",
            *(w for k, v in options.items() for w in ("--handler-arg", f"{k}={v}")),
        )
        assert done.code == 2, str(done)
