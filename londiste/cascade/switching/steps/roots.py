"""Steps that close, promote, demote and reopen a root."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from londiste.cascade import create_hint
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.create_node import AnnounceParts
from londiste.cascade.model import NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.steps.notes import AtNode, EndsRecord, NodeAddress, Ticket
from londiste.db.names import argument
from londiste.errors import Deadlock, LockTimeout, LondisteError, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import LockHolder, in_the_way, lock_holders
from londiste.pgq import queues

#: Seconds of one attempt to close a root, which blocks writers, and of the pause after it.
_TRY_SECONDS, _PAUSE_SECONDS = 1.0, 0.5
#: Seconds for the answer beside those for locks: when it is lost, nobody can write any more.
_ANSWER_SECONDS = 2.0


@dataclass(frozen=True)
class CloseRoot(AtNode):
    """Ends writing on the root and creates its last tick.

    While it waits for open transactions, new writers wait, too: so each attempt is short.
    """

    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: wait for writing transactions, refuse events, create the last tick"

    def done(self, sites: Connections) -> bool:
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        return found is not None and found.last_tick is not None

    def run(self, sites: Connections) -> None:
        deadline = time.monotonic() + sites.lock_timeout
        limit = min(_TRY_SECONDS, sites.lock_timeout)
        while True:
            try:
                conn = sites.at(self.at.dsn)
                with sites.answering(2 * limit + _ANSWER_SECONDS):
                    operation_log.close_root(conn, self.queue, self.ticket.get(), limit)
                return
            except (LockTimeout, Deadlock) as error:
                if time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise self._stays_open(sites, error) from error
            # Writers continue during the pause, and the next attempt may succeed.
            time.sleep(_PAUSE_SECONDS)

    def _stays_open(self, sites: Connections, error: LockTimeout | Deadlock) -> LockTimeout:
        """The error about transactions that have written events and do not end."""
        writers: list[LockHolder] = []
        with contextlib.suppress(LondisteError):
            table = queues.event_table(sites.at(self.at.dsn), self.queue)
            writers = lock_holders(sites, self.at.dsn, table, writers=True)
        held, remedy = in_the_way(error, writers, self.at.name)
        return LockTimeout(
            f"node {self.at.name}: the root could not be closed within {sites.lock_timeout:g} s:"
            " a writing transaction is open",
            detail="; ".join([error.message, *held]),
            hint=(remedy or "end the transaction, or raise lock_timeout; then ")
            + "repeat the command; nothing was changed",
        )


@dataclass(frozen=True)
class AnnounceBeforeClosing(AnnounceParts):
    """The same on a root that will be closed: afterwards its parts do not move."""

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.dsn)
        found = operation_log.find(conn, self.combined)
        closed = found is not None and found.last_tick is not None
        return closed or nodes.get_node_info(conn, self.combined).type is not NodeType.ROOT


@dataclass(frozen=True)
class EqualParts:
    """Checks that merging queues are at the same ticks on both nodes."""

    old: NodeAddress
    new: NodeAddress
    queue: str

    def describe(self) -> str:
        return f"{self.new.name}: check that merging queues are at the ticks of {self.old.name}"

    def done(self, sites: Connections) -> bool:
        return not self._differences(sites)

    def run(self, sites: Connections) -> None:
        different = self._differences(sites)
        if different:
            raise StateError(
                f"queues that merge into {self.queue} are at different ticks on {self.old.name}"
                f" and {self.new.name}",
                detail="; ".join(different),
                hint="create the leaves again: " + "; ".join(different.values()),
            )

    def _differences(self, sites: Connections) -> dict[str, str]:
        """The different ticks, and how the leaf on the new node is created again."""
        there, here = sites.at(self.old.dsn), sites.at(self.new.dsn)
        found = {}
        for part in nodes.get_node_info(there, self.queue).target_for:
            theirs, mine = nodes.get_node_info(there, part), nodes.find_node_info(here, part)
            # A missing one was reported before, and the operator proceeds without it.
            if mine is not None and mine.last_tick != theirs.last_tick:
                found[f"{part}: {theirs.last_tick} and {mine.last_tick}"] = (
                    f"with the settings of queue {part} on {self.new.name}: londiste drop-node"
                    f" {argument(mine.name)}, then {create_hint.like(here, mine)}"
                )
        return found


@dataclass(frozen=True)
class Promote(AtNode):
    """Makes the branch the root; afterwards only another switchover leads back."""

    ticket: Ticket
    tick: Callable[[], int]

    def describe(self) -> str:
        return f"{self.at.name}: make it the root"

    def done(self, sites: Connections) -> bool:
        return nodes.get_node_info(sites.at(self.at.dsn), self.queue).type is NodeType.ROOT

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation_log.promote(conn, self.queue, self.ticket.get(), self.tick())


@dataclass(frozen=True)
class BecomeBranch(AtNode):
    """Makes the old root a branch of the new one."""

    ticket: Ticket
    provider: str

    def describe(self) -> str:
        return f"{self.at.name}: make it a branch below {self.provider}"

    def done(self, sites: Connections) -> bool:
        return nodes.get_node_info(sites.at(self.at.dsn), self.queue).type is NodeType.BRANCH

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation_log.become_branch(conn, self.queue, self.ticket.get(), self.provider)


class ReopenRoot(EndsRecord):
    """Opens the old root for events again."""

    def describe(self) -> str:
        return f"{self.at.name}: accept events again"

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation_log.reopen_root(conn, self.queue, self.ticket.get())


class KeepClosed(EndsRecord):
    """Removes the record from an old root that another node has replaced; it takes no events."""

    def describe(self) -> str:
        return f"{self.at.name}: refuse events, remove the record of the change"

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            if nodes.is_root_node(conn, self.queue):
                operation_log.fence_root(conn, self.queue)
            operation_log.end(conn, self.queue, self.ticket.get())
