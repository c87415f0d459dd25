"""A cascade without a ticker reports it; a ticker can share the settings file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cascade.model import NodeType
from londiste.copy import catchup
from londiste.daemon.pidfile import running
from tests.fixtures.cascade import CommandLine
from tests.fixtures.copies import A, Nodes
from tests.fixtures.line import Line
from tests.support.waiting import wait_for

SCHEMA = "create table a (id int primary key)"


def test_a_table_that_waits_for_a_tick_says_so(
    nodes: Nodes,
    londiste: CommandLine,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catchup, "TICK_SECONDS", 0.5)
    nodes.root.execute("insert into a values (1)")
    nodes.add(A)
    nodes.start(A)
    wait_for(lambda: "waits for a tick of queue q" in nodes.error(A), what="word")
    assert "public.a: waits for a tick of queue q: node n1" in caplog.text
    shown = londiste(nodes.leaf, "status", job="w2").out
    assert "waits for a tick of queue q" in shown and "londiste ticker" in shown
    done = londiste(nodes.leaf, "wait-sync", "--timeout", "1", job="w2")
    assert done.code == 6 and "waits for a tick of queue q" in done.err, str(done)
    # Now there are ticks.
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert nodes.error(A) == ""


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
