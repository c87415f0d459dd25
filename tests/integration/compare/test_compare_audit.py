"""Interrupted comparisons, and comparisons that run continuously."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.compare.audit import next_range, outgrown, summed
from londiste.compare.context import open_session, ready
from londiste.compare.sqlapi import ComparedRange
from londiste.db.connection import Connection
from londiste.errors import StateError
from londiste.settings import WorkerSettings
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.integration.compare.test_compare import damage
from tests.support.scenarios.processes import is_stopped
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import written_meanwhile

SCHEMA = """
create table big (id int primary key, filler text) with (fillfactor = 10);
alter table big alter filler set storage plain;
create table small (id int primary key, v text);
"""
FILL = """
insert into big select i, repeat(md5(i::text), 18) from generate_series(1, 12000) i;
insert into small select i, 'x' from generate_series(1, 10) i;
analyze big;
"""


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    for node in (root, leaf):
        node.database.execute(FILL)
        line.add(node, "big", "small", expect_sync=True)
    line.tick()
    line.once(leaf)
    return root, leaf


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """Root and leaf with the same rows, one table of some ranges, and a running worker."""
    root, leaf = _pair(line)
    line.start(leaf)
    return root, leaf


def answer(line: Line, node: LineNode, *args: str, code: int = 0) -> dict[str, Any]:
    done = line.here(node, "compare", "--json", *args)
    assert done.code == code, str(done)
    found: dict[str, Any] = json.loads(done.out)
    return found


def held(node: LineNode) -> int:
    return int(node.database.value("select count(*) from pgq_node.consumer_hold"))


def test_a_killed_comparison_holds_nothing_and_goes_on(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    plan = json.loads(line.here(leaf, "compare", "big", "--dry-run", "--json").out)["tables"][0]
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


@pytest.mark.parametrize(
    ("stop", "options"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ("--json",)),
        pytest.param(signal.SIGINT, ("--json",), marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, (), marks=pytest.mark.slow),
    ],
)
def test_an_audit_that_is_stopped_does_not_say_that_all_rows_are_equal(
    line: Line, pair: tuple[LineNode, LineNode], stop: signal.Signals, options: tuple[str, ...]
) -> None:
    _, leaf = pair
    argv = [sys.executable, "-m", "londiste", "-c", str(leaf.config), "compare", "--continuous"]
    audit = line.processes.start("audit", [*argv, "--once", "--share", "0.001", *options])
    split = "select count(*) from londiste.compare_ranges(%s, 'audit')"
    # It rests for long after it has split the first table.
    line.wait(lambda: leaf.database.value(split, QUEUE), "the first ranges")
    audit.send(stop)
    assert audit.wait(60) == 130
    assert "not all ranges were compared" in audit.said()
    if options:
        assert '"equal"' not in audit.said()
        assert '"interrupted"' in audit.said()


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
    together = found["coverage"]
    assert (together["verified"], together["complete"], together["tables"]) == (1.0, 2, 2)
    assert (together["differing"], together["oldest"]) == (2, min(big["oldest"], small["oldest"]))
    assert answer(line, leaf, "--status", code=3) == found
    status = json.loads(line.here(leaf, "status", "--json").out)["nodes"]
    assert {node["name"]: node["audit"] for node in status} == {"root": None, "leaf": together}
    shown = line.here(leaf, "status").out
    assert "Audit: 100 % of rows verified in the last 24 h, 2 of 2 tables; 2 rows differ" in shown
    checked = json.loads(line.here(leaf, "status", "--check", "--json").out)["findings"]
    drift = {one["what"]: one["do"] for one in checked if one["kind"] == "drift"}
    assert drift["node leaf: table public.big: 1 rows differ from the root's"] == (
        "londiste repair public.big"
    )
    assert line.here(leaf, "repair", "--apply").code == 0
    assert answer(line, leaf, "--continuous", "--once", "--share", "1")["equal"] is True
    # What was compared before the last day does not count; a table without a result counts fully.
    older = "update londiste.compare_range set checked_at = now() - interval '25 hours'"
    leaf.database.execute(f"{older} where table_name = 'public.big' and number > 0")
    found = answer(line, leaf, "--status")
    first, together = found["tables"][0]["ranges"], found["coverage"]
    assert 0.5 / first < together["verified"] < 2 / first
    assert (together["complete"], together["tables"]) == (1, 2)
    leaf.database.execute("delete from londiste.compare_range where table_name = 'public.big'")
    leaf.database.execute("analyze big")
    together = answer(line, leaf, "--status", code=3)["coverage"]
    assert together["verified"] == pytest.approx(10 / 12_010, abs=1e-4)
    assert together["oldest"] is None
    leaf.database.execute("delete from londiste.compare_range")
    assert answer(line, leaf, "--status", code=3)["coverage"] is None


def test_a_table_that_is_copied_again_is_not_verified_until_it_is_compared_again(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    damage(leaf, "update big set filler = 'wrong' where id = 7000")
    once = ("--continuous", "--once", "--share", "1")
    assert answer(line, leaf, *once, code=3)["coverage"]["verified"] == 1.0

    def together() -> dict[str, Any]:
        shown = json.loads(line.here(leaf, "status", "--json").out)["nodes"]
        found: dict[str, Any] = next(one["audit"] for one in shown if one["name"] == "leaf")
        return found

    assert line.here(leaf, "copy", "pause").code == 0
    assert line.here(leaf, "resync", "big").code == 0
    during = together()
    assert during["verified"] == pytest.approx(10 / 12_010, abs=1e-4)
    assert (during["complete"], during["tables"], during["oldest"]) == (1, 2, None)
    # Its rows have not been replaced yet.
    assert during["differing"] == 1
    checked = json.loads(line.here(leaf, "status", "--check", "--json").out)["findings"]
    assert [one["kind"] for one in checked if one["kind"] == "drift"] == ["drift"]
    assert line.here(leaf, "copy", "resume").code == 0
    wait_for_copy(line, leaf)
    leaf.database.execute("analyze big")
    after = together()
    assert after["verified"] == pytest.approx(10 / 12_010, abs=1e-4)
    assert (after["complete"], after["differing"]) == (1, 0)
    again = answer(line, leaf, *once)
    assert (again["equal"], again["coverage"]["verified"]) == (True, 1.0)


def test_tables_that_cannot_be_compared_are_not_shown_as_equal(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    once = ("--continuous", "--once", "--share", "1")
    # Before the first round nothing is known.
    assert answer(line, leaf, "--status", code=3)["equal"] is False
    assert answer(line, leaf, *once)["equal"] is True
    leaf.database.execute("alter table small drop v; alter table big rename to other")
    done = line.here(leaf, "compare", *once)
    assert done.code == 2 and "table public.big" in done.err, str(done)
    assert (
        "table public.small could not be compared: table public.small: this node does not store"
        " columns of the root: v" in done.err
    )
    found = answer(line, leaf, "--status", code=3)
    big, small = found["tables"]
    assert (found["equal"], found["coverage"]["complete"]) == (False, 0)
    assert (big["compared"], small["compared"]) == (big["ranges"] - 1, 0)
    shown = line.here(leaf, "compare", "--status")
    assert "not compared as a whole: public.big, public.small" in shown.err
    leaf.database.execute("alter table other rename to big")
    done = line.here(leaf, "compare", *once)
    assert done.code == 3 and "londiste columns public.small --add" in done.err, str(done)
    leaf.database.execute("alter table small add v text default 'x'")
    assert answer(line, leaf, *once)["equal"] is True


def test_a_killed_audit_continues_where_it_was(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    _, leaf = pair
    leaf.database.execute(
        """
        create table seen (step serial, name text, number int);
        create function note() returns trigger language plpgsql as
            'begin insert into public.seen (name, number) values (new.table_name, new.number);
            return null; end';
        create trigger note after update on londiste.compare_range
            for each row execute function note();
        """
    )
    audit = ("compare", "--continuous", "--share", "1")
    # Each range has a task on both sides: the process is killed in the third range.
    done = line.run(leaf, *audit, env={"LONDISTE_CRASH": "compare.mid-range:6"})
    assert done.code == -signal.SIGKILL, str(done)
    seen = "select count(*) from seen"
    assert leaf.database.value(seen) == 2
    ranges = leaf.database.value("select count(*) from londiste.compare_range")
    damage(leaf, "delete from small where id = 3; update big set filler = 'wrong' where id = 12000")
    again = line.processes.start("audit", line._argv(leaf, *audit))
    line.wait(lambda: leaf.database.value(seen) >= ranges, "a whole round")
    firsts = "select count(distinct (name, number)) from seen where step <= %s"
    assert leaf.database.value(firsts, ranges) == ranges
    # Both were in ranges that the killed process had not reached.
    for name in ("big", "small"):
        text = f"table public.{name}: 1 rows differ"
        # Logged after the result is stored.
        line.wait(lambda text=text: text in again.said(), text)
    assert again.stop() == 0


def test_rows_behind_the_limit_are_looked_at_when_those_before_it_are_equal_again(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    damage(leaf, "update big set filler = 'wrong' where id <= 200")
    audit = line.processes.start(
        "audit",
        line._argv(
            leaf, "compare", "big", "--continuous", "--once", "--share", "1", "--limit", "5"
        ),
        # Its snapshots are taken there.
        {
            "LONDISTE_CRASH": "compare.mid-range",
            "LONDISTE_CRASH_SIGNAL": "STOP",
            "LONDISTE_CRASH_MARK": str(line.directory / "mark"),
        },
    )
    line.wait(lambda: is_stopped(audit.pid), "the audit that stands still")
    damage(leaf, "update big set filler = repeat(md5(id::text), 18) where id < 200")
    audit.go_on()
    assert audit.wait() == 3, audit.said()
    differs = "select sum(differs) from londiste.compare_range"
    assert leaf.database.value(differs) == 1


def test_known_differences_stay_known_while_a_changed_table_is_compared_again(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    again = differing_in_an_earlier_form(line, pair)
    shown = line.here(leaf, "status", "--check")
    assert shown.code == 2 and "table public.big: 2 rows differ" in shown.out, str(shown)
    damage(
        leaf,
        "update big set filler = repeat(md5(id::text), 18) where id in (6000, 7000)",
    )
    assert answer(line, leaf, *again)["coverage"]["differing"] == 0


@pytest.mark.slow
def test_a_copy_ends_differences_that_are_known_of_an_earlier_form(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    differing_in_an_earlier_form(line, pair)
    assert line.here(leaf, "resync", "big").code == 0
    wait_for_copy(line, leaf)
    checked = json.loads(line.here(leaf, "status", "--check", "--json").out)["findings"]
    assert [one["kind"] for one in checked if one["kind"] == "drift"] == []


def wait_for_copy(line: Line, leaf: LineNode) -> None:
    state = "select merge_state from londiste.table_info where table_name = 'public.big'"
    # The copy catches up from tick to tick.
    line.wait(lambda: line.tick() and leaf.database.value(state) == "ok", "the copy")


def differing_in_an_earlier_form(line: Line, pair: tuple[LineNode, LineNode]) -> tuple[str, ...]:
    """Two rows of big differ in ranges not compared since its columns changed; the arguments."""
    _, leaf = pair
    damage(leaf, "update big set filler = 'wrong' where id in (6000, 7000)")
    answer(line, leaf, "big", "--continuous", "--once", "--share", "1", code=3)
    for node in pair:
        node.database.execute("alter table big add column more int")
    again = ("big", "--continuous", "--once", "--share", "1")
    # The ranges are new ones, and the first of them is equal.
    done = line.run(leaf, "compare", *again, env={"LONDISTE_CRASH": "compare.mid-range:3"})
    assert done.code == -signal.SIGKILL, str(done)
    checked = "select count(*) from londiste.compare_range where checked_at is not null"
    assert leaf.database.value(checked) == 1
    return again


def test_the_error_of_an_audit_shows_no_value(line: Line, pair: tuple[LineNode, LineNode]) -> None:
    root, leaf = pair
    leaf.database.execute("alter table small alter v type int using 0")
    root.database.execute(
        'set session_replication_role = replica; update small set v = \'{"a": "secret"}\''
    )
    audit = ("compare", "--continuous", "--share", "1")
    process = line.processes.start("audit", line._argv(leaf, *audit))
    error = "select dm_error from pgq.daemon where dm_kind = 'audit'"
    line.wait(lambda: leaf.database.value(error), "the error")
    assert "invalid input syntax" in leaf.database.value(error)
    assert process.stop() == 0
    for text in (leaf.database.value(error) or "", process.said(), line.here(leaf, "status").out):
        assert "secret" not in text


@pytest.mark.slow
def test_writers_during_an_audit_are_no_differences(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    root, leaf = pair
    damage(leaf, "update big set filler = 'wrong' where id = 9000")
    with writing(root):
        found = answer(line, leaf, "--continuous", "--once", "--share", "1", code=3)
    assert [table["differing"] for table in found["tables"]] == [1, 0]
    assert found["tables"][0]["findings"] == [{"kind": "differs", "key": {"id": "9000"}}]
    assert found["coverage"]["verified"] == 1.0


def writing(root: LineNode) -> contextlib.AbstractContextManager[None]:
    """Writes both tables of the root in the with block; row 9000 stays."""

    def write(conn: Connection, number: int) -> None:
        low = number * 37 % 8_900
        conn.execute(
            "update public.big set filler = md5(filler) where id between %s and %s",
            [low, low + 50],
        )
        conn.execute("delete from public.big where id = %s", [11_000 + number % 500])
        conn.execute("insert into public.big values (%s, 'new')", [20_000 + number])
        conn.execute("update public.small set v = %s", [str(number)])

    return written_meanwhile(root.database.connect, write, least=5)


def test_a_table_that_is_being_copied_comes_later(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    for node in (root, leaf):
        line.add(node, "big", "small", expect_sync=True)
    settings = WorkerSettings(db=leaf.database.dsn, queue_name=QUEUE, job_name="leaf_worker")
    with open_session(settings) as conn:
        assert [table.name.name for table in ready(settings, conn)] == ["big", "small"]
        conn.execute(
            "update londiste.table_info set merge_state = 'in-copy' where table_name = 'public.big'"
        )
        assert [table.name.name for table in ready(settings, conn)] == ["small"]
        conn.execute("update londiste.table_info set merge_state = 'in-copy'")
        with pytest.raises(StateError, match="tables not in sync"):
            ready(settings, conn)


@pytest.mark.slow
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
    assert not outgrown([one, older], 2) and not outgrown([one, older], 3)
    assert outgrown([one, older], 4) and outgrown([one, older], 1)
    # Else the difference would not be known until its range is compared again.
    assert not outgrown([one, replace(older, differs=1)], 4)
    pick: Callable[..., Any] = next_range
    assert pick(["a"], [], None) == ("a", None)
    assert pick(["a", "b"], [one, older], None) == ("b", None)
    assert pick(["a", "b"], [one, older, never], None) == ("b", never)
    assert pick(["a"], [one, older, never], None) == ("a", older)
    assert pick(["a"], [one, older], now - timedelta(days=2)) is None
    assert pick(["a"], [one, older], now) == ("a", older)
    assert summed("a", [one, older]).oldest == older.checked_at
