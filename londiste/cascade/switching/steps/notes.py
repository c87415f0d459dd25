"""Steps that record, finish and undo a change, and that mark nodes as failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import OperationKind
from londiste.errors import StateError
from londiste.orchestration.connections import Connections


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
    """Records the change at a node."""

    kind: OperationKind
    node: str
    new: str
    ticket: Ticket
    from_node: str | None = None
    resume: bool = False

    def describe(self) -> str:
        new = f" -> {self.new}" if self.new != self.node else ""
        return f"{self.at.name}: record {self.kind.value} {self.node}{new}"

    def done(self, sites: Connections) -> bool:
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        if found is None or (found.kind, found.node, found.new) != (self.kind, self.node, self.new):
            return False
        if self.ticket.token is None:
            self.ticket.token = found.token
        return found.token == self.ticket.token

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
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
