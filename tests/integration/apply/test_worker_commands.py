"""The worker process: applied batches, poll interval, stop conditions."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table a (id int primary key, v text unique, n numeric);
create table b (id int primary key, a int references a, note text);
create table log (line text, n int);
"""
TABLES = ("public.a", "public.b", "public.log")


@kept_nodes
def _pair(line: Line, **keys: object) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, **keys)
    line.add(root, "public.a", "public.b")
    line.add(root, "public.log", insert_only=True)
    # the leaf learns of the tables
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", "public.b")
    line.add(leaf, "public.log", insert_only=True)
    return root, leaf


def _contents(node: LineNode) -> dict[str, list[tuple[object, ...]]]:
    return {t: node.database.execute(f"select t::text from {t} t order by 1") for t in TABLES}


def test_once_applies_everything_there_is_and_ends(line: Line) -> None:
    root, leaf = _pair(line)
    root.database.execute(
        "insert into a values (1, 'x', 1.50), (2, 'y', 'NaN'), (3, 'z', null);"
        "insert into b values (1, 1, 'first'), (2, 3, null);"
        "insert into log select 'line', g from generate_series(1, 1000) g"
    )
    line.tick()
    root.database.execute(
        "begin; update a set v = 'tmp' where id = 1; update a set v = 'x' where id = 2;"
        "update a set v = 'y' where id = 1; update b set a = 2 where id = 2;"
        "delete from a where id = 3; update a set id = 7 where id = 2 and false; commit;"
        "update b set id = 5 where id = 1"
    )
    last = line.tick()
    line.once(leaf)
    assert line.position(leaf) == last
    assert _contents(leaf) == _contents(root)
    assert len(_contents(leaf)["public.log"]) == 1000


def test_a_running_worker_follows_changes_and_wakes_up_for_ticks(line: Line) -> None:
    root, leaf = _pair(line, poll_interval=300.0)
    worker = line.start(leaf)
    line.wait(lambda: "reading from node root" in worker.said(), "the worker to begin")
    for number in range(5):
        root.database.execute("insert into a values (%s, %s)", number, f"v{number}")
        # Long before the next poll.
        line.wait_position(leaf, line.tick(), seconds=60)
    assert _contents(leaf) == _contents(root)
    assert worker.stop() == 0


def test_a_truncate_in_the_middle_of_a_batch(line: Line) -> None:
    root, leaf = _pair(line)
    root.database.execute("insert into a values (1, 'x', 1); insert into log values ('old', 1)")
    line.tick()
    line.once(leaf)
    root.database.execute(
        "insert into a values (2, 'y', 2); truncate a, b; insert into a values (3, 'x', 3);"
        "truncate log; insert into log values ('new', 2)"
    )
    line.tick()
    line.once(leaf)
    assert _contents(leaf) == _contents(root)
    assert _contents(leaf)["public.a"]


def test_a_second_worker_is_refused_and_told_who_is_there(line: Line) -> None:
    _, leaf = _pair(line)
    worker = line.start(leaf)
    line.wait(lambda: "reading from node root" in worker.said(), "the worker to begin")
    with refused_at_once():
        done = line.here(leaf, "worker")
    assert done.code == 3, str(done)
    assert "queue line: another worker runs" in done.err
    assert f"{worker.pid}@" in done.err
    # Two programs may run it, and each of them stops its own.
    assert "worker -s" in done.err and "run -s" in done.err
    assert worker.running()
    assert worker.stop() == 0


def test_a_worker_of_another_name_is_refused(line: Line) -> None:
    _, leaf = _pair(line)
    line.configure(leaf, job_name="somebody")
    done = line.here(leaf, "worker", "--once")
    assert done.code == 2, str(done)
    assert "node leaf: its worker is leaf_worker, not somebody" in done.err
    assert line.error(leaf) is None


def test_an_event_that_does_not_fit_halts_and_is_shown_until_it_does(line: Line) -> None:
    root, leaf = _pair(line)
    root.database.execute("insert into a values (1, 'x', 1), (2, 'y', 2)")
    before = line.tick()
    line.once(leaf)
    leaf.database.execute("set session_replication_role = replica; delete from a where id = 2")
    root.database.execute(
        "begin; insert into log values ('with it', 1); update a set v = 'secret' where id = 2;"
        "commit"
    )
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    assert "(update of table public.a) cannot be applied on node leaf: no row" in done.err
    assert "londiste resync public.a" in done.err
    assert "secret" not in done.err
    worker = line.start(leaf)
    line.wait(lambda: "no row matches the key" in worker.said(), "the error in the log")
    assert "cannot be applied on node leaf: no row matches the key" in (line.error(leaf) or "")
    assert line.position(leaf) == before
    assert _contents(leaf)["public.log"] == []
    leaf.database.execute(
        "set session_replication_role = replica; insert into a values (2, 'y', 2)"
    )
    line.wait(lambda: line.error(leaf) is None, "the error to be forgotten")
    assert _contents(leaf) == _contents(root)
    assert worker.stop() == 0


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (
            "delete from a where id = 2",
            "update a set v = 'z' where id = 2",
            "no row matches the key",
        ),
        pytest.param(
            "delete from a where id = 2",
            "delete from a where id > 0",
            "no row matches the key",
            marks=pytest.mark.slow,
        ),
        ("insert into a values (3, 'q', 3)", "insert into a values (3, 'c', 3)", "duplicate key"),
    ],
)
def test_a_daemon_that_has_applied_before_names_what_is_wrong(
    line: Line, here: str, there: str, said: str
) -> None:
    root, leaf = _pair(line)
    worker = line.start(leaf)
    root.database.execute("insert into a values (1, 'x', 1), (2, 'y', 2)")
    before = line.tick()
    line.wait(lambda: line.position(leaf) == before, "the first batch")
    leaf.database.execute(f"set session_replication_role = replica; {here}")
    root.database.execute(there)
    line.tick()
    line.wait(lambda: line.error(leaf), "the error")
    assert f"cannot be applied on node leaf: {said}" in (line.error(leaf) or "")
    assert line.position(leaf) == before
    assert worker.stop() == 0


def test_a_paused_worker_says_so_and_resumes(line: Line) -> None:
    root, leaf = _pair(line)
    worker = line.start(leaf)

    def acknowledged() -> bool:
        return bool(
            leaf.database.value("select uptodate from pgq_node.local_state where not uptodate")
            is None
        )

    leaf.database.execute(
        "select * from pgq_node.set_consumer_paused(%s, 'leaf_worker', true)", QUEUE
    )
    line.wait(acknowledged, "the pause to be acknowledged")
    before = line.position(leaf)
    root.database.execute("insert into a values (1, 'x', 1)")
    last = line.tick()
    with refused_at_once():
        done = line.here(leaf, "worker", "--once")
    assert done.code == 3, str(done)
    assert line.position(leaf) == before < last
    leaf.database.execute(
        "select * from pgq_node.set_consumer_paused(%s, 'leaf_worker', false)", QUEUE
    )
    line.wait_position(leaf, last)
    assert worker.stop() == 0


def test_a_hold_stops_the_worker_at_its_tick(line: Line) -> None:
    root, leaf = _pair(line, pgq_batch_collect_events=1000000, pgq_batch_collect_interval="1 ms")
    ticks = []
    for number in range(4):
        root.database.execute("insert into a values (%s, %s)", number, f"v{number}")
        ticks.append(line.tick())
    leaf.database.execute(
        "select * from pgq_node.set_consumer_hold(%s, 'leaf_worker', %s, 60, 'test')",
        *(QUEUE, ticks[1]),
    )
    worker = line.start(leaf)
    line.wait_position(leaf, ticks[1])
    root.database.execute("insert into a values (9, 'v9')")
    last = line.tick()
    assert line.position(leaf) == ticks[1]
    assert leaf.database.value("select count(*) from a") == 2
    leaf.database.execute(
        "select * from pgq_node.clear_consumer_hold(%s, 'leaf_worker', null)", QUEUE
    )
    line.wait_position(leaf, last)
    assert _contents(leaf) == _contents(root)
    assert worker.stop() == 0


CRASHES = [
    pytest.param("worker.before-batch", marks=pytest.mark.slow),
    pytest.param("worker.after-next-batch", marks=pytest.mark.slow),
    "worker.mid-apply",
    pytest.param("worker.before-commit", marks=pytest.mark.slow),
    "worker.after-commit",
    pytest.param("worker.before-finish", marks=pytest.mark.slow),
    pytest.param("worker.after-finish", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("point", CRASHES)
def test_a_killed_worker_applies_nothing_twice_and_loses_nothing(line: Line, point: str) -> None:
    root, leaf = _pair(line)
    for number in range(3):
        root.database.execute(
            f"insert into a values ({number}, 'v{number}');"
            f"insert into log values ('once', {number})"
        )
        line.tick()
    done = line.run(leaf, "worker", "--once", env={"LONDISTE_CRASH": f"{point}:2"})
    assert done.code == -signal.SIGKILL, str(done)
    line.once(leaf)
    assert _contents(leaf) == _contents(root)
    assert len(_contents(leaf)["public.log"]) == 3


def test_both_servers_may_be_restarted_at_any_time(
    new_cluster: Callable[..., Cluster], line: Line
) -> None:
    source, target = new_cluster("source"), new_cluster("target", version=16)
    root = line.node("root", NodeType.ROOT, schema=SCHEMA, on=source)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, on=target)
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a")
    worker = line.start(leaf)
    for number, server in enumerate((source, target)):
        root.database.execute("insert into a values (%s, %s)", number, f"v{number}")
        line.wait_position(leaf, line.tick())
        server.restart("immediate")
    root.database.execute("insert into a values (9, 'v9')")
    line.wait_position(leaf, line.tick())
    line.wait(lambda: line.error(leaf) is None, "the error to be forgotten")
    assert _contents(leaf)["public.a"] == _contents(root)["public.a"]
    assert worker.running()
    assert worker.stop() == 0


def test_a_branch_passes_on_the_same_events_and_ticks(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(root, "public.a", "public.b")
    line.tick()
    line.once(branch)
    line.add(branch, "public.a", "public.b")
    line.once(leaf)
    line.add(leaf, "public.a", "public.b")
    root.database.execute("insert into a values (1, 'x', 1); insert into b values (1, 1, 'é')")
    line.tick()
    for point in ("worker.before-commit", "worker.after-commit", "worker.before-finish"):
        root.database.execute("update a set n = n + 1; insert into b select max(id) + 1 from b")
        line.tick()
        done = line.run(branch, "worker", "--once", env={"LONDISTE_CRASH": point})
        assert done.code == -signal.SIGKILL, str(done)
        line.once(branch)
    line.once(leaf)
    assert _contents(branch) == _contents(leaf) == _contents(root)
    events = (
        "select ev_id, ev_time, ev_type, ev_data, ev_extra1 from pgq.event_1"
        " where ev_id > %s order by 1"
    )
    ticks = "select tick_id, tick_event_seq from pgq.tick where tick_id > %s order by 1"
    # the branch began behind the root's first tick
    first = branch.database.value("select min(tick_id) from pgq.tick")
    assert branch.database.execute(ticks, first) == root.database.execute(ticks, first)
    seen = branch.database.value("select min(ev_id) - 1 from pgq.event_1")
    assert branch.database.execute(events, seen) == root.database.execute(events, seen)
    assert len(branch.database.execute(events, seen)) >= 8


def test_a_root_worker_publishes_the_watermark(line: Line) -> None:
    root, leaf = _pair(line, local_wm_publish_period=0.1)
    root.database.execute("insert into a values (1, 'x', 1)")
    line.tick()
    line.once(leaf)
    last = line.tick()
    line.once(leaf)
    line.once(root)
    assert line.error(root) is None
    watermark = root.database.value(
        "select last_tick from pgq.get_consumer_info(%s, '.global_watermark')", QUEUE
    )
    assert 1 < watermark <= last


@pytest.mark.slow
def test_a_table_is_copied_and_taken_over_while_it_changes(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    root.database.execute(
        "insert into a select g, 'v' || g, g from generate_series(1, 500) g;"
        "insert into b select g, g, 'n' from generate_series(1, 500) g"
    )
    line.add(root, "public.a", "public.b")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", "public.b", expect_sync=False)
    worker = line.start(leaf)

    def in_step() -> bool:
        root.database.execute(
            "update a set n = n + 1 where id <= 10; insert into b select max(id) + 1 from b"
        )
        line.tick()
        states = leaf.database.execute("select merge_state from londiste.table_info where local")
        return len(states) == 2 and all(state == "ok" for (state,) in states)

    line.wait(in_step, "both tables to be ok", 60)
    line.wait_position(leaf, line.tick())
    assert _contents(leaf) == _contents(root)
    key = "select convalidated from pg_constraint where conname = 'b_a_fkey'"
    line.wait(lambda: leaf.database.value(key), "the foreign key to be back and checked")
    assert worker.stop() == 0


def test_a_node_restored_from_a_backup_begins_where_it_is(line: Line) -> None:
    root, leaf = _pair(line)
    root.database.execute("insert into a values (1, 'x', 1)")
    old = line.tick()
    line.once(leaf)
    root.database.execute("insert into a values (2, 'y', 2)")
    line.tick()
    line.once(leaf)
    line.tick()
    # what a restored backup looks like: older rows and the position that belongs to them
    leaf.database.execute(
        "set session_replication_role = replica; delete from a where id = 2;"
        f"update pgq_node.local_state set last_tick_id = {old} where consumer_name = 'leaf_worker'"
    )
    (made,) = root.database.execute("select tick_time from pgq.tick where tick_id = %s", old)[0]
    leaf.database.execute("update pgq.known_source set ks_tick = %s, ks_tick_time = %s", old, made)
    done = line.here(leaf, "worker", "--once")
    assert done.code == 3, str(done)
    assert all(way in done.err for way in ("worker -s", "run -s", "--rewind"))
    refused = line.run(leaf, "worker", "--rewind", "-d")
    assert refused.code == 2 and "--rewind; londiste" in refused.err, str(refused)
    assert line.error(leaf)
    moved = line.here(leaf, "worker", "--rewind")
    assert moved.code == 0 and "start the worker" in moved.err
    assert not line.error(leaf)
    line.once(leaf)
    assert _contents(leaf) == _contents(root)


@pytest.mark.parametrize(
    ("made", "drop"),
    [
        ("create unique index only_here on a (n)", 'drop index "public"."only_here"'),
        (
            "alter table a add constraint only_here unique (n)",
            'alter table "public"."a" drop constraint "only_here"',
        ),
    ],
)
def test_a_unique_index_that_only_the_leaf_has_is_dropped_as_the_hint_says(
    line: Line, made: str, drop: str
) -> None:
    root, leaf = _pair(line)
    leaf.database.execute(made)
    root.database.execute("insert into a values (1, 'x', 1), (2, 'y', 1)")
    last = line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5
    start = "hint: if the table of the provider has no only_here, drop it here, and the worker"
    assert f"{start} continues: {drop}; otherwise copy the table again: londiste" in done.err
    leaf.database.execute(drop)
    line.once(leaf)
    assert line.position(leaf) == last
    assert _contents(leaf) == _contents(root)


def test_an_error_of_a_deferred_trigger_names_the_batch_and_the_trigger(line: Line) -> None:
    root, leaf = _pair(line)
    leaf.database.execute(
        "create function f() returns trigger language plpgsql as $$"
        "begin raise 'no boom here'; end$$;"
        "create constraint trigger later after insert on a deferrable initially deferred"
        " for each row execute function f(); alter table a enable always trigger later"
    )
    root.database.execute("insert into a values (1, 'x', 1)")
    last = line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code != 0
    assert "no boom here" in done.err
    assert "where deferred triggers fire: later of public.a" in done.err
    repair = 'alter table "public"."a" enable trigger "later"'
    assert f"to fire it for other sessions only: {repair}" in done.err
    leaf.database.execute(repair)
    line.once(leaf)
    assert line.position(leaf) == last
