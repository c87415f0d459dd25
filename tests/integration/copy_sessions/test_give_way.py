"""Copies give way to the writers of the provider."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from londiste.copy import load_throttle
from londiste.copy.load_throttle import CommitProbe, Limits, LoadWatch
from londiste.copy.process import CopyProcess
from londiste.copy.sqlapi import control
from londiste.db.connection import Connection, session
from tests.fixtures.copies import A, Nodes, fill, same
from tests.integration.copy_sessions.test_copy_status import Copy, copy  # noqa: F401 -- fixtures
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

ROLE = "londiste_test_no_message"
NO_MESSAGE = """
    do $$
    declare
        v_one regprocedure;
    begin
        for v_one in select oid from pg_proc where proname = 'pg_logical_emit_message' loop
            execute format('revoke execute on function %s from public', v_one);
        end loop;
    end;
    $$
"""


@pytest.fixture
def leaf(nodes: Nodes) -> Connection:
    return nodes.leaf.connect()


@pytest.fixture
def touchy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit is slow: what a server of tests needs for a commit is any time."""
    monkeypatch.setattr(load_throttle, "_MUCH", 0.0)
    monkeypatch.setattr(load_throttle, "_MORE", 0.0)


@contextlib.contextmanager
def writers(nodes: Nodes) -> Iterator[threading.Event]:
    """Two clients that commit as fast as they can, until the event is set."""
    nodes.root.execute("create table public.written (i int)")
    end = threading.Event()

    def write() -> None:
        with nodes.root.connect(name="an application") as conn:
            while not end.is_set():
                conn.execute("insert into public.written values (1)")

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield end
    finally:
        end.set()
        for thread in threads:
            thread.join()


def process(nodes: Nodes, **limits: bool) -> CopyProcess:
    """A copy process with larger chunks: a limit of the rate acts inside of them."""
    made = nodes.process()
    return replace(
        made, job=replace(made.job, chunk_bytes=8 * 1024 * 1024), limits=Limits(**limits)
    )


@pytest.mark.usefixtures("touchy")
def test_copies_give_way_while_others_write_unless_full_speed_is_wanted(
    nodes: Nodes,
    copy: Copy,  # noqa: F811
    leaf: Connection,
) -> None:
    fill(nodes, A, 100_000)
    nodes.add(A)

    def reason() -> str | None:
        return control.get_copy_control(leaf, "q").held_reason

    # So the copy lasts longer than all that is looked at here.
    control.copy_throttle(leaf, "q", 500_000, None)
    with writers(nodes) as end:
        nodes.start_work(process(nodes))
        found = wait_for(reason, what="the copies to give way")
        assert "ms for a commit" in found
        shown = copy("status").err
        assert "throttled to" in shown
        assert "writers of" in shown
        assert "londiste copy throttle --full-speed" in shown
        assert (
            "full speed even if writers of the provider wait"
            in copy("throttle", "--full-speed").err
        )
        wait_for(lambda: reason() is None, what="full speed")
        assert control.get_copy_control(leaf, "q").bytes_per_second == 500_000
        control.copy_throttle(leaf, "q", 500_000, None, full_speed=False)
        wait_for(reason, what="the copies to give way again")
        end.set()
        wait_for(lambda: reason() is None, what="full speed without writers")
    assert "no limits" in copy("throttle", "--off").err
    nodes.wait_end()
    assert same(nodes, A)


@pytest.mark.usefixtures("touchy")
@pytest.mark.parametrize("full_speed", first([False, True]))
def test_copies_have_full_speed_where_nobody_writes_or_the_setting_wants_it(
    nodes: Nodes, leaf: Connection, caplog: pytest.LogCaptureFixture, full_speed: bool
) -> None:
    fill(nodes, A, 50_000)
    nodes.add(A)
    # Longer than the checks need.
    control.copy_throttle(leaf, "q", 2_000_000, None)
    caplog.set_level(logging.INFO, load_throttle.__name__)
    with writers(nodes) if full_speed else contextlib.nullcontext():
        nodes.start_work(process(nodes, full_speed=full_speed))
        nodes.wait_end()
    assert same(nodes, A)
    assert "throttled" not in caplog.text


def test_what_a_killed_process_has_left_is_removed(nodes: Nodes, leaf: Connection) -> None:
    fill(nodes, A)
    nodes.add(A)
    control.copy_hold(leaf, "q", 16_384, "writers")
    nodes.start_work(process(nodes, full_speed=True))
    nodes.wait_end()
    assert control.get_copy_control(leaf, "q").held_bytes_per_second is None


def test_a_commit_is_measured_and_counts_as_no_writer(nodes: Nodes) -> None:
    with session(nodes.root.dsn, autocommit=True, synchronous=True) as conn:
        probe = CommitProbe(conn, threading.Event())
        probe.check(2, 0.01)
        found = probe.check(10, 0.01)
        assert 0 < found.seconds < 1
        with writers(nodes):
            wait_for(
                lambda: probe.check(10, 0.01).others > load_throttle.WRITERS, what="the writers"
            )


def test_copies_do_not_give_way_where_a_commit_cannot_be_measured(
    nodes: Nodes, leaf: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, load_throttle.__name__)
    nodes.root.execute(NO_MESSAGE)
    nodes.root.execute(f"drop role if exists {ROLE}")
    nodes.root.execute(f"create role {ROLE} login")
    try:
        dsn = psycopg.conninfo.make_conninfo(nodes.root.dsn, options=f"-c role={ROLE}")
        watch = LoadWatch(nodes.leaf.dsn, "q", lambda: dsn, Limits())
        watch.start(leaf)
        wait_for(lambda: "a commit cannot be measured" in caplog.text, what="the line of the log")
        watch.stop()
    finally:
        nodes.root.execute(f"drop role {ROLE}")
    assert caplog.text.count("cannot be measured") == 1
    assert "permission denied" in caplog.text
