"""A branch with a filtered subset forwards only its subset, never a masked value."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.integration.commands.test_obfuscate import (
    LEAF,
    RULES,
    SCHEMA,
    WRITES,
    everything,
    expected,
    here,
)

KEY = "k3y-of-test"
CAPTURES: list[dict[str, Any]] = [
    {"form": "statement"},
    {"form": "row"},
    {"trigger": "logutriga", "trigger_args": ("backup",)},
    {"trigger": "jsontriga", "trigger_args": ("backup", "ev_extra4=mail")},
]


def names(options: dict[str, Any]) -> str:
    return str(options.get("form") or options["trigger"])


def run(line: Line, node: LineNode, *args: str) -> str:
    done = line.here(node, *args)
    assert done.code == 0, str(done)
    return done.out + done.err


def in_step(line: Line, *nodes: LineNode) -> None:
    for node in nodes:
        if node.worker is None:
            line.start(node)
        line.wait(
            lambda node=node: (
                line.tick(),
                node.database.value(
                    "select bool_and(coalesce(merge_state = 'ok', false))"
                    " from londiste.table_info where local"
                ),
            )[1],
            f"the tables of {node.name} in step",
        )
    tick = line.tick()
    for node in nodes:
        line.wait_position(node, tick)


def events(node: LineNode, table: str = "public.t") -> list[Any]:
    return node.database.execute(
        "select ev_id, ev_type, ev_data, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.event_template where ev_extra1 = %s order by ev_id",
        table,
    )


def some(*often: str) -> list[Any]:
    """All captures, of which those that are not named are for the slow suite."""
    return [
        pytest.param(c, id=names(c), marks=() if names(c) in often else pytest.mark.slow)
        for c in CAPTURES
    ]


@pytest.mark.parametrize("capture", some("statement"))
def test_no_original_value_comes_below_a_branch_that_masks(
    line: Line, capture: dict[str, Any]
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=LEAF, obfuscator_key=KEY)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=LEAF)
    line.add(root, "t", **capture)
    root.database.execute(WRITES.format(1, 300))
    line.tick()
    # Handed on whole before the branch knows the table.
    line.once(branch)
    assert "0r1ginal" in everything(branch)
    rules = f"rules={RULES}"
    run(line, branch, "add-table", "t", "--handler", "obfuscate", "--handler-arg", rules)
    in_step(line, branch)
    run(line, leaf, "add-table", "t")
    in_step(line, branch, leaf)
    assert here(branch) == here(leaf) == expected(root)
    root.database.execute("update t set phone = '0r1ginal' || repeat('0r1ginal', 2000) where id=7")
    root.database.execute("update t set mail = '0r1ginal-new' || id, doc = null where id < 20")
    root.database.execute("delete from t where id between 20 and 30")
    if "form" in capture:
        root.database.execute("update t set id = id + 5000 where id between 40 and 45")
    root.database.execute(WRITES.format(1000, 1400))
    root.database.execute(
        "begin; insert into t values (9, '0r1ginal-x') on conflict do nothing;"
        "delete from t where id = 8; update t set ok = null where id = 7; commit"
    )
    tick = line.tick()
    line.wait_position(branch, tick)
    line.wait_position(leaf, tick)
    assert here(branch) == here(leaf) == expected(root)
    assert run(line, leaf, "compare")
    for node in (branch, leaf):
        found = everything(node)
        assert "0r1ginal" not in found
        assert KEY not in found
        assert "0r1ginal" not in line.processes.report()
    # The same ids, every one.
    assert {e[0] for e in events(branch)} <= {e[0] for e in events(root)}
    assert {str(e[1])[:2] for e in events(branch)} <= {str(e[1])[:2] for e in events(root)}
    root.database.execute("truncate t")
    line.wait_position(leaf, line.tick())
    assert here(leaf) == []


def test_an_event_that_cannot_be_masked_stops_the_branch_and_is_not_shown(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=LEAF, obfuscator_key=KEY)
    line.add(root, "t", trigger="sqltriga")
    masked = ("--handler", "obfuscate", "--handler-arg", f"rules={RULES}")
    done = line.here(branch, "add-table", "t", "--expect-sync", *masked)
    assert done.code == 0, str(done)
    assert "stops node branch; on the root: londiste change-form public.t" in done.err
    root.database.execute(WRITES.format(1, 2))
    tick = line.tick()
    done = line.here(branch, "worker", "--once")
    assert done.code == 5
    assert "pgq.sqltriga" in done.err
    assert "on the root: londiste change-form public.t --trigger capture; then on" in done.err
    assert line.position(branch) < tick
    root.database.execute("delete from pgq.event_template where ev_extra1 = 'public.t'")
    root.database.execute(
        "select pgq.insert_event('line', 'I:id', 'id=1&mail=0r1ginal%zz', 'public.t', '', '', '')"
    )
    line.tick()
    done = line.here(branch, "worker", "--once")
    assert done.code == 5
    assert "hex digits" in done.err
    assert "0r1ginal" not in done.err + everything(branch)


FILTERED = """
create table t (id int primary key, region text, n numeric, note text);
create table plain (id int primary key);
"""


@pytest.mark.parametrize("capture", some("statement"))
def test_rows_enter_and_leave_below_a_branch_that_filters(
    line: Line, capture: dict[str, Any]
) -> None:
    capture = {k: v for k, v in capture.items() if k != "trigger_args"}
    root = line.node("root", NodeType.ROOT, schema=FILTERED)
    branch = line.node("branch", NodeType.BRANCH, root, schema=FILTERED)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=FILTERED)
    line.add(root, "t", **capture)
    line.add(root, "plain")
    root.database.execute(
        "insert into t select i, (array['eu', 'us', null])[i % 3 + 1], i, 'secret' "
        "from generate_series(1, 90) i"
    )
    run(line, branch, "add-table", "t", "--where", "region = 'eu'", "--skip-columns", "note")
    run(line, branch, "add-table", "plain")
    in_step(line, branch)
    run(line, leaf, "add-table", "t", "--where", "n <> 3.5")
    run(line, leaf, "add-table", "plain")
    in_step(line, branch, leaf)
    chance = random.Random(5)
    regions = ("'eu'", "'us'", "null")
    for _ in range(40):
        first, last = sorted(chance.randrange(120) for _ in "ab")
        root.database.execute(
            chance.choice(
                (
                    f"update t set region = {chance.choice(regions)} where id % 3 = 1",
                    f"update t set region = case when id % 2 = 0 then 'eu' else 'us' end"
                    f" where id between {first} and {last}",
                    f"update t set n = 3.5 where id between {first} and {last}",
                    f"update t set n = n + 1, note = 'secret' where id = {first}",
                    f"delete from t where id between {first} and {first + 3}",
                    "insert into t select i, 'eu', 1.10 from generate_series("
                    f"{first}, {last}) i on conflict do nothing",
                    f"insert into plain values ({first}) on conflict do nothing",
                )
            )
        )
        if chance.random() < 0.3:
            line.tick()
    tick = line.tick()
    line.wait_position(branch, tick)
    line.wait_position(leaf, tick)
    rows = "select id, region, n from t where {} order by id"
    wanted = root.database.execute(rows.format("region = 'eu'"))
    assert branch.database.execute(rows.format("true")) == wanted != []
    wanted = root.database.execute(rows.format("region = 'eu' and n <> 3.5"))
    assert leaf.database.execute(rows.format("true")) == wanted != []
    plain = "select id from plain order by id"
    assert leaf.database.execute(plain) == root.database.execute(plain)
    assert "secret" not in everything(leaf) + everything(branch)
    told = [e[2] for e in events(branch) if '"state"' not in e[1] and str(e[1])[:1] != "R"]
    assert not any("us" in str(data) for data in told)
    for node in (branch, leaf):
        assert run(line, node, "compare")


@pytest.mark.slow
def test_another_filter_in_place_brings_and_takes_rows_below_it_too(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=FILTERED)
    branch = line.node("branch", NodeType.BRANCH, root, schema=FILTERED, obfuscator_key=KEY)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=FILTERED)
    line.add(root, "t")
    root.database.execute(
        "insert into t select i, (array['eu', 'us', null])[i % 3 + 1], i, 'secret' "
        "from generate_series(1, 90) i"
    )
    run(line, branch, "add-table", "t", "--where", "region = 'eu'")
    in_step(line, branch)
    run(line, leaf, "add-table", "t", "--where", "n < 80")
    in_step(line, branch, leaf)
    root.database.execute("update t set n = n + 1 where id < 5")
    rows = "select id, region, n, note from t where {} order by id"

    def check(where: str, note: str = "note") -> None:
        for node, more in ((branch, ""), (leaf, " and n < 80")):
            text = rows.format(where + more).replace("note", note)
            assert node.database.execute(rows.format("true")) == root.database.execute(text) != []

    line.wait_position(branch, line.tick())
    explained = run(line, branch, "change-handler", "t", "--where", "region = 'us'", "--dry-run")
    assert "leaf: copy table public.t again, after its provider" in explained
    wrong = line.here(branch, "change-handler", "t", "--where", "nope = 1")
    assert wrong.code == 2
    assert "hint:" in wrong.err
    run(line, branch, "change-handler", "t", "--where", "region = 'us'")
    root.database.execute("update t set region = 'us' where id = 3; delete from t where id = 4")
    in_step(line, branch, leaf)
    check("region = 'us'")
    again = run(line, branch, "change-handler", "t", "--where", "region = 'us'")
    assert "nothing to do" in again
    # What was told before goes with the rows.
    rules = 'rules={"id": "keep", "region": "keep", "n": "keep"}'
    run(
        line,
        branch,
        *("change-handler", "t", "--where", "", "--handler", "obfuscate", "--handler-arg", rules),
    )
    in_step(line, branch, leaf)
    check("true", "null")
    assert "secret" not in everything(leaf) + everything(branch)


def test_nothing_is_copied_or_repaired_from_above_a_branch_that_masks(
    line: Line, tmp_path: Path
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=LEAF, obfuscator_key=KEY)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=LEAF)
    line.add(root, "t")
    root.database.execute(WRITES.format(1, 30))
    rules = f"rules={RULES}"
    run(line, branch, "add-table", "t", "--handler", "obfuscate", "--handler-arg", rules)
    in_step(line, branch)
    done = line.here(leaf, "add-table", "t", "--copy-node", "root")
    assert done.code == 3
    assert "node branch, between this node and node root, filters table public.t" in done.err
    assert "--copy-node branch" in done.err
    run(line, leaf, "add-table", "t", "--find-copy-node")
    in_step(line, branch, leaf)
    assert here(leaf) == expected(root)
    assert line.here(leaf, "resync", "t", "--copy-node", "root").code == 3
    # Wanted when the branch had all of it.
    leaf.database.execute(
        "update londiste.table_info set table_attrs = 'copy_node=root', merge_state = null"
    )
    line.wait(lambda: "filters table" in line.processes.report(), "the copy to be refused")
    leaf.database.execute(
        "update londiste.table_info set table_attrs = 'copy_node=branch', merge_state = null"
    )
    in_step(line, branch, leaf)
    leaf.database.execute(
        "set session_replication_role = replica; delete from t where id = 7;"
        "update t set ok = not ok, mail = gen_random_uuid() where id = 8"
    )
    plan = tmp_path / "plan"
    done = line.here(leaf, "repair", "--plan", str(plan))
    assert (done.code, plan.exists()) == (3, False), str(done)
    assert "other nodes change values on the way: age, doc, mail, ok" in done.err
    assert "londiste resync public.t" in done.err
    for node in (branch, leaf):
        assert "0r1ginal" not in everything(node) + line.processes.report()


def test_a_branch_that_met_a_fragment_continues_as_its_hint_says(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=LEAF, obfuscator_key=KEY)
    line.add(root, "t", trigger="sqltriga")
    masked = ("--handler", "obfuscate", "--handler-arg", f"rules={RULES}")
    assert line.here(branch, "add-table", "t", "--expect-sync", *masked).code == 0
    root.database.execute(WRITES.format(1, 2))
    line.tick()
    done = line.here(branch, "worker", "--once")
    assert done.code == 5
    (event,) = re.findall(r" and londiste events skip (\d+); then on the nodes below", done.err)
    assert line.here(root, "change-form", "public.t", "--trigger", "capture").code == 0
    assert line.here(branch, "resync", "public.t").code == 0
    assert line.here(branch, "events", "skip", event).code == 0
    line.start(branch)
    line.wait_position(branch, line.tick())
    line.wait(lambda: (line.tick(), here(branch) == expected(root))[1], "the branch in step")
    # No fragment is in its queue, which has the values that it withholds.
    assert [e for e in events(branch) if str(e[1]) in "IUD"] == []
    assert "0r1ginal" not in everything(branch)
