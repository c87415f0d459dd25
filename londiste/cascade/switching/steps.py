"""The steps that changes of a cascade are made of: each one transaction on one node, or a wait.

A wait has a limit and says who it waits for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import UUID

from londiste.cascade import nodes, pause
from londiste.cascade.create import AnnounceParts
from londiste.cascade.plan import Sites
from londiste.cascade.switching import operation
from londiste.cascade.switching.operation import Kind
from londiste.cascade.types import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.errors import (
    Deadlock,
    LockTimeout,
    LondisteError,
    StateError,
    TransientError,
    UsageError,
)
from londiste.pgq import queues

_LOOK_SECONDS = 0.02
#: A node that needs so long for what another has is close to it.
_CLOSE_SECONDS = 0.25
#: Seconds to wait for that, at most, and for how long of them the root makes no ticks at a time.
_CLOSER_SECONDS, _HOLD_SECONDS = 30.0, 0.9
#: A node that needs more than this part of what it needed before does not come closer any more.
_NEARER = 0.7
#: One attempt to close a root, for which writers may wait behind it, and the pause after it.
_TRY_SECONDS, _PAUSE_SECONDS = 1.0, 0.5


@dataclass(frozen=True)
class Place:
    """A node and how this process reaches it."""

    name: str
    dsn: str = field(repr=False)


@runtime_checkable
class AtNode(Protocol):
    """A step of a queue at one node."""

    @property
    def at(self) -> Place:
        """The node."""
        ...

    @property
    def queue(self) -> str:
        """The queue."""
        ...


@dataclass
class Ticket:
    """The token of the change, known once it is noted at the first node.

    mine -- this process has made it: nobody else knew it before.
    """

    token: UUID | None = None
    mine: bool = False

    def get(self) -> UUID:
        """The token.  Raises StateError before the change is begun."""
        if self.token is None:
            raise StateError("the change is not begun", hint="give the command again")
        return self.token


@dataclass(frozen=True)
class Begin:
    """The change is noted at a node."""

    at: Place
    queue: str
    kind: Kind
    node: str
    new: str
    ticket: Ticket
    from_node: str | None = None
    resume: bool = False

    def describe(self) -> str:
        new = f" -> {self.new}" if self.new != self.node else ""
        return f"{self.at.name}: note {self.kind.value} {self.node}{new}"

    def done(self, sites: Sites) -> bool:
        found = operation.find(sites.at(self.at.dsn), self.queue)
        if found is None or (found.kind, found.node, found.new) != (self.kind, self.node, self.new):
            return False
        if self.ticket.token is None:
            self.ticket.token = found.token
        return found.token == self.ticket.token

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            token, begun = operation.begin(
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
class End:
    """The note is taken off a node."""

    at: Place
    queue: str
    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: the change is done"

    def done(self, sites: Sites) -> bool:
        found = operation.find(sites.at(self.at.dsn), self.queue)
        return found is None or found.token != self.ticket.token

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation.end(conn, self.queue, self.ticket.get())


@dataclass(frozen=True)
class SetPaused:
    """The worker of a node stands still, or goes on, and has said so."""

    at: Place
    queue: str
    worker: str
    paused: bool
    timeout: float

    def describe(self) -> str:
        return f"{self.at.name}: {'pause' if self.paused else 'resume'} worker {self.worker}"

    def done(self, sites: Sites) -> bool:
        state = nodes.get_consumer_state(sites.at(self.at.dsn), self.queue, self.worker)
        return state.paused is self.paused and state.uptodate

    def run(self, sites: Sites) -> None:
        pause.set_paused(
            sites.at(self.at.dsn), self.queue, self.worker, self.paused, timeout=self.timeout
        )


@dataclass(frozen=True)
class WaitTick:
    """A node has reached a tick: in its tables and, on a branch, in its queue."""

    at: Place
    queue: str
    tick: Callable[[], int]
    timeout: float
    why: str

    def describe(self) -> str:
        return f"{self.at.name}: wait up to {self.timeout:g} s until it has {self.why}"

    def done(self, sites: Sites) -> bool:
        try:
            tick = self.tick()
        except StateError:
            # There is no such tick yet.
            return False
        conn = sites.at(self.at.dsn)
        return reached(conn, nodes.get_node_info(conn, self.queue), tick)

    def run(self, sites: Sites) -> None:
        wait_tick(sites.at(self.at.dsn), self.queue, self.tick(), self.timeout, self.why)


@dataclass(frozen=True)
class CatchUp:
    """A node follows a root closely: what the last tick leaves to be done then is little.

    Waits up to ``timeout`` seconds for what the root has now.  Then a few times more for what has
    come meanwhile, and the root makes no ticks for that long: a branch takes each of them by
    itself, and a root that is written to makes them faster than a busy branch gets through them.
    The events go on, and come with the next tick together.  A node that never comes so close is
    taken as it is, and has as long as the caller gives it.
    """

    at: Place
    of: Place
    queue: str
    timeout: float

    def describe(self) -> str:
        what = f"what {self.of.name} has now"
        return f"{self.at.name}: wait up to {self.timeout:g} s until it has {what}"

    def done(self, sites: Sites) -> bool:
        # What was close a moment ago may be far now.
        return False

    def run(self, sites: Sites) -> None:
        tick = newest_tick(sites.at(self.of.dsn), self.queue)
        why = f"what {self.of.name} has now"
        wait_tick(sites.at(self.at.dsn), self.queue, tick, self.timeout, why)
        found = operation.find(sites.at(self.of.dsn), self.queue)
        if found is not None and found.last_tick is not None:
            # It is closed already, and there is nothing to come.
            return
        deadline = time.monotonic() + min(self.timeout, _CLOSER_SECONDS)
        before = math.inf
        while (began := time.monotonic()) < deadline:
            if not drained(sites, self.at, self.of, self.queue):
                continue
            took = time.monotonic() - began
            if took <= _CLOSE_SECONDS or took > _NEARER * before:
                return
            before = took


def drained(sites: Sites, at: Place, of: Place, queue: str) -> bool:
    """Whether ``at`` comes to the newest tick of ``of`` while that makes no other one.

    For ``_HOLD_SECONDS`` at most; a ticker that runs meanwhile passes the queue by.
    """
    try:
        # The lock is on the row of the queue, which those who write do not ask for.
        with sites.transaction(of.dsn) as conn:
            tick = queues.lock_ticks(conn, queue)
            wait_tick(sites.at(at.dsn), queue, tick or 0, _HOLD_SECONDS, f"all ticks of {of.name}")
    except TransientError:
        return False
    return True


def reached(conn: Connection, info: NodeInfo, tick: int) -> bool:
    """Whether tables and queue of a node are at ``tick`` or behind it."""
    if info.last_tick < tick:
        return False
    return info.type is NodeType.LEAF or newest_tick(conn, info.queue) >= tick


def newest_tick(conn: Connection, queue: str) -> int:
    """The newest tick of the queue in a database; 0 when it has none."""
    return max((i.last_tick_id or 0 for i in queues.get_queue_info(conn, queue)), default=0)


def wait_tick(conn: Connection, queue: str, tick: int, timeout: float, why: str) -> NodeInfo:
    """Until the node has reached ``tick``; the node then.  TransientError after ``timeout`` s."""
    deadline = time.monotonic() + timeout
    while True:
        looked = time.monotonic()
        info = nodes.get_node_info(conn, queue)
        if reached(conn, info, tick):
            return info
        if time.monotonic() >= deadline:
            raise TransientError(
                f"node {info.name} does not have {why} after {timeout:g} s",
                detail=_where_it_stands(conn, info, tick),
                hint=f"londiste resume --node {info.name}"
                if info.paused
                else f"look at the log of worker {info.worker}, and at londiste status",
            )
        # On a busy server looking must not take from what it waits for.
        time.sleep(max(_LOOK_SECONDS, 2 * (time.monotonic() - looked)))


def _where_it_stands(conn: Connection, info: NodeInfo, tick: int) -> str:
    words = [f"it stands at tick {info.last_tick} of {tick}"]
    if info.paused:
        words.append("its worker is paused")
    words += [
        f"{c.name}: {c.cur_error}" for c in nodes.get_consumer_info(conn, info.queue) if c.cur_error
    ]
    return "; ".join(words)


@dataclass(frozen=True)
class Subscribe:
    """A node may read from ``at``, from the tick on that ``tick`` gives."""

    at: Place
    queue: str
    node: str
    worker: str
    tick: Callable[[], int]
    timeout: float

    def describe(self) -> str:
        return f"{self.at.name}: register {self.node} as subscriber, with worker {self.worker}"

    def done(self, sites: Sites) -> bool:
        # The position is set again in any case: it costs nothing, and a subscription of before
        # may stand elsewhere.
        return False

    def run(self, sites: Sites) -> None:
        conn = sites.at(self.at.dsn)
        tick = self.tick()
        deadline = time.monotonic() + self.timeout
        while newest_tick(conn, self.queue) < tick:
            if time.monotonic() >= deadline:
                raise TransientError(
                    f"node {self.at.name} has no tick {tick} after {self.timeout:g} s,"
                    f" at which {self.node} stands",
                    detail=f"it is at tick {newest_tick(conn, self.queue)}",
                    hint="see what holds it up: londiste status; then give the command again",
                )
            time.sleep(_LOOK_SECONDS)
        with sites.transaction(self.at.dsn) as conn:
            refuse_taken_name(conn, self.queue, self.at.name, self.node, self.worker)
            try:
                nodes.register_subscriber(conn, self.queue, self.node, self.worker, tick)
            except LondisteError as error:
                gone = isinstance(error, StateError)
                error.say_more(
                    f"node {self.node} stands at tick {tick}, which {self.at.name} has to have",
                    hint="give it another provider, or make it anew: londiste drop-node"
                    f" {self.node}, then create-leaf or create-branch"
                    if gone
                    else "",
                )
                raise


def refuse_taken_name(conn: Connection, queue: str, at: str, node: str, worker: str) -> None:
    """Raises UsageError when the consumer ``worker`` of a provider belongs to somebody else."""
    mine = any(
        s.name == node and s.worker == worker for s in nodes.get_subscriber_info(conn, queue)
    )
    if not mine and queues.get_consumer_info(conn, queue, worker):
        raise UsageError(
            f"consumer {worker} is registered on node {at} already, and not for node {node}",
            detail="the worker would move the position of another program",
            hint="give every worker its own job_name, or unregister the other:"
            f" londiste queue unregister {queue} {worker}",
        )


@dataclass(frozen=True)
class Unsubscribe:
    """A node reads from ``at`` no more.  A node that is gone is passed over with a warning."""

    at: Place
    queue: str
    node: str
    warn: Callable[[str], None]

    def describe(self) -> str:
        return f"{self.at.name}: {self.node} is no subscriber any more"

    def done(self, sites: Sites) -> bool:
        try:
            conn = sites.at(self.at.dsn)
            return all(s.name != self.node for s in nodes.get_subscriber_info(conn, self.queue))
        except TransientError:
            return False

    def run(self, sites: Sites) -> None:
        try:
            with sites.transaction(self.at.dsn) as conn:
                nodes.unregister_subscriber(conn, self.queue, self.node)
        except TransientError as error:
            self.warn(
                f"node {self.at.name} does not answer and keeps events for {self.node}: {error};"
                " when it is back, give the command again, or there: select"
                f" pgq_node.unregister_subscriber('{self.queue}', '{self.node}')"
            )


@dataclass(frozen=True)
class ChangeProvider:
    """The worker of a node reads from another one from now on."""

    at: Place
    queue: str
    worker: str
    provider: str

    def describe(self) -> str:
        return f"{self.at.name}: worker {self.worker} reads from {self.provider}"

    def done(self, sites: Sites) -> bool:
        state = nodes.get_consumer_state(sites.at(self.at.dsn), self.queue, self.worker)
        return state.provider == self.provider

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.change_consumer_provider(conn, self.queue, self.worker, self.provider)


@dataclass(frozen=True)
class CloseRoot:
    """Nobody writes on the root any more; its last tick is made.

    While it waits for a transaction that has written, others who want to write wait behind it: so
    it asks for a moment at a time.
    """

    at: Place
    queue: str
    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: wait for those who write, refuse events, make the last tick"

    def done(self, sites: Sites) -> bool:
        found = operation.find(sites.at(self.at.dsn), self.queue)
        return found is not None and found.last_tick is not None

    def run(self, sites: Sites) -> None:
        deadline = time.monotonic() + sites.lock_timeout
        limit = min(_TRY_SECONDS, sites.lock_timeout)
        while True:
            try:
                conn = sites.at(self.at.dsn)
                operation.close_root(conn, self.queue, self.ticket.get(), limit)
                return
            except (LockTimeout, Deadlock) as error:
                if time.monotonic() + _PAUSE_SECONDS >= deadline:
                    raise LockTimeout(
                        f"root {self.at.name} could not be closed within {sites.lock_timeout:g} s:"
                        " a transaction that has written is open",
                        detail=error.message,
                        hint="end the transaction, or raise lock_timeout, and give the command"
                        " again; nothing is changed",
                    ) from error
            # Who has to write goes on meanwhile, and may let the next attempt in.
            time.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True)
class AnnounceBeforeClosing(AnnounceParts):
    """The same on a root that is going to be closed: from then on nothing moves its parts."""

    def done(self, sites: Sites) -> bool:
        conn = sites.at(self.dsn)
        found = operation.find(conn, self.combined)
        closed = found is not None and found.last_tick is not None
        return closed or nodes.get_node_info(conn, self.combined).type is not NodeType.ROOT


@dataclass(frozen=True)
class EqualParts:
    """The queues that merge are at the same ticks at both nodes: nothing is lost or doubled."""

    old: Place
    new: Place
    queue: str

    def describe(self) -> str:
        return f"{self.new.name}: the queues that merge are where they are on {self.old.name}"

    def done(self, sites: Sites) -> bool:
        return not self._differences(sites)

    def run(self, sites: Sites) -> None:
        different = self._differences(sites)
        if different:
            raise StateError(
                f"queues that merge into {self.queue} are not at the same tick on {self.old.name}"
                f" and {self.new.name}",
                detail="; ".join(different),
                hint=f"make the leaves of {self.new.name} anew: londiste drop-node, create-leaf"
                f" --merge {self.queue}",
            )

    def _differences(self, sites: Sites) -> list[str]:
        there, here = sites.at(self.old.dsn), sites.at(self.new.dsn)
        found = []
        for part in nodes.get_node_info(there, self.queue).target_for:
            theirs, mine = nodes.get_node_info(there, part), nodes.find_node_info(here, part)
            # One that is not there was found before, and somebody wants to go on without it.
            if mine is not None and mine.last_tick != theirs.last_tick:
                found.append(f"{part}: {theirs.last_tick} and {mine.last_tick}")
        return found


@dataclass(frozen=True)
class Promote:
    """The branch is the root: from here on there is no way back but another switchover."""

    at: Place
    queue: str
    ticket: Ticket
    tick: Callable[[], int]

    def describe(self) -> str:
        return f"{self.at.name}: becomes the root"

    def done(self, sites: Sites) -> bool:
        return nodes.get_node_info(sites.at(self.at.dsn), self.queue).type is NodeType.ROOT

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation.promote(conn, self.queue, self.ticket.get(), self.tick())


@dataclass(frozen=True)
class BecomeBranch:
    """The old root reads from the new one."""

    at: Place
    queue: str
    ticket: Ticket
    provider: str

    def describe(self) -> str:
        return f"{self.at.name}: becomes a branch below {self.provider}"

    def done(self, sites: Sites) -> bool:
        return nodes.get_node_info(sites.at(self.at.dsn), self.queue).type is NodeType.BRANCH

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation.become_branch(conn, self.queue, self.ticket.get(), self.provider)


@dataclass(frozen=True)
class Cancel:
    """The node that was to be the root cannot become it any more."""

    at: Place
    queue: str
    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: does not become the root"

    def done(self, sites: Sites) -> bool:
        found = operation.find(sites.at(self.at.dsn), self.queue)
        return found is None or found.token != self.ticket.token

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation.cancel(conn, self.queue, self.ticket.get())


@dataclass(frozen=True)
class ReopenRoot:
    """The old root takes events again."""

    at: Place
    queue: str
    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: takes events again"

    def done(self, sites: Sites) -> bool:
        found = operation.find(sites.at(self.at.dsn), self.queue)
        return found is None or found.token != self.ticket.token

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            operation.reopen_root(conn, self.queue, self.ticket.get())


@dataclass(frozen=True)
class TagDead:
    """A node takes another one for dead, or for alive again."""

    at: Place
    queue: str
    node: str
    dead: bool = True

    def describe(self) -> str:
        return f"{self.at.name}: {self.node} is {'dead' if self.dead else 'alive'}"

    def done(self, sites: Sites) -> bool:
        known = nodes.get_queue_locations(sites.at(self.at.dsn), self.queue)
        return all(m.dead is self.dead for m in known if m.name == self.node)

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.register_location(conn, self.queue, self.node, None, dead=self.dead)
