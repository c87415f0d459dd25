"""Snapshots held on the source: one chunk of a resumable copy, none after the copy."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Database
from tests.fixtures.copies import A, Nodes, fill, same
from tests.fixtures.line import QUEUE, Line
from tests.support.stepped import Stepped
from tests.support.waiting import wait_for

#: Transactions of ours, and sessions that keep vacuum from removing rows.
OPEN = """
select a.pid, a.xact_start::text, a.application_name
from pg_stat_activity a
where a.datname = current_database() and a.application_name like 'londiste%'
    and (a.xact_start is not null or a.backend_xmin is not null)
    -- The commits that are measured for the throttle are open for a moment each.
    and (a.application_name <> 'londiste copy load' or a.xact_start < now() - interval '5 seconds')
"""
SCHEMA = "create table a (id int8 primary key, v text)"


class Writer(threading.Thread):
    """Updates, deletes and inserts all over the table until it is told to stop."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self.database = database
        self.stopping = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        with self.database.connect(name="pgbench of a kind") as conn:
            while not self.stopping.is_set():
                self.rounds += 1
                number = self.rounds
                conn.execute(
                    f"update public.a set v = 'w{number}' where id % 997 = {number % 997};"
                    f" update public.a set id = -id where id = {number * 3};"
                    f" insert into public.a values ({100_000 + number}, 'new');"
                    f" delete from public.a where id = {number * 5 + 1}"
                )


@pytest.mark.slow
def test_nothing_of_a_resumable_copy_on_the_source_is_older_than_a_chunk(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    keys = {"copy_chunk_bytes": 1 << 17, "resumable_copy_min_bytes": 0}
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, **keys)
    root.database.execute(
        "insert into a select i, repeat('v', 90) from generate_series(1, 20000) i; analyze a"
    )
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    # One chunk at a time: whatever is open belongs to the chunk that is being copied.
    leaf.database.execute("select londiste.copy_throttle(%s, 250000, 1)", QUEUE)
    done = "select count(*) from londiste.copy_chunk"
    before: dict[tuple[object, ...], list[int]] = defaultdict(list)
    after: dict[tuple[object, ...], list[int]] = defaultdict(list)
    writer = Writer(root.database)
    writer.start()
    line.start(leaf)

    def look() -> int:
        line.tick()
        first = int(leaf.database.value(done))
        found = [one for one in root.database.execute(OPEN) if one[2] == "londiste copy public.a"]
        last = int(leaf.database.value(done))
        if last >= first:
            # Otherwise the attempt has ended in between.
            for one in found:
                before[one].append(first)
                after[one].append(last)
        return first

    line.wait(lambda: look() > 4 and len(before) > 3, "the sessions of some chunks", 90)
    leaf.database.execute("select londiste.copy_throttle(%s, null, null)", QUEUE)
    state = "select merge_state from londiste.table_info"

    def is_ok() -> bool:
        line.tick()
        return bool(leaf.database.value(state) == "ok")

    line.wait(is_ok, "the table to be ok", 90)
    writer.stopping.set()
    writer.join()
    for one in before:
        # It was seen while this many chunks were done at least, and this many at most.
        assert max(before[one]) - min(after[one]) <= 1, one
    assert writer.rounds > 10
    line.wait_position(leaf, line.tick())
    rows = "select id, v from a order by id"
    assert leaf.database.execute(rows) == root.database.execute(rows)
    assert leaf.worker is not None and leaf.worker.stop() == 0


@pytest.mark.parametrize("way", ["resumable", "snapshot"])
def test_nothing_is_open_on_the_source_while_indexes_are_built_changes_replayed_and_handed_over(
    nodes: Nodes, way: str
) -> None:
    fill(nodes, A)
    nodes.leaf.execute(
        "create function public.slow(text) returns text language plpgsql immutable as"
        " 'begin perform pg_advisory_xact_lock_shared(42); return $1; end';"
        " create index a_slow on public.a (public.slow(v));"
        " create function public.gate() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock_shared(43); return new; end';"
        " create trigger gate before insert or update on public.a for each row"
        " when (new.v = 'gate') execute function public.gate();"
        " alter table public.a enable always trigger gate"
    )

    def between(done: int, left: int) -> None:
        if left == 0:
            # Behind the snapshot of every chunk: it comes as an event.
            nodes.root.execute("update public.a set v = 'gate' where id = 5")
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")

    nodes.engine = Stepped(between)
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    waits = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and wait_event = 'advisory' and application_name like 'londiste copy%'"
        " and query {} '%%create index%%'"
    )
    building, replaying = waits.format("ilike"), waits.format("not ilike")
    with nodes.leaf.connect() as index, nodes.leaf.connect() as event:
        index.execute("select pg_advisory_lock(42)")
        event.execute("select pg_advisory_lock(43)")
        nodes.start()
        phases = [(event, 43, replaying), (index, 42, building)]
        for holder, number, what in phases if way == "resumable" else reversed(phases):
            wait_for(lambda what=what: nodes.leaf.value(what), what="the copy to wait")  # type: ignore[misc]
            assert nodes.root.execute(OPEN) == []
            holder.execute(f"select pg_advisory_unlock({number})")
    state = "select merge_state from londiste.table_info where table_name = 'public.a'"

    def standing() -> bool:
        nodes.root.execute("select pgq.ticker('q')")
        return str(nodes.leaf.value(state)).startswith("wanna-sync")

    wait_for(standing, what="the copy to stand still for the worker")
    assert nodes.root.execute(OPEN) == []
    nodes.wait_end()
    assert nodes.failure is None
    assert same(nodes, A)
