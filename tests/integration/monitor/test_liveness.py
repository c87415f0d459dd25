"""Status reports who runs: real daemons that are killed, stopped by a signal, or ended."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeType
from londiste.db.connection import connect
from londiste.install.apply import install
from londiste.monitor import status
from londiste.monitor.status import NodeStatus
from londiste.pgq import liveness
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

TABLE = "create table t (id int primary key, v text)"


def of(node: LineNode) -> NodeStatus:
    return status.collect(node.database.dsn, QUEUE).node(node.name)


def until(node: LineNode, life: Life) -> NodeStatus:
    def found() -> NodeStatus | None:
        seen = of(node)
        # By its report: the lock of one that has just begun shows only that it is there.
        reported = seen.worker is not None and not seen.worker.session
        return seen if reported and seen.worker.life is life else None  # type: ignore[union-attr]

    return wait_for(found, what=f"worker {life}")


def make_silent(node: LineNode, seconds: int) -> None:
    """As after this time: the last report is older, and the session has ended no statement."""
    node.database.execute(
        "update pgq.daemon set dm_seen = dm_seen - make_interval(secs => %s)", seconds
    )


def test_a_worker_is_alive_hung_and_gone(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLE)
    line.add(root, "t")
    line.add(leaf, "t")
    assert of(leaf).worker.life is Life.NEVER  # type: ignore[union-attr]
    shown = command(leaf, "status").out
    start = "worker: NOT RUNNING (never reported here); start it: londiste -c"
    assert f"{start} {leaf.config} worker\n" in shown
    assert f"{start} FILE worker (settings of node root)\n" in shown
    assert f"do:  londiste -c {leaf.config} worker\n" in command(leaf, "check").out
    assert f"{start} {leaf.config} worker" in command(leaf, "status", "--check").out
    with leaf.database.connect() as other:
        # As a worker of 4.0.0, which does not report.
        other.execute(
            "select pg_advisory_lock(hashtextextended('londiste worker ' || %s::text, 0))", [QUEUE]
        )
        assert of(leaf).worker.life is Life.ALIVE  # type: ignore[union-attr]
        shown = command(leaf, "status").out
        assert "worker: alive, has not reported: an older program, or it starts (" in shown
        assert "start no second one" in shown and shown.count("NOT RUNNING") == 1
        assert "NOT RUNNING" not in command(leaf, "check").out
    line.start(leaf)
    root.database.execute("insert into t values (1, 'a')")
    line.wait_position(leaf, line.tick())
    alive = until(leaf, Life.ALIVE)
    worker = alive.worker
    assert leaf.worker is not None
    assert worker is not None
    assert worker.pid == leaf.worker.pid
    assert alive.behind is not None
    assert alive.behind.idle
    shown = command(leaf, "status").out
    assert "worker: alive" in shown
    assert "Lag: idle" in shown
    # Neither lag nor life depends on the age of the tick.
    root.database.execute("update pgq.tick set tick_time = tick_time - interval '1 h'")
    older = "update pgq.known_source set ks_tick_time = ks_tick_time - interval '1 h'"
    leaf.database.execute(older)
    assert "Lag: idle" in command(leaf, "status").out
    leaf.worker.send(signal.SIGKILL)
    leaf.worker.wait()
    make_silent(leaf, 60)
    root.database.execute("insert into t select n, 'b' from generate_series(2, 11) n")
    line.tick()
    gone = until(leaf, Life.GONE)
    assert gone.behind is not None
    # The forced tick has consumed ids without events; two rows are packed.
    assert (gone.behind.ticks, gone.behind.events) == (1, 9)
    shown = command(leaf, "status").out
    assert "worker: NOT RUNNING since" in shown
    assert "behind by 1 tick, about 9 events" in shown


def test_a_daemon_that_starts_before_the_sql_is_installed_reports_later(
    new_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "MISSING_PERIOD", 0.0)
    database = new_database(pgq=False)
    beat = liveness.Beat("notify", "q", "here")
    with connect(database.dsn, name="test", autocommit=True) as session:
        for _ in range(3):
            beat.beat(session)
        install(session)
        beat.beat(session)
        assert [one.name for one in liveness.get_daemons(session)] == ["here"]


def test_a_stopped_process_and_an_ended_one(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT)
    worker = line.start(root)
    until(root, Life.ALIVE)
    # Three of these are the longest that it waits for a server, and ten seconds.
    assert root.database.value("select dm_period from pgq.daemon") == pytest.approx(20.0)
    worker.send(signal.SIGSTOP)
    try:
        make_silent(root, 600)
        # Its session is there, and ended its last statement long ago: the limit is shortened.
        root.database.execute("update pgq.daemon set dm_period = 0.1")
        shown = until(root, Life.HUNG).worker
        assert shown is not None
        assert "HUNG, connected but silent" in shown.text
        refused = command(root, "pause", "--timeout", "0.5")
        way = f"on {shown.host}: kill -CONT {worker.pid}; or kill -9 {worker.pid}, then start it:"
        assert f"hint: {way}" in refused.err
    finally:
        worker.send(signal.SIGCONT)
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert "worker: NOT RUNNING since" in command(root, "status").out
    assert until(root, Life.STOPPED).worker.since is not None  # type: ignore[union-attr]


def test_ticker_and_consumer_report(line: Line, program: Callable[..., Program]) -> None:
    root = line.node("root", NodeType.ROOT)

    def daemons() -> dict[str, Any]:
        with root.database.connect() as conn:
            return dict(conn.execute("select kind, has_session from pgq.get_daemons(%s)", [QUEUE]))

    ticker = program("ticker", "--db", root.database.dsn)
    wait_for(lambda: daemons() == {"ticker": True}, what="ticker")
    assert "ticker: alive" in "\n".join(one.text for one in of(root).daemons)
    ticker.signal(signal.SIGKILL)
    ticker.end()
    wait_for(lambda: daemons() == {"ticker": False}, what="no session")
    make_silent(root, 60)
    said = "\n".join(one.text for one in of(root).daemons)
    assert "ticker: NOT RUNNING since" in said and "londiste ticker --db 'host=" in said


def test_a_halted_event_is_one_short_line(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLE)
    line.add(root, "t")
    line.add(leaf, "t")
    root.database.execute("insert into t values (1, 'secret')")
    leaf.database.execute(
        "set session_replication_role = replica; insert into t values (1, 'other')"
    )
    line.tick()
    line.start(leaf)
    line.wait(lambda: of(leaf).halted, "halt")
    shown = command(leaf, "status").out
    (text,) = [row.strip() for row in shown.splitlines() if "HALTED" in row]
    assert text.startswith("HALTED at event ")
    assert text.endswith(": insert of public.t by id: londiste events show")
    assert "secret" not in shown
    assert "worker: alive" in shown


def test_a_second_ticker_that_stopped_is_not_the_first(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    with root.database.connect() as conn:
        second = liveness.Beat("ticker", "", "host")
        second.beat(conn)
        second.stop(conn)
    assert "ticker: NOT RUNNING since" in "\n".join(one.text for one in of(root).daemons)
    with connect(root.database.dsn, name="londiste ticker first ticks"):
        assert "ticker: alive" in "\n".join(one.text for one in of(root).daemons)
