"""Copies are paused, limited and held back while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from londiste.copy import status
from londiste.copy.load_throttle import Limits
from londiste.copy.sqlapi import control
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection
from londiste.errors import BadOption, UnknownNode
from tests.fixtures.cluster import Database
from tests.fixtures.copies import A, Nodes, fill, held, same
from tests.integration.copy_sessions.test_copy_status import Copy, copy  # noqa: F401 -- fixtures
from tests.support.waiting import wait_for

CHUNKS = "select count(*) from londiste.copy_chunk"
RUNNING = "select count(*) from pg_stat_progress_copy"
ATTEMPTS = "select count(*) from londiste.copy_attempt"


@pytest.fixture
def leaf(nodes: Nodes) -> Connection:
    return nodes.leaf.connect()


def test_a_paused_node_begins_no_copy_and_holds_nothing_on_the_source(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
) -> None:
    fill(nodes, A)
    nodes.add(A)
    assert "copies paused" in copy("pause").err
    assert "copies are already paused" in copy("pause").err
    nodes.start()
    wait_for(
        lambda: nodes.leaf.value(
            "select count(*) from pg_stat_activity"
            " where application_name = 'londiste copy public.a'"
        ),
        what="the copy process to look at the table",
    )
    assert nodes.consumers() == []
    assert nodes.leaf.value(ATTEMPTS) == 0
    assert "paused since" in copy("status").err
    assert "copies resumed" in copy("resume").err
    nodes.wait_end()
    assert same(nodes, A)
    assert "copies are not paused" in copy("resume").err


def test_a_pause_lets_running_chunks_end_and_no_other_begin(
    nodes: Nodes,
    leaf: Connection,
) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="two chunks to begin")
        control.copy_pause(leaf, "q")
    wait_for(lambda: nodes.leaf.value(CHUNKS) == 2, what="the end of the running chunks")
    # Two tasks have met the pause: they wait in a session that looks.
    wait_for(lambda: waiting(nodes) == 2, what="the next tasks to wait")
    assert nodes.leaf.value(CHUNKS) == 2
    nodes.stop()
    nodes.signals = Signals(stop_timeout=30)
    # The pause outlives the process.
    nodes.start()
    assert nodes.state(A) == "in-copy"
    assert control.get_copy_control(leaf, "q").paused
    control.copy_resume(leaf, "q")
    nodes.wait_end()
    assert same(nodes, A)


def waiting(nodes: Nodes) -> int:
    """Tasks that have asked for their turn and have none."""
    return int(
        nodes.leaf.value(
            "select count(*) from pg_stat_activity"
            " where application_name like 'londiste copy task%'"
            " and state = 'idle' and query like '%copy_turn%'"
        )
    )


def test_a_pause_names_the_tables_that_keep_a_snapshot_open(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
) -> None:
    fill(nodes, A)
    nodes.add(A)
    with held(nodes):
        nodes.start()
        wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="two chunks to begin")
        answer = copy("pause")
        copy("resume")
    snapshot = nodes.leaf.value("select mode = 'snapshot' from londiste.copy_choices('q')")
    assert ("public.a is copied in one snapshot" in answer.err) == snapshot
    nodes.wait_end()


def test_a_pause_that_breaks_off_rolls_running_chunks_back(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
    leaf: Connection,
) -> None:
    fill(nodes, A)
    nodes.add(A)
    # So slow that no chunk ends by itself in time.
    control.copy_throttle(leaf, "q", control.SLOWEST, None)
    nodes.start()
    wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="two chunks to begin")
    assert "copies paused" in copy("pause", "--now").err
    wait_for(lambda: waiting(nodes) == 2, what="the tasks to wait")
    assert nodes.leaf.value(RUNNING) == 0
    assert nodes.leaf.value(CHUNKS) == 0
    assert nodes.leaf.value(ATTEMPTS) == 1
    copy("throttle", "--off")
    copy("resume")
    nodes.wait_end()
    assert same(nodes, A)


def test_running_chunks_obey_another_rate(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
) -> None:
    fill(nodes, A, 20_000)
    nodes.add(A)
    assert "at most 20.0kB/s" in copy("throttle", "--bytes-per-second", "20k").err
    nodes.start()
    wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="two chunks to begin")
    # At that rate the table takes two minutes: only chunks that obey the new one end in time.
    copy("throttle", "--off")
    nodes.wait_end()
    assert same(nodes, A)


def test_a_rate_is_shared_by_the_tasks_that_run(
    nodes: Nodes,
    leaf: Connection,
) -> None:
    fill(nodes, A)
    nodes.add(A)
    control.copy_throttle(leaf, "q", 40_000, None)
    with held(nodes):
        nodes.start()
        wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="two chunks to begin")
        assert nodes.leaf.value("select bytes_per_second from londiste.copy_pace('q')") == 20_000
        control.copy_throttle(leaf, "q", None, None)
    nodes.wait_end()


def test_no_more_chunks_at_a_time_than_tasks_are_allowed(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
) -> None:
    fill(nodes, A)
    nodes.add(A)
    assert "at most 1 chunk at a time" in copy("throttle", "--tasks", "1").err
    with held(nodes):
        nodes.start()
        wait_for(lambda: nodes.leaf.value(RUNNING) == 1, what="a chunk to begin")
        wait_for(lambda: waiting(nodes) == 1, what="another task to wait")
        assert nodes.leaf.value(RUNNING) == 1
        answer = copy("throttle", "--bytes-per-second", "1.5M", "--json")
        assert '"bytes_per_second": 1500000, "tasks": 1' in answer.out
        copy("throttle", "--off")
        wait_for(lambda: nodes.leaf.value(RUNNING) == 2, what="the other task to begin")
    nodes.wait_end()
    assert same(nodes, A)


def test_a_busy_source_holds_the_copies_back_until_it_is_calm(
    nodes: Nodes,
    leaf: Connection,
) -> None:
    nodes.add(A)
    fill(nodes, A)
    control.copy_pause(leaf, "q")
    with nodes.root.connect() as holder:
        holder.execute("select pg_advisory_lock(7)")
        # Sessions that wait for a lock are at work: two, and one is allowed.
        busy = [nodes.root.connect(name=name) for name in ("somebody", "somebody else")]
        for session in busy:
            session.pgconn.send_query(b"select pg_advisory_lock(7)")
        nodes.start_work(replace(nodes.process(), limits=Limits(source_sessions=1)))
        found = wait_for(
            lambda: control.get_copy_control(leaf, "q").held_reason, what="the copies to be held"
        )
        assert "active sessions" in found
        assert "copy_max_source_sessions (1)" in found
        assert nodes.leaf.value("select bytes_per_second from londiste.copy_pace('q')") > 0
        assert status.collect(leaf, "q", "w2").control.held_bytes_per_second
        control.copy_resume(leaf, "q")
        for session in busy:
            session.close()
        holder.execute("select pg_advisory_unlock_all()")
        wait_for(
            lambda: control.get_copy_control(leaf, "q").held_reason is None,
            what="the copies to be let go",
        )
    nodes.wait_end()
    assert same(nodes, A)


def test_limits_that_are_none_are_refused(
    copy: Copy,  # noqa: F811
) -> None:
    for args, says in (
        (("--bytes-per-second", "fast"), "must be a number of bytes"),
        (("--bytes-per-second", "0"), "must be at least 16384"),
        (("--tasks", "0"), "0 is not in the range"),
        (("--tasks", "99999999999999999999"), "is not in the range"),
        (("--tasks", "1", "--off"), "--off excludes"),
    ):
        answer = copy("throttle", *args)
        assert answer.code == 2
        assert says in answer.err
        assert "no limits" in copy("throttle").err, args


def test_a_rate_that_is_larger_than_any_number_is_no_error(
    copy: Copy,  # noqa: F811
) -> None:
    assert copy("throttle", "--bytes-per-second", "99999999999999999G").code == 0
    assert copy("throttle", "--off").code == 0


def test_sql_refuses_what_is_no_node_or_no_limit(
    new_database: Callable[..., Database], leaf: Connection
) -> None:
    with pytest.raises(UnknownNode, match="database has no node of queue nothere"):
        control.copy_pause(leaf, "nothere")
    with pytest.raises(UnknownNode, match="database has no node of queue nothere"):
        control.copy_throttle(leaf, "nothere", None, 1)
    for rate, tasks in ((100, None), (None, 0)):
        with pytest.raises(BadOption, match="invalid limit of copies"):
            control.copy_throttle(leaf, "q", rate, tasks)
    assert control.get_copy_control(leaf, "q") == control.Control()
