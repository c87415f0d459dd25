"""Interrupted comparisons, and comparisons that run continuously."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.compare.audit import next_range, summed
from londiste.compare.sqlapi import ComparedRange
from tests.fixtures.line import Line, LineNode
from tests.integration.compare.test_compare import damage

SCHEMA = """
create table big (id int primary key, filler text);
alter table big alter filler set storage plain;
create table small (id int primary key, v text);
"""
FILL = """
insert into big select i, repeat(md5(i::text), 200) from generate_series(1, 12000) i;
insert into small select i, 'x' from generate_series(1, 10) i;
analyze big;
"""


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """Root and leaf with the same rows, one table of some ranges, and a running worker."""
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    for node in (root, leaf):
        node.database.execute(FILL)
        line.add(node, "big", "small", expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    return root, leaf


def answer(line: Line, node: LineNode, *args: str, code: int = 0) -> dict[str, Any]:
    done = line.run(node, "compare", "--json", *args)
    assert done.code == code, str(done)
    found: dict[str, Any] = json.loads(done.out)
    return found


def held(node: LineNode) -> int:
    return int(node.database.value("select count(*) from pgq_node.consumer_hold"))


def test_a_killed_comparison_holds_nothing_and_goes_on(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    plan = json.loads(line.run(leaf, "compare", "big", "--dry-run", "--json").out)["tables"][0]
    assert plan["ranges"] >= 3
    done = line.run(leaf, "compare", "big", env={"LONDISTE_CRASH": "compare.mid-wave:2"})
    assert done.code == -signal.SIGKILL
    for node in pair:
        line.wait(
            lambda node=node: (  # type: ignore[misc]
                not node.database.value(
                    "select count(*) from pg_stat_activity"
                    " where application_name like 'londiste compare%'"
                )
            ),
            "the end of the sessions",
        )
    root.database.execute("update small set v = 'y' where id = 1")
    line.wait_position(leaf, line.tick())
    equal = "select count(*) from londiste.compare_range where differs = 0"
    known = leaf.database.value(equal)
    assert 1 <= known < plan["ranges"]
    damage(leaf, "update big set filler = 'wrong' where id in (1, 6000, 12000)")
    # What was found equal is believed; the rest is compared, at a new tick.
    found = answer(line, leaf, "big", "--resume", code=3)["tables"][0]
    assert (found["ranges_known"], found["ranges"]) == (known, plan["ranges"])
    assert 1 <= found["differs"] < 3
    found = answer(line, leaf, "big", code=3)["tables"][0]
    assert (found["ranges_known"], found["differs"]) == (0, 3)


def test_an_audit_covers_every_range_and_shows_what_it_found(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    damage(leaf, "update big set filler = 'wrong' where id = 7000; delete from small where id = 3")
    found = answer(line, leaf, "--continuous", "--once", "--share", "1", code=3)
    big, small = found["tables"]
    assert big["compared"] == big["ranges"] >= 3
    assert (big["differing"], small["differing"]) == (1, 1)
    assert big["findings"] == [{"kind": "differs", "key": {"id": "7000"}}]
    assert small["findings"] == [{"kind": "missing", "key": {"id": "3"}}]
    assert big["rows"] == 12000
    assert answer(line, leaf, "--status", code=3) == found
    assert line.run(leaf, "repair", "--apply").code == 0
    assert answer(line, leaf, "--continuous", "--once", "--share", "1")["equal"] is True


def test_an_audit_ends_when_it_is_asked_to(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    _, leaf = pair
    process = line.processes.start(
        "audit",
        line._argv(leaf, "compare", "--continuous", "--share", "0.5"),
        {"LONDISTE_TRACEBACK": "1"},
    )
    seen = "select count(*) from londiste.compare_range where checked_at is not null"
    line.wait(lambda: leaf.database.value(seen) >= 2, "two ranges")
    process.send(signal.SIGTERM)
    assert process.wait() == 0
    line.wait(lambda: held(leaf) == 0, "nobody holding the worker")


def test_the_range_that_was_looked_at_longest_ago_is_next() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    one = ComparedRange("a", 0, "s", "", 1, now, 5, now, 10, 0, None)
    older = replace(one, number=1, checked_at=now - timedelta(days=1))
    never = replace(one, table_name="b", checked_at=None)
    pick: Callable[..., Any] = next_range
    assert pick(["a"], [], None) == ("a", None)
    assert pick(["a", "b"], [one, older], None) == ("b", None)
    assert pick(["a", "b"], [one, older, never], None) == ("b", never)
    assert pick(["a"], [one, older, never], None) == ("a", older)
    assert pick(["a"], [one, older], now - timedelta(days=2)) is None
    assert pick(["a"], [one, older], now) == ("a", older)
    assert summed("a", [one, older]).oldest == older.checked_at
