"""Every handler at once: copied, replayed by workers that are killed in the middle, compared."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.handlers import registry
from tests.fixtures.line import Line, LineNode
from tests.integration.forwarding.test_filtered_branch import in_step, run

TABLE = """
create table {} (
    id int primary key, at timestamptz not null default '2026-02-03', n numeric, doc jsonb
);
"""
#: What is written into every table, in three portions; the worker dies in each.
WRITES = (
    "insert into {0} (id, n, doc) select i, i, '{{\"a\": 1}}' from generate_series(100, 140) i;"
    " update {0} set n = n + 0.5, at = at + '1 h' where id < 20",
    "delete from {0} where id between 5 and 8; update {0} set at = '2026-03-04 05:06' where id = 9;"
    " insert into {0} values (200, '2026-03-05', 1)",
    "update {0} set n = -n, doc = null, at = at + '1 h' where id % 2 = 0;"
    " delete from {0} where id = 101",
)
CALLS = """
create table calls (nr serial, conf text, tick bigint, ev bigint, type text, data text, tbl text);
create function public.note(text, bigint, bigint, timestamptz, bigint, integer, text, text, text,
    text, text, text) returns void language sql as
    'insert into public.calls (conf, tick, ev, type, data, tbl) values ($1, $2, $3, $7, $8, $9)';
select pgq.create_queue('split');
"""
ROWS = "select id, at, n, doc::text from {} order by id"
#: Operations in their order, as a text.
EVENTS = (
    "select string_agg(left(replace(ev_type, '{{\"op\":\"', ''), 1), '' order by ev_id)"
    " from pgq.event_template where ev_extra1 = 'public.{}'"
)


@dataclass(frozen=True)
class Case:
    """A table with a handler.

    here, there -- asked of leaf and root, to be equal.
    compare -- exit code; None: the table is refused.
    """

    table: str
    handler: str
    options: tuple[str, ...] = ()
    here: str = ROWS
    there: str = ROWS
    schema: str = TABLE
    capture: dict[str, Any] = field(default_factory=lambda: {"form": "row"})
    more: tuple[str, ...] = ()
    compare: int = 0

    def args(self) -> tuple[str, ...]:
        """Of add-table."""
        words = (w for o in self.options for w in ("--handler-arg", o))
        return (self.table, "--handler", self.handler, *words, *self.more)


PARTS = "select tableoid::regclass::text, count(*) from {} group by 1 order by 1"
CASES = [
    Case("plain", "londiste", capture={"trigger": "sqltriga"}),
    Case(
        "none", "nop", here="select count(*) from {}", there="select 0 from {} limit 1", compare=3
    ),
    Case("virtual", "vtable", here="select 1", there="select 1", schema="select '{}'", compare=3),
    Case(
        "called",
        "applyfn",
        ("func_name=public.note", "func_conf=x"),
        here="select string_agg(left(replace(type, '{{\"op\":\"', ''), 1), '' order by nr)"
        " from calls where conf = 'x' and tbl = 'public.{}'",
        there=EVENTS,
        capture={"trigger": "logutriga"},
        more=("--expect-sync",),
        compare=3,
    ),
    Case("masters", "multimaster", ("timefield=at",), capture={"form": "statement"}),
    Case("masters_l", "multimaster", ("timefield=at",), capture={"trigger": "logutriga"}),
    Case("bulky", "bulk", ("method=2",), capture={"form": "statement"}),
    Case("straight", "direct", ("row_mode=keep_latest",), capture={"trigger": "jsontriga"}),
    Case(
        "history",
        "dispatch",
        ("table_mode=direct", "row_mode=keep_all"),
        here="select count(*), count(distinct id) from {}",
        # 40 copied, 42 new ones, 19 + 1 + 35 updates.
        there="select 40 + 42 + (select count(*) from pgq.event_template"
        " where ev_extra1 = 'public.{}' and ev_type like 'U:%'), 82",
        schema=TABLE.replace(" primary key", ""),
        capture={"trigger": "logutriga"},
        compare=3,
    ),
    Case(
        "renamed",
        "bulk_direct",
        ("fields=id,n:number",),
        here="select id, number from {} order by 1",
        there="select id, n from {} order by 1",
        schema="create table {} (id int primary key, number numeric);",
        compare=3,
    ),
    Case(
        "by_day",
        "daily_field",
        ("part_field=at", "event_types=I"),
        here=PARTS,
        compare=3,
        # 40 copied.
        there="select * from (values ('{0}_2026_02_03', 81::bigint), ('{0}_2026_03_05', 1)) v"
        " where exists (select from {0})",
    ),
    Case(
        "by_month",
        "dispatch",
        (
            "part_mode=date_field",
            "part_field=at",
            "period=month",
            "method=3",
            "event_types=I",
            "part_template=create table %(part)s (check (at >= '%(part_from)s' and"
            " at < '%(part_to)s')) inherits (%(parent)s)",
        ),
        schema=TABLE.replace(" primary key", ""),
        here=PARTS,
        compare=3,
        more=("--expect-sync",),
        there="select * from (values ('{0}_2026_02', 41::bigint), ('{0}_2026_03', 1)) v"
        " where exists (select from {0})",
    ),
    Case(
        "into_queue",
        "qsplitter",
        ("queue=split",),
        schema="select '{}'",
        compare=3,
        here=EVENTS.replace(
            "pgq.event_template where",
            "pgq.event_template where"
            " pg_catalog.starts_with(tableoid::regclass::text, (select"
            " queue_data_pfx from pgq.queue where queue_name = 'split')) and",
        ),
        there=EVENTS,
    ),
    Case(
        "audited",
        "audit",
        ("into=public.audit",),
        schema="select '{}'; create table audit (tick bigint, ev bigint, op text, k text, t text)",
        here="select string_agg(left(op, 1), '' order by ev) from audit",
        there=EVENTS,
        compare=3,
    ),
    Case(
        "half",
        "shard",
        ("key=id", "nr=0", "count=2"),
        there="select id, at, n, doc::text from {} where"
        ' hashtextextended(id::text collate "C", 0) & 1 = 0 order by id',
    ),
    Case(
        "masked",
        "obfuscate",
        ('rules={"id": "keep", "n": "keep", "doc": {"a": "hash32"}}',),
        here="select id, n, doc is null from {} order by id",
        there="select id, n, doc is null from {} order by id",
    ),
]


@pytest.mark.slow
def test_every_handler_copies_and_replays_under_kill(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = Path(__file__).parents[3] / "examples"
    monkeypatch.setenv("PYTHONPATH", f"{examples}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(examples)
    root = line.node("root", NodeType.ROOT, schema="".join(TABLE.format(c.table) for c in CASES))
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema=CALLS + ";".join(case.schema.format(case.table) for case in CASES),
        obfuscator_key="k",
        handler_modules=["audit_handler"],
    )
    presets = {"direct", "bulk_direct", "daily_field"}
    untried = set(registry.names()) - {case.handler for case in CASES} - {"qtable"}
    assert all(name.endswith(("_event", "_batch", "_field", "_time")) for name in untried - presets)
    for case in CASES:
        line.add(root, case.table, **case.capture)
        root.database.execute(
            f"insert into {case.table} (id, n, doc)"
            " select i, i, '{}' from generate_series(1, 40) i"
        )
    # Before the leaf knows the tables.
    root.database.execute("delete from pgq.event_template where ev_extra1 is not null")
    line.tick()
    for case in CASES:
        run(line, leaf, "add-table", *case.args())
    in_step(line, leaf)
    assert leaf.worker is not None
    leaf.worker.kill()
    points = ("worker.mid-apply", "worker.before-commit", "worker.after-commit")
    for statement, point in zip(WRITES, points, strict=True):
        for case in CASES:
            root.database.execute(statement.format(case.table))
        tick = line.tick()
        worker = line.start(leaf, LONDISTE_CRASH=point)
        assert worker.wait() == -9, worker.said()
        worker = line.start(leaf)
        line.wait_position(leaf, tick)
        worker.kill()
    for case in CASES:
        here, there = asked(leaf, case.here, case), asked(root, case.there, case)
        assert here == there != [], case.table
    line.start(leaf)
    done = line.run(leaf, "compare")
    assert done.code == 0, str(done)
    for case in CASES:
        if case.compare and case.handler in ("nop", "direct", "daily_field", "dispatch"):
            assert line.run(leaf, "compare", case.table).code == case.compare


def asked(node: LineNode, text: str, case: Case) -> list[Any]:
    return node.database.execute(text.format(case.table) if "{" in text else text)
