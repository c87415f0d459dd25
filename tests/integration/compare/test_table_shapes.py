"""Comparing and repairing tables that are awkward, between servers of different releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Server
from tests.fixtures.line import Line, LineNode
from tests.integration.compare.test_compare import damage

SCHEMA = """
create schema collations;
{collations}
create type mood as enum ({labels});
create type pt as (x int, y text);
create domain dom as int check (value < 100000);
create table nokey (a int, b text);
create table nullable (a int unique, b text);
create table by_mood (m mood, n int, v text, primary key (m, n));
create table by_text (t text collate collations.one, n int, v text, primary key (t, n));
create table by_char (c char(6) primary key, v char(3));
create table by_num (n numeric primary key, v numeric);
create table by_time (t timestamptz primary key, v interval);
create table by_dom (d dom primary key, v pt, w pt[]);
create table floats (id int primary key, f float8, g float4);
create table docs (id int primary key, j jsonb, k json, a int[], b text[], r int4range, i inet,
    bb bit varying(9), e mood[]);
create table lonely (id int primary key, v text);
create table made (id int primary key, a int, g int generated always as (a * 2) stored);
"""
FILL = """
insert into nokey select i % 3, nullif(i % 4, 0) from generate_series(1, 30) i;
insert into nullable select nullif(i % 12, 0), 'v' from generate_series(1, 12) i;
insert into nullable values (null, 'v'), (null, null);
insert into by_mood select m, n, 'v' from unnest(enum_range(null::mood)) m, generate_series(1, 3) n;
insert into by_text select t, n, 'v' from generate_series(1, 3) n,
    unnest(array['a', 'b', 'Ä', 'ä', 'z', 'ß', 'a b', 'a-b', 'ab', '', ' ', E'a\\nb']) t;
insert into by_char values ('a', 'x'), ('a b', ''), ('', null);
insert into by_num values ('NaN', 'NaN'), (1.50, 1.50), (-1, 1e-10), (1e30, 0.000);
insert into by_time values ('infinity', '1 mon'), ('-infinity', '30 days'), ('0044-03-15 BC', null);
insert into by_dom values (1, row(1, 'a,"b'), array[row(1, null)::pt, null]), (2, null, '{}');
insert into floats values (1, '-0', 'NaN'), (2, 'NaN', '-0'), (3, 'Infinity', 1e-40), (4, 0.1, 0.1);
insert into docs values (1, '{"b": 1.0, "a": null}', '{"b":  1}', '{1,null}', '{"a,b",null,"NULL"}',
    '[1,)', '10.0.0.1/8', '101', '{ok}'),
    (2, null, null, '{}', '[2:3]={a,b}', 'empty', null, '', null);
insert into made select i, i from generate_series(1, 5) i;
"""
DAMAGE = {
    "nokey": ("delete from nokey where ctid = (select min(ctid) from nokey where a = 1)", 1),
    "nullable": ("update nullable set b = 'w' where ctid = (select max(ctid) from nullable)", 2),
    "by_mood": ("update by_mood set v = null where n = 2", 3),
    "by_text": ("update by_text set v = 'V' where t in ('ä', 'a b') and n = 1", 2),
    "by_char": ("update by_char set v = 'y' where c = ''", 1),
    "by_num": (
        "update by_num set v = 1.5 where n = 1.5; update by_num set v = 0 where n = 'NaN'",
        2,
    ),
    "by_time": ("update by_time set v = '1 mon' where t = '-infinity'", 1),
    "by_dom": ("update by_dom set w = null, v = null where d = 2", 1),
    "floats": ("update floats set f = 0 where id = 1; update floats set g = 0 where id = 2", 2),
    "docs": ("update docs set j = 'null', a = null, b = '{a,b}' where id = 2", 1),
    "lonely": ("insert into lonely values (1, null), (2, '')", 2),
    "made": ("update made set a = 7 where id = 1; delete from made where id = 2", 2),
}


def collations(*, icu: bool) -> str:
    kind = "provider = icu, locale = 'de-u-kn'" if icu else "locale = 'C'"
    return f"create collation collations.one ({kind});"


def compared(line: Line, node: LineNode, *args: str, code: int) -> dict[str, Any]:
    done = line.here(node, *args, "--json")
    assert done.code == code, str(done)
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.mark.slow
def test_awkward_tables_between_releases(line: Line, server_of: Callable[[int], Server]) -> None:
    """Collations, orders of enum labels and names that are not the same on both sides."""
    root = line.node(
        "root",
        NodeType.ROOT,
        on=server_of(15),
        schema=SCHEMA.format(collations=collations(icu=True), labels="'sad', 'ok', 'a''b'"),
    )
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        on=server_of(18),
        schema=SCHEMA.format(collations=collations(icu=False), labels="'a''b', 'ok', 'sad'"),
    )
    for node in (root, leaf):
        node.database.execute(FILL)
        line.add(node, *DAMAGE, insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    assert compared(line, leaf, "compare", code=0)["equal"] is True
    for statements, _ in DAMAGE.values():
        for statement in statements.split("; "):
            damage(leaf, statement)
    found = compared(line, leaf, "compare", code=3)["tables"]
    assert {t["table"].removeprefix("public."): len(t["rows"]) for t in found} == {
        name: count for name, (_, count) in DAMAGE.items()
    }
    assert compared(line, leaf, "repair", "--apply", code=0)["equal"] is True
