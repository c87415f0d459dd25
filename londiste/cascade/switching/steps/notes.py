"""Steps that record, finish and undo a change, and mark nodes as failed; locks of their nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import OperationKind
from londiste.errors import StateError, TransientError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


@dataclass(frozen=True)
class NodeAddress:
    """A node and its connection string."""

    name: str
    dsn: str = field(repr=False)


@dataclass(frozen=True)
class AtNode:
    """The node of a step and the queue."""

    at: NodeAddress
    queue: str


@dataclass
class Ticket:
    """The token of the change, known once it is recorded at the first node.

    mine -- this process has created it.
    """

    token: UUID | None = None
    mine: bool = False

    def get(self) -> UUID:
        """The token.  Raises StateError before the change is recorded."""
        if self.token is None:
            raise StateError("the change is not recorded yet", hint="repeat the command")
        return self.token


@dataclass(frozen=True)
class Begin(AtNode):
    """Records the change at a node.

    replaces -- token of a change that has no end any more; its record is removed.
    """

    kind: OperationKind
    node: str
    new: str
    ticket: Ticket
    from_node: str | None = None
    resume: bool = False
    replaces: UUID | None = None

    def describe(self) -> str:
        new = f" -> {self.new}" if self.new != self.node else ""
        more = " in place of an unfinished change" if self.replaces is not None else ""
        return f"{self.at.name}: record {self.kind.value} {self.node}{new}{more}"

    def done(self, sites: Connections) -> bool:
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        if found is None or (found.kind, found.node, found.new) != (self.kind, self.node, self.new):
            return False
        if self.ticket.token is None:
            self.ticket.token = found.token
        return found.token == self.ticket.token

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            if self.replaces is not None:
                operation_log.end(conn, self.queue, self.replaces)
            token, begun = operation_log.begin(
                conn,
                self.queue,
                self.kind,
                self.node,
                self.new,
                token=self.ticket.token,
                from_node=self.from_node,
                resume=self.resume,
            )
        self.ticket.mine = self.ticket.mine or (begun and self.ticket.token is None)
        self.ticket.token = token


@dataclass(frozen=True)
class EndsRecord(AtNode):
    """A step after which the node has no record of the change."""

    ticket: Ticket

    def done(self, sites: Connections) -> bool:
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        return found is None or found.token != self.ticket.token


class End(EndsRecord):
    """Removes the record from a node."""

    def describe(self) -> str:
        return f"{self.at.name}: remove the record of the change"

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation_log.end(conn, self.queue, self.ticket.get())


class Cancel(EndsRecord):
    """Prevents the promotion of the node that was to become the root."""

    def describe(self) -> str:
        return f"{self.at.name}: cancel its promotion"

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation_log.cancel(conn, self.queue, self.ticket.get())


@dataclass(frozen=True)
class TagDead(AtNode):
    """Marks a node as failed on another one, or clears the mark."""

    node: str
    dead: bool = True

    def describe(self) -> str:
        return f"{self.at.name}: mark {self.node} as {'dead' if self.dead else 'alive'}"

    def done(self, sites: Connections) -> bool:
        known = nodes.get_queue_locations(sites.at(self.at.dsn), self.queue)
        return all(m.dead is self.dead for m in known if m.name == self.node)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.register_location(conn, self.queue, self.node, None, dead=self.dead)


def one_at_a_time(where: Connections, steps: Sequence[Step]) -> None:
    """Locks the command at each node that takes part; nodes that do not answer are ignored.

    In the order of their names, so that of two commands one succeeds.
    """
    for step in steps:
        if isinstance(step, Begin):
            operation_log.require_notes(where.at(step.at.dsn), step.at.name)
    places = {(s.at.name, s.at.dsn, s.queue) for s in steps if isinstance(s, AtNode)}
    for name, dsn, queue in sorted(places):
        with contextlib.suppress(TransientError):
            where.alone(dsn, name, queue)
