"""Collects snapshots of a cascade: its status, and facts of each node beside it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from londiste.console import facts as of_nodes
from londiste.console.facts import NodeFacts, SlowFacts, masked_text
from londiste.db.connection import Connection
from londiste.monitor import status as monitor
from londiste.monitor.alarms import DatabaseFacts
from londiste.monitor.place import Place, first_answer
from londiste.monitor.queues.model import Limits
from londiste.monitor.status import NodeStatus, Status
from londiste.replication.model import ReplicatedTable

#: Seconds for which slow facts are new enough.
_SLOW_SECONDS = 15.0


@dataclass(frozen=True)
class Snapshot:
    """The cascade at a moment; nodes -- by name, those that answered."""

    taken_at: datetime
    status: Status
    nodes: dict[str, NodeFacts]


class Collector:
    """Collects snapshots; places -- the nodes, the first one that answers knows the rest."""

    def __init__(self, places: Callable[[], Sequence[Place]], *, show_values: bool = False) -> None:
        self._places = places
        self._show_values = show_values
        self._lock = threading.Lock()
        self._slow: dict[str, tuple[float, SlowFacts]] = {}

    def __call__(self) -> Snapshot:
        """A new snapshot.  Raises LondisteError if no place answers."""
        return first_answer(self._places(), self._at)

    def _at(self, place: Place) -> Snapshot:
        found: dict[str, NodeFacts] = {}

        def visit(conn: Connection, name: str, facts: DatabaseFacts) -> None:
            def slow(tables: Sequence[ReplicatedTable]) -> SlowFacts:
                return self._slow_facts(conn, place.queue, name, tables)

            node = of_nodes.collect(conn, place.queue, slow, self._show_values)
            with self._lock:
                found[name] = node

        status = monitor.collect(
            place.dsn,
            place.queue,
            extra=place.extra,
            limits=Limits(),
            visit=visit,
            in_file=place.in_file,
        )
        if not self._show_values:
            status = without_values(status)
        return Snapshot(datetime.now(UTC), status, found)

    def _slow_facts(
        self, conn: Connection, queue: str, name: str, tables: Sequence[ReplicatedTable]
    ) -> SlowFacts:
        now = time.monotonic()
        with self._lock:
            taken, known = self._slow.get(name, (0.0, None))
        if known is not None and now - taken < _SLOW_SECONDS:
            return known
        new = of_nodes.collect_slow(conn, queue, tables, values=self._show_values)
        with self._lock:
            self._slow[name] = (now, new)
        return new

    def forget(self) -> None:
        """Collects slow facts again, too: a command has changed something."""
        with self._lock:
            self._slow.clear()


def without_values(status: Status) -> Status:
    """Pure: the status without texts that may contain values of rows."""
    return dataclasses.replace(status, nodes=tuple(map(_plain_node, status.nodes)))


def _plain_node(node: NodeStatus) -> NodeStatus:
    errors = tuple((source, masked_text(text)) for source, text in node.errors)
    daemons = tuple(dataclasses.replace(d, error=masked_text(d.error)) for d in node.daemons)
    return dataclasses.replace(node, errors=errors, daemons=daemons)
