"""A copy from a branch, which does not know the root's capture of the table."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode

SCHEMA = "create table a (id int8 primary key, v text)"


def ok(line: Line, node: LineNode) -> None:
    def in_step() -> bool:
        line.tick()
        return bool(node.database.value("select merge_state from londiste.table_info") == "ok")

    line.wait(in_step, f"the table to be ok on {node.name}", 90)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_a_resumable_copy_below_a_branch_takes_a_snapshot_when_events_are_not_whole(
    line: Line, whole: bool
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    root.database.execute("insert into a select i, repeat('v', 90) from generate_series(1, 6000) i")
    line.add(root, "public.a")
    if not whole:
        # As a root of another program may capture it.
        root.database.execute(
            f"select londiste.drop_table_triggers('{QUEUE}', 'public.a');"
            f" select londiste.create_trigger('{QUEUE}', 'public.a', array['tgflags=L'],"
            " 'public.a', 'root')"
        )
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    line.tick()
    line.once(branch)
    line.add(branch, "public.a", expect_sync=False)
    line.start(branch)
    ok(line, branch)
    keys = {"copy_chunk_bytes": 1 << 16, "resumable_copy_min_bytes": 0}
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA, **keys)
    line.wait_position(branch, line.tick())
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    leaf.database.execute("select londiste.copy_throttle(%s, 100000, 1)", QUEUE)
    line.start(leaf)
    line.wait(
        lambda: leaf.database.value("select count(*) > 1 from londiste.copy_chunk"), "chunks", 60
    )
    root.database.execute("update a set v = 'later' where id % 100 = 7")
    leaf.database.execute("select londiste.copy_throttle(%s, null, null)", QUEUE)
    ok(line, leaf)
    last = line.tick()
    line.wait_position(branch, last)
    line.wait_position(leaf, last)
    rows = "select id, v from a order by id"
    assert leaf.database.execute(rows) == root.database.execute(rows)
    ((mode, reason),) = leaf.database.execute("select mode, reason from londiste.copy_choice")
    assert mode == ("resumable" if whole else "snapshot")
    assert whole or "row image is incomplete" in reason
    for node in (branch, leaf):
        assert node.worker is not None and node.worker.stop() == 0


def test_a_copy_below_a_branch_asks_the_root_for_a_tick(line: Line) -> None:
    # Of a quiet queue the next one may come after a minute.
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(root, "public.a")
    line.start(branch)
    line.wait_position(branch, line.tick())
    line.add(branch, "public.a")
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    ids = "select pgq.seq_getval(queue_event_seq) from pgq.queue"
    before = root.database.value(ids)
    line.start(leaf)
    line.wait(lambda: root.database.value(ids) > before + 1000, "a question of the copy", 60)
    ok(line, leaf)
