"""A cascade under watch: root with ticker and worker, a leaf on a server of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Cluster, Database, Server, create_database
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.scenarios.processes import Process, Processes

TABLES = "".join(
    f"create table {name} (id int primary key, v text);" for name in ("t", "other", "late")
)


@dataclass
class Watched:
    """The cascade; every test leaves it healthy."""

    line: Line
    root: LineNode
    leaf: LineNode
    leaf_server: Cluster
    root_server: Cluster | None = None
    #: Limits of seconds are waited for; those of hours are moved on.
    patient: bool = False
    #: Whether all observers say ok, where there are some.
    healthy: Callable[[], bool] = lambda: True
    ticker: Process = field(init=False)
    notifier: Process = field(init=False)

    def start_ticker(self) -> None:
        """Starts the ticker of the root's database."""
        argv = [sys.executable, "-m", "londiste", "ticker", "--db", self.root.database.dsn]
        self.ticker = self.line.processes.start("ticker", argv)

    def age_reports(self, node: LineNode, seconds: int = 3600, *, name: str = "%") -> None:
        """As if this time had passed since the last reports in a database."""
        age = "update pgq.daemon set dm_seen = dm_seen - make_interval(secs => %s)"
        if not self.patient:
            node.database.execute(f"{age} where dm_name like %s", seconds, name)

    def shorten_periods(self, node: LineNode) -> None:
        """Reports of daemons are due at once, so that a test need not wait."""
        if not self.patient:
            node.database.execute("update pgq.daemon set dm_period = 0.1")

    @contextmanager
    def aged_ticks(self, seconds: int = 3600) -> Iterator[None]:
        """As if this time had passed since all ticks that exist now."""
        newest = self.root.database.value("select max(tick_id) from pgq.tick")
        move = "update pgq.tick set tick_time = tick_time - make_interval(secs => %s)"
        move += " where tick_id <= %s"
        known = (
            "update pgq.known_source set ks_tick_time = ks_tick_time - make_interval(secs => %s)"
        )
        known += " where ks_tick <= %s"
        self.root.database.execute(move, seconds, newest)
        self.leaf.database.execute(known, seconds, newest)
        yield
        self.root.database.execute(move, -seconds, newest)
        self.leaf.database.execute(known, -seconds, newest)

    def synced(self) -> None:
        """Waits until the leaf has everything."""
        self.root.database.execute("select pgq.force_tick(%s)", QUEUE)
        tick = int(
            self.root.database.value(
                "select coalesce(max(tick_id), 0) from pgq.tick t join pgq.queue q"
                " on q.queue_id = t.tick_queue where q.queue_name = %s",
                QUEUE,
            )
        )
        self.line.wait_position(self.leaf, tick)


def watch(
    directory: Path,
    root_server: Server,
    leaf_server: Cluster,
    *,
    patient: bool = False,
) -> Iterator[Watched]:
    """The cascade, with its root on one server and its leaf on another."""

    def make(*, on: Any = None, pgq: bool = False) -> Database:
        return create_database(on or root_server, pgq=pgq)

    line = Line(directory, make, Processes(directory))
    root = line.node("root", NodeType.ROOT, schema=TABLES)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLES, on=leaf_server)
    line.add(root, "t", "other", "late")
    line.add(leaf, "t", "other")
    root.database.execute(
        "select pgq.set_queue_config(%s, 'ticker_idle_period', '1 second'),"
        " pgq.set_queue_config(%s, 'ticker_max_lag', '100 ms')",
        QUEUE,
        QUEUE,
    )
    line.start(root)
    line.start(leaf)
    own = root_server if isinstance(root_server, Cluster) and patient else None
    scene = Watched(line, root, leaf, leaf_server, own, patient)
    scene.start_ticker()
    root.database.execute("insert into t values (1, 'a'), (2, 'b')")
    line.wait(lambda: leaf.database.value("select count(*) from t") == 2, "first rows")
    yield scene
    assert not line.processes.close()
    root.database.drop()


@pytest.fixture(scope="module")
def watched(
    cluster: Server,
    own_servers: Callable[..., Cluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    yield from watch(tmp_path_factory.mktemp("watched"), cluster, own_servers("leaf"))
