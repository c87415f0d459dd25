"""What all pages of the console contain, and the findings of a cascade."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from londiste.console.collect import Snapshot
from londiste.console.facts import Fact, NodeFacts
from londiste.console.history import History
from londiste.console.watch import View
from londiste.monitor import verdict
from londiste.monitor.queues.rules import worst
from londiste.monitor.status import NodeStatus, Status
from londiste.monitor.verdict import Allowed

#: Version of all documents below /api/v1.
VERSION = 1


@dataclass(frozen=True)
class UnknownNode:
    """A node of which the page does not know all that it shows.

    why -- it does not answer, or what it does not show.
    """

    node: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """The beginning of every document.

    taken_at -- time of the collection, in UTC; null: no node has answered yet.
    state -- of the cascade: ok, warning, critical, or unknown if no node answers.
    error -- why the last collection failed; empty if it succeeded.
    command -- the command that shows the same.
    unknown_nodes -- rows of these nodes may be missing in the lists below.
    """

    version: int = VERSION
    queue: str = ""
    taken_at: datetime | None = None
    state: str = "unknown"
    error: str = ""
    command: str = ""
    unknown_nodes: tuple[UnknownNode, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether an empty list means that there is nothing."""
        return self.taken_at is not None and not self.error and not self.unknown_nodes


@dataclass(frozen=True)
class FindingRow:
    """A finding about the cascade."""

    severity: str
    what: str
    why: str
    do: str


@dataclass(frozen=True)
class Point:
    """A value of a series; seconds_ago -- before taken_at."""

    seconds_ago: float
    value: float


@dataclass(frozen=True)
class MigrationRow:
    """A migration; next -- the next command."""

    phase: str
    in_sync: int
    tables: int
    next: str


@dataclass(frozen=True)
class Request:
    """What a page is made of: the newest view, the history, and the words of the query string.

    migration -- the state of the migration, if the cascade is one.
    """

    view: View
    history: History
    query: Mapping[str, str]
    migration: MigrationRow | None = None


#: Makes the values of a page.
Build = Callable[[Request], Page]


def head(request: Request, command: str, *shown: Fact) -> dict[str, Any]:
    """The fields of ``Page``; shown -- what the page shows of each node beside the status."""
    snapshot = request.view.snapshot
    if snapshot is None:
        return {"error": request.view.error, "command": command}
    found = verdict.findings(snapshot.status, Allowed())
    state = worst(found).word
    return {
        "queue": snapshot.status.queue,
        "taken_at": snapshot.taken_at,
        "state": "unknown" if request.view.error else state,
        "error": request.view.error,
        "command": command,
        "unknown_nodes": tuple(_unknown(snapshot, frozenset(shown))),
    }


def _unknown(snapshot: Snapshot, shown: Set[Fact]) -> Iterator[UnknownNode]:
    """The nodes of which not all that is shown is known."""
    for node in snapshot.status.nodes:
        facts = snapshot.nodes.get(node.name)
        hidden = shown if facts is None else shown & facts.unknown
        if node.unreachable:
            yield UnknownNode(node.name, node.silence)
        elif hidden:
            words = " and ".join(fact.value for fact in Fact if fact in hidden)
            yield UnknownNode(node.name, f"does not show {words}")


def nodes(request: Request) -> list[tuple[str, NodeFacts]]:
    """The nodes that answered, in the order of the status, with their facts."""
    snapshot = request.view.snapshot
    if snapshot is None:
        return []
    names = [node.name for node in snapshot.status.nodes]
    return [(name, snapshot.nodes[name]) for name in names if name in snapshot.nodes]


def root(request: Request) -> str | None:
    """The name of the root."""
    snapshot = request.view.snapshot
    found = () if snapshot is None else snapshot.status.nodes
    return next((node.name for node in found if node.type == "root"), None)


def findings(status: Status) -> tuple[FindingRow, ...]:
    """The findings about a cascade, the worst first."""
    return tuple(
        FindingRow(one.severity.word, one.what, one.why, one.do)
        for one in verdict.findings(status, Allowed())
    )


def severity(node: NodeStatus, status: Status) -> str:
    """The worst severity of a node."""
    found = verdict.of_node(node, status, Allowed())
    return worst(list(found)).word


def points(request: Request, key: tuple[str, ...]) -> tuple[Point, ...]:
    """The history of a value."""
    snapshot = request.view.snapshot
    if snapshot is None:
        return ()
    now = snapshot.taken_at.timestamp()
    return tuple(
        Point(round(ago, 1), round(value, 3)) for ago, value in request.history.points(key, now)
    )


def latest(request: Request, key: tuple[str, ...]) -> float | None:
    """The newest value of a series."""
    snapshot = request.view.snapshot
    if snapshot is None:
        return None
    found = request.history.latest(key, snapshot.taken_at.timestamp())
    return None if found is None else round(found, 1)
