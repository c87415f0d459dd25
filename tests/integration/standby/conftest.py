"""A primary and standbys of it, for the tests of this folder."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.line import Line, LineNode
from tests.support.scenarios.processes import Process
from tests.support.servers.standby import Standby, running_standby

SCHEMA = "create table public.t (id int primary key, v text)"
#: Rows of the event tables that a server has read.
_EVENTS_READ = """
select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)
from pg_stat_user_tables
where schemaname = 'pgq' and relname ~ '^event_[0-9]+_'
"""


@dataclass
class Pair:
    """A root on the primary, a leaf on another server, and the standby that the leaf reads from."""

    line: Line
    root: LineNode
    leaf: LineNode
    standby: Standby

    def configure(self, read_from: str | None = None, **keys: Any) -> None:
        """The settings of the leaf."""
        dsn = self.standby.dsn(self.root.database.name) if read_from is None else read_from
        self.line.configure(self.leaf, read_from=dsn, **keys)

    def write(self, first: int, count: int, *, size: int = 10) -> int:
        """Inserts rows on the root in one transaction, an event each; the tick behind them."""
        self.root.database.execute(
            f"do $$ begin for i in {first}..{first + count - 1} loop"
            f" insert into t values (i, repeat('x', {size})); end loop; end $$"
        )
        return self.line.tick()

    def reads_slowly(self, worker: Process, first: int) -> int:
        """Stops the worker in the middle of a batch that it reads from the standby; its tick."""
        reading = "select 1 from pg_stat_activity where query ~ '^copy' and state = 'active'"
        for attempt in range(10):
            # More than a socket holds.
            tick = self.write(first + attempt * 4000, 4000, size=10_000)
            self.line.wait(lambda: self.standby.execute(reading), "a batch that is read")
            worker.send(signal.SIGSTOP)
            if self.standby.execute(reading + " and wait_event = 'ClientWrite'"):
                return tick
            worker.go_on()
            self.line.wait_position(self.leaf, tick)
        raise AssertionError("each batch was read before the worker could be stopped")

    def same(self) -> bool:
        """Whether both have the same rows."""
        rows = "select * from t order by id"
        return bool(self.root.database.execute(rows) == self.leaf.database.execute(rows))

    def events_read(self) -> int:
        """Rows of events that the primary has read; the worker is stopped: its sessions report."""
        if self.leaf.worker is not None:
            assert self.leaf.worker.stop() == 0
        sessions = "select count(*) from pg_stat_activity where application_name ~ '^londiste'"
        self.line.wait(lambda: not self.root.database.value(sessions), "the end of its sessions")
        return int(self.root.database.value(_EVENTS_READ))

    def started(self) -> Process:
        """A running worker of the leaf, which reads from the provider or its standby."""
        worker = self.line.start(self.leaf)
        self.line.wait(lambda: "reading from node root" in worker.said(), "a worker that reads")
        return worker


class Kept:
    """The standby that the tests of a file have one after the other; a new one where it is lost."""

    def __init__(self, primary: Cluster) -> None:
        self._primary = primary
        self._standby: Standby | None = None
        self._context = contextlib.ExitStack()

    def get(self, settings: dict[str, str]) -> Standby:
        """The standby, with these settings and no others."""
        if self._standby is None:
            context = running_standby(self._primary, **settings)
            self._standby = self._context.enter_context(context)
        else:
            self._standby.configure(settings)
        return self._standby

    def give_back(self) -> None:
        """After a test, whose databases are still there: another one may have it."""
        if self._standby is not None and not self._standby.restored():
            self.close()

    def close(self) -> None:
        self._standby = None
        self._context.close()


@pytest.fixture(scope="module")
def primary(own_servers: Callable[..., Cluster]) -> Cluster:
    """The server of the provider."""
    # What a standby that is down has yet to receive.
    return own_servers("primary", settings={"wal_keep_size": "256MB"})


@pytest.fixture(scope="module")
def kept(primary: Cluster) -> Iterator[Kept]:
    """The standby of a file."""
    made = Kept(primary)
    yield made
    made.close()


@pytest.fixture
def streaming(kept: Kept) -> Iterator[Callable[..., Standby]]:
    """Gives the standby of the primary; takes its settings."""
    yield lambda **settings: kept.get(settings)
    kept.give_back()


@pytest.fixture
def pair(primary: Cluster, line: Line, streaming: Callable[..., Standby]) -> Callable[..., Pair]:
    """Makes the pair; takes settings of the standby, and ``worker``: those of the leaf."""

    def make(worker: dict[str, Any] | None = None, **settings: str) -> Pair:
        root = line.node("root", NodeType.ROOT, schema=SCHEMA, on=primary)
        leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
        line.add(root, "public.t")
        line.tick()
        line.once(leaf)
        line.add(leaf, "public.t")
        found = Pair(line, root, leaf, streaming(**settings))
        found.standby.caught_up()
        found.configure(**(worker or {}))
        return found

    return make
