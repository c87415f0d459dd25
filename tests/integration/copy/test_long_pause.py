"""A copy that is paused, killed and continued elsewhere after many rotations."""

from __future__ import annotations

import shutil
import signal

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.integration.copy.test_cancel_copy import BUILDING, SLOW
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = "create table a (id int8 primary key, v text)"
CHUNKS = "select count(*) from londiste.copy_chunk"
COPYING = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'londiste copy%'
"""


@kept_nodes
def pair(line: Line, extra: str = "", **keys: object) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=f"{SCHEMA};{extra}", **keys)
    root.database.execute(
        "insert into a select i, repeat('v', 90) from generate_series(1, 9000) i; analyze a"
    )
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    return root, leaf


def consumer(root: LineNode) -> tuple[int, ...]:
    """Where the copy's consumer stands."""
    return tuple(
        tick
        for (tick,) in root.database.execute(
            "select last_tick from pgq.get_consumer_info(%s) where consumer_name like '%%.copy.%%'",
            QUEUE,
        )
    )


def order(line: Line, leaf: LineNode, *args: str) -> None:
    done = line.here(leaf, "copy", *args)
    assert done.code == 0, str(done)


@pytest.mark.slow
def test_a_paused_copy_that_is_killed_goes_on_from_elsewhere_after_many_rotations(
    line: Line,
) -> None:
    keys = {"copy_chunk_bytes": 1 << 16, "resumable_copy_min_bytes": 0}
    root, leaf = pair(line, **keys)
    order(line, leaf, "throttle", "--bytes-per-second", "200k", "--tasks", "1")
    worker = line.start(leaf)
    line.wait(lambda: leaf.database.value(CHUNKS) >= 2, "the first chunks", 60)
    order(line, leaf, "pause", "--now")
    worker.kill()
    assert worker.wait() == -signal.SIGKILL
    line.wait(lambda: leaf.database.value(COPYING) == 0, "all sessions of the copy to end")
    done, stands = int(leaf.database.value(CHUNKS)), consumer(root)
    assert done >= 2 and len(stands) == 1

    # A day passes: no worker, no copy, a ticker now and then; every table of the queue is rotated.
    root.database.execute("update pgq.queue set queue_rotation_period = '0'")
    for number in range(8):
        root.database.execute(
            f"update a set id = id + 100000, v = 'moved' where id % 50 = {number};"
            f" delete from a where id % 51 = {number}; update a set v = 'w' where id % 7 = {number}"
        )
        line.tick()
        root.database.execute("select pgq.maint_rotate_tables_step1(%s)", QUEUE)
        root.database.execute("select pgq.maint_rotate_tables_step2()")
    assert consumer(root) == stands

    # Another machine: its files are elsewhere, and so is what it works in.
    order(line, leaf, "throttle", "--off")
    elsewhere = line.directory / "elsewhere"
    elsewhere.mkdir()
    leaf.config = shutil.move(leaf.config, elsewhere / "other.toml")
    second = line.start(leaf)
    line.wait(
        lambda: leaf.database.value(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name = 'londiste copy public.a'"
        ),
        "the copy process to look at the table",
        60,
    )
    assert int(leaf.database.value(CHUNKS)) == done
    assert consumer(root) == stands
    order(line, leaf, "resume")

    def in_step() -> bool:
        line.tick()
        return bool(leaf.database.value("select merge_state from londiste.table_info") == "ok")

    line.wait(in_step, "the table to be ok", 90)
    line.wait_position(leaf, line.tick())
    rows = "select id, v from a order by id"
    assert leaf.database.execute(rows) == root.database.execute(rows)
    assert f"resumes, {done} of" in line.processes.everything_said()
    assert second.stop() == 0


def test_indexes_are_built_and_a_table_becomes_ok_while_copies_are_paused(line: Line) -> None:
    root, leaf = pair(line, extra=SLOW, copy_chunk_bytes=1 << 16)
    with leaf.database.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        line.start(leaf)
        line.wait(lambda: leaf.database.value(BUILDING), "an index to be built", 60)
        order(line, leaf, "pause", "--now")
        root.database.execute("update a set v = 'later' where id % 3 = 0")
        holder.execute("select pg_advisory_unlock(42)")

        def in_step() -> bool:
            line.tick()
            return bool(leaf.database.value("select merge_state from londiste.table_info") == "ok")

        line.wait(in_step, "the table to be ok", 90)
    line.wait_position(leaf, line.tick())
    rows = "select id, v from a order by id"
    assert leaf.database.execute(rows) == root.database.execute(rows)
    assert leaf.worker is not None and leaf.worker.stop() == 0
