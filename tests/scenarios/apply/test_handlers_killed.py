"""Every handler: copied while rows are written, replayed by workers that are killed, compared.

The workers are killed at random moments, not at crash points: what the moments have in common is
decided by nobody.  What the leaf has at the end is held against what the handler promises.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Sequence
from dataclasses import replace

import pytest

from londiste.cascade.model import NodeType
from londiste.handlers import registry
from londiste.handlers.dispatch_presets import PRESETS
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.support.scenarios import handled_tables
from tests.support.scenarios.handled_tables import CAPTURES, Case, Ending, Writer
from tests.support.scenarios.processes import Process

DAY = "to_char(at at time zone 'UTC', '_YYYY_MM_DD')"
MONTH = "to_char(at at time zone 'UTC', '_YYYY_MM')"
#: Captures that tell a whole row.
WHOLE = ("statement", "row", "logutriga", "jsontriga")
ALL = (*WHOLE, "sqltriga")
#: Captures that tell all columns of a row that is deleted.
OLD_ROWS = ("jsontriga", "row", "logutriga")
RULES = '{"id": "keep", "at": "keep", "changed": "keep", "n": "keep", "doc": {"word": "hash32"}}'
NEW_ONES = "event_types=I"


def renamed(ending: Ending) -> None:
    there = ending.root.execute(f"select id, n from {ending.table} order by id")
    assert ending.leaf.execute(f"select id, number from {ending.table} order by id") == there


CASES = [
    Case("plain", "londiste", (), handled_tables.same_rows, captures=ALL, keys=True, equal=True),
    Case("none", "nop", (), handled_tables.left_alone, captures=("sqltriga", *WHOLE)),
    Case("virtual", "vtable", (), handled_tables.nothing, schema="", captures=("logutriga", *ALL)),
    Case("mails", "qtable", (), handled_tables.nothing, schema="", captures=("row",), inserts=True),
    Case("into_queue", "qsplitter", ("queue=split",), handled_tables.put_into_queue, schema="",
         captures=ALL),
    Case("called", "applyfn", ("func_name=public.called",), handled_tables.called_for_each,
         captures=("logutriga", "statement", "row", "jsontriga", "sqltriga")),
    Case("masters", "multimaster", ("timefield=changed",), handled_tables.same_rows,
         captures=OLD_ROWS, equal=True),
    Case("half", "shard", ("key=id", "nr=0", "count=2"), handled_tables.a_part, captures=WHOLE,
         keys=True, equal=True),
    Case("bulky", "bulk", ("method=1",), handled_tables.same_rows,
         captures=("jsontriga", "statement", "row", "logutriga", "sqltriga"), keys=True,
         equal=True),
    Case("secret", "obfuscate", (f"rules={RULES}",), handled_tables.masked,
         captures=WHOLE, equal=True),
    Case("straight", "direct", (), handled_tables.same_rows, captures=WHOLE, keys=True, equal=True),
    Case("other_names", "bulk_direct", ("fields=id,n:number",), renamed,
         schema="create table {} (id int primary key, number bigint);",
         captures=("logutriga", "statement", "row", "jsontriga")),
    Case("nowhere", "dispatch", ("table_mode=ignore",), handled_tables.nothing, schema="",
         captures=WHOLE),
    Case("versions_of", "dispatch", ("table_mode=direct", "row_mode=keep_all"),
         handled_tables.every_version, schema=handled_tables.KEYLESS, captures=WHOLE),
    Case("by_day", "daily_field", ("part_field=at",), handled_tables.latest(DAY),
         captures=OLD_ROWS, late=True, more=("--expect-sync",)),
    Case("by_month", "dispatch",
         ("part_mode=date_field", "part_field=at", "period=month", NEW_ONES),
         handled_tables.archive(MONTH), captures=("jsontriga", "statement", "row", "logutriga")),
    Case("by_hour_of_event", "hourly_event", (NEW_ONES,), handled_tables.archive(""),
         captures=("logutriga", "statement", "row", "jsontriga")),
    Case("by_month_of_batch", "bulk_monthly_batch", (NEW_ONES,), handled_tables.archive(""),
         captures=WHOLE),
    Case("by_year", "yearly_time", (NEW_ONES,), handled_tables.archive(""), captures=WHOLE),
]  # fmt: skip


def test_every_handler_is_here() -> None:
    presets = set(PRESETS)
    assert {case.handler for case in CASES} - presets == set(registry.names()) - presets
    assert len({case.handler for case in CASES} & presets) >= 4


def test_every_handler_ends_as_promised_when_workers_are_killed(
    line: Line, command: Command
) -> None:
    killed(line, command, CASES, [case.captures[0] for case in CASES], kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("capture", [*CAPTURES, "in jobs"])
def test_every_handler_and_capture_ends_as_promised_when_workers_are_killed_often(
    line: Line, command: Command, capture: str
) -> None:
    large = 40 if capture == "in jobs" else 0
    form = "statement" if large else capture
    cases = [case for case in CASES if form in case.captures or case.handler == "qtable"]
    forms = ["row" if case.handler == "qtable" else form for case in cases]
    killed(line, command, cases, forms, kills=12, large=large)


def killed(
    line: Line,
    command: Command,
    cases: Sequence[Case],
    forms: Sequence[str],
    *,
    kills: int,
    large: int = 0,
) -> None:
    """Adds the tables while rows are written, kills as often, and looks at the end.

    large -- events of a batch that goes through a job; 0: none does.
    """
    seed = int(os.environ.get("LONDISTE_SEED") or random.randrange(1 << 20))
    print(f"LONDISTE_SEED={seed}")
    chance = random.Random(seed)
    root = line.node("root", NodeType.ROOT, schema=handled_tables.ROOT)
    jobs = {"parallel_apply_min_events": large} if large else {}
    leaf = line.node(
        "leaf", NodeType.LEAF, root, schema=handled_tables.LEAF, obfuscator_key="k", **jobs
    )
    # Keys change where our own capture tells of it; the compatible triggers refuse that.
    cases = [
        replace(case, keys=case.keys and "form" in CAPTURES[form])
        for case, form in zip(cases, forms, strict=True)
    ]
    for case, form in zip(cases, forms, strict=True):
        noted = handled_tables.NOTED_BEFORE if case.handler == "qtable" else handled_tables.NOTED
        root.database.execute(handled_tables.KEYED.format(case.table) + noted.format(case.table))
        if case.handler == "qtable":
            must(command, root, "add-table", case.table, "--handler", "qtable")
        else:
            line.add(root, case.table, **CAPTURES[form])
        if case.schema:
            leaf.database.execute(case.schema.format(case.table))
        if case.handler == "nop":
            leaf.database.execute(f"insert into {case.table} values (-1, now(), now(), -1)")
    ticker = start_ticker(line, root)
    line.start(leaf)
    added = {}
    with Writer(root.database, seed=seed) as writer:
        writer.also(*(case for case in cases if not case.late))
        writer.wait(20)
        for case in cases:
            must(command, leaf, "add-table", *case.args())
            added[case.table] = len(handled_tables.history(root.database, case.table))
        for pid in line.processes.find("copy"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        again(line, leaf)
        line.wait(lambda: in_step(leaf), "the copies", 60)
        copied = {case.table: inserts(root, case) for case in cases}
        writer.also(*(case for case in cases if case.late))
        for _ in range(kills - 1):
            before = line.position(leaf)
            line.wait_position(leaf, before + 1)
            writer.wait(chance.randint(0, 20))
            again(line, leaf)
        # Where rows have partitions, some have come after the copy and of several times.
        line.wait(
            lambda: all(inserts(root, case) > copied[case.table] + 3 for case in cases),
            "inserts into every table",
            60,
        )
        writer.stop()
    assert ticker.stop() == 0
    line.wait_position(leaf, line.tick())
    for case in cases:
        told = handled_tables.history(root.database, case.table)
        assert told, case.table
        case.check(Ending(case.table, told, added[case.table], root.database, leaf.database))
    if large:
        assert leaf.database.value("select way from londiste.large_batch") in {"job", "part"}
    done = command(leaf, "compare", "--json")
    assert done.code == 0, done.err
    compared = {table["table"] for table in json.loads(done.out)["tables"]}
    assert compared == {f"public.{case.table}" for case in cases if case.equal}
    assert leaf.worker is not None and leaf.worker.stop() == 0


def inserts(root: LineNode, case: Case) -> int:
    return sum(one.op == "I" for one in handled_tables.history(root.database, case.table))


def again(line: Line, leaf: LineNode) -> None:
    """SIGKILL for the worker, and another one."""
    assert leaf.worker is not None and leaf.worker.running(), line.processes.report()
    leaf.worker.kill()
    line.start(leaf)


def in_step(leaf: LineNode) -> bool:
    return bool(
        leaf.database.value(
            "select bool_and(coalesce(merge_state = 'ok', false))"
            " from londiste.table_info where local"
        )
    )


def start_ticker(line: Line, root: LineNode) -> Process:
    config = line.directory / "ticker.toml"
    config.write_text(
        f"[ticker]\ndatabases = [{json.dumps(root.database.dsn)}]\nticker_period = 0.1\n"
    )
    config.chmod(0o600)
    root.database.execute(
        "update pgq.queue set queue_ticker_max_count = 50, queue_ticker_max_lag = '0.2 s'"
        " where queue_name = %s",
        QUEUE,
    )
    return line.processes.start("ticker", [*line._argv(root)[:3], "-c", str(config), "ticker"])


def must(command: Command, node: LineNode, *args: str) -> None:
    done = command(node, *args)
    assert done.code == 0, done.err
