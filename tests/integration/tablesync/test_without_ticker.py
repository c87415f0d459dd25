"""A cascade without a ticker reports it; a ticker can share the settings file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cascade.model import NodeType
from londiste.daemon.pidfile import running
from tests.fixtures.line import Line
from tests.support.waiting import wait_for

SCHEMA = "create table a (id int primary key)"


def test_a_table_that_waits_for_a_tick_says_so(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    root.database.execute("insert into a values (1)")
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a", expect_sync=False)
    worker = line.start(leaf)
    error = "select cur_error from pgq_node.local_state where consumer_name like '%.copy.%'"
    line.wait(
        lambda: "waits for a tick of queue line" in (leaf.database.value(error) or ""), "word"
    )
    assert "public.a: waits for a tick of queue line: node root" in worker.said()
    shown = line.run(leaf, "status").out
    assert "waits for a tick of queue line" in shown and "londiste ticker" in shown
    done = line.run(leaf, "wait-sync", "--timeout", "1")
    assert done.code == 6 and "waits for a tick of queue line" in done.err, str(done)

    def in_step() -> bool:
        line.tick()
        states = leaf.database.execute("select merge_state from londiste.table_info")
        return states == [("ok",)]

    line.wait(in_step, "the table, once there are ticks")
    assert leaf.database.value(error) is None
    worker.stop()


def test_a_ticker_with_the_settings_of_a_node_goes_into_the_background(
    line: Line, request: pytest.FixtureRequest
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    pidfile = line.directory / "root.pid"
    line.configure(root, pidfile=str(pidfile), logfile=str(line.directory / "root.log"))
    started = line.run(root, "ticker", "-d")
    assert started.code == 0, str(started)
    own = line.directory / "root.ticker.pid"
    stopping: Callable[[], object] = lambda: line.run(root, "ticker", "-s")  # noqa: E731
    request.addfinalizer(stopping)
    wait_for(lambda: running(own), what="the ticker")
    assert not pidfile.exists(), "it is the worker's"
    # Who stops the worker does not stop the ticker.
    assert line.run(root, "worker", "-s").code != 0
    assert running(own)
    assert line.run(root, "ticker", "-s").code == 0
    wait_for(lambda: running(own) is None, what="its end")
