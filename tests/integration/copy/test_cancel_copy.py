"""A table can be removed or copied again while its indexes are built."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode

SCHEMA = "create table a (id int primary key, v text)"
#: Indexes whose build waits for the advisory lock 42.
SLOW = """
create function slow(text) returns text language plpgsql immutable as
    'begin perform pg_advisory_xact_lock_shared(42); return $1; end';
create index a_one on a (slow(v));
create index a_two on a (slow(v) desc);
create index a_three on a (slow(v), id);
"""
BUILDING = """
select count(*) from pg_stat_progress_create_index
where relid = 'public.a'::regclass and pid in (
    select pid from pg_stat_activity where wait_event_type = 'Lock' and wait_event = 'advisory')
"""


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA + ";" + SLOW)
    root.database.execute("insert into a select i, repeat('v', 90) from generate_series(1, 3000) i")
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    return root, leaf


@pytest.mark.parametrize(
    ("command", "chunk"),
    [
        # Each index in a session of its own.
        ("remove-table", 1 << 16),
        pytest.param("resync", 1 << 16, marks=pytest.mark.slow),
        # All in one transaction that has locked the table.
        pytest.param("remove-table", 1 << 27, marks=pytest.mark.slow),
        pytest.param("resync", 1 << 27, marks=pytest.mark.slow),
    ],
)
def test_a_table_whose_indexes_are_built_can_be_taken(
    line: Line, pair: tuple[LineNode, LineNode], command: str, chunk: int
) -> None:
    root, leaf = pair
    # What waits for the test shall not give up on a slow machine.
    line.configure(leaf, copy_chunk_bytes=chunk, lock_timeout=120)
    with leaf.database.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        line.start(leaf)
        line.wait(lambda: leaf.database.value(BUILDING), "an index to be built", 60)
        done = line.here(leaf, command, "a")
        assert done.code == 0, str(done)
        if command == "remove-table":
            assert not leaf.database.value("select local from londiste.table_info")
            holder.execute("select pg_advisory_unlock(42)")
            line.wait(lambda: not leaf.database.value(BUILDING), "all builds to end", 60)
            # Half a table was thrown away, and its structure is there again.
            assert leaf.database.value("select count(*) from a") == 0
        else:
            root.database.execute("delete from a where id > 10")

            def again() -> bool:
                line.tick()
                return leaf.database.value("select count(*) from a") == 10

            # Nobody waits for the indexes of the rows of before.
            line.wait(again, "the rows to be copied again", 60)
            holder.execute("select pg_advisory_unlock(42)")

            def whole() -> bool:
                line.tick()
                state = leaf.database.value("select merge_state from londiste.table_info")
                return bool(state == "ok")

            line.wait(whole, "the table to be copied again", 90)
    assert leaf.database.value("select count(*) from pg_indexes where tablename = 'a'") == 4
    line.wait(
        lambda: (
            not root.database.execute(
                "select from pgq.get_consumer_info('line') where consumer_name like '%.copy.%'"
            )
        ),
        "the consumer of the copy to be gone",
    )
    assert leaf.worker is not None and leaf.worker.stop() == 0
