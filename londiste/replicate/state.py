"""State of the nodes of ``londiste replicate``: in sync, or how far behind, in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.copy.status import TableStatus
from londiste.copy.status import collect as copies_of
from londiste.orchestration.connections import Connections
from londiste.pgq import queues
from londiste.pgq.types import ConsumerInfo
from londiste.replicate.databases import node_of
from londiste.replication import sqlapi as tables


@dataclass(frozen=True)
class NodeState:
    """A node and its lag behind the newest tick of the root.

    root -- it is the source: no lag.
    ticks, events, seconds -- behind the root; None when unknown.
    copies -- the tables that are not in sync.
    errors -- of its worker and its copies.
    """

    name: str
    root: bool
    tables: int
    ok: int
    ticks: int | None = None
    events: int | None = None
    seconds: float | None = None
    errors: tuple[str, ...] = ()
    copies: tuple[TableStatus, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """What is worth a message when it changes."""
        return self.name, self.tables, self.ok, self.in_sync, self.errors

    @property
    def in_sync(self) -> bool:
        """Whether all tables are in sync, and no event waits."""
        caught_up = self.root or (self.ticks is not None and self.ticks <= 1 and self.events == 0)
        return caught_up and self.ok == self.tables and not self.errors


def line(state: NodeState) -> str:
    """Pure: one line about a node."""
    counted = f"{state.tables} tables" if state.tables != 1 else "1 table"
    if state.root:
        words = f"root, {counted}"
    elif state.in_sync:
        words = f"in sync, {counted}"
    elif state.ok < state.tables:
        words = f"{state.ok} of {counted} in sync{_behind(state, '; ')}"
    else:
        words = (_behind(state, "") or "not in sync") + f"; {counted}"
    if state.errors:
        words += f"; error: {'; '.join(state.errors)}"
    return f"{state.name}: {words}"


def _behind(state: NodeState, before: str) -> str:
    if not state.ticks and not state.events:
        return ""
    parts = []
    for count, word in ((state.ticks, "tick"), (state.events, "event")):
        if count:
            parts.append(f"{count} {word}" + ("" if count == 1 else "s"))
    if state.seconds is not None:
        parts.append(f"{state.seconds:.1f} s")
    return f"{before}behind by {', '.join(parts)}"


def look(
    sites: Connections, queue: str, source: Endpoint, targets: Sequence[Endpoint]
) -> list[NodeState]:
    """Asks all databases; empty when one of them is no node any more.  Raises NodeUnreachable."""
    root = sites.at(source.dsn)
    if node_of(root, queue) is None:
        return []
    newest = queues.get_queue_info(root, queue)[0].last_tick_id or 0
    readers = {one.consumer_name: one for one in queues.get_consumer_info(root, queue)}
    count = len([t for t in tables.get_table_list(root, queue) if t.local])
    found = [NodeState(source.name, True, count, count)]
    for target in targets:
        state = _look_at(sites, target, queue, newest, readers.get(target.worker))
        if state is None:
            return []
        found.append(state)
    return found


def _look_at(
    sites: Connections, target: Endpoint, queue: str, newest: int, reader: ConsumerInfo | None
) -> NodeState | None:
    conn = sites.at(target.dsn)
    info = node_of(conn, queue)
    if info is None:
        return None
    mine = [t for t in tables.get_table_list(conn, queue) if t.local]
    errors = tuple(
        c.cur_error.splitlines()[0] for c in nodes.get_consumer_info(conn, queue) if c.cur_error
    )
    lag = reader.lag.total_seconds() if reader is not None and reader.lag is not None else None
    return NodeState(
        name=target.name,
        root=False,
        tables=len(mine),
        ok=sum(t.state == "ok" for t in mine),
        ticks=max(0, newest - info.last_tick),
        events=reader.pending_events if reader is not None else None,
        seconds=lag,
        errors=errors,
        copies=tuple(copies_of(conn, queue, target.worker, lag=False).tables),
    )
