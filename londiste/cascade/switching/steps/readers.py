"""Steps that change subscriptions and providers, and pause workers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import pause
from londiste.cascade.own_consumers import own_consumer
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.steps.notes import AtNode, NodeAddress
from londiste.cascade.switching.steps.waits import POLL_SECONDS, newest_tick
from londiste.daemon.waiting import wait_until
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import word
from londiste.errors import (
    LondisteError,
    StateError,
    TransientError,
    UsageError,
    from_database,
)
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import position_check, queues
from londiste.pgq.position_check import KnownPosition


@dataclass(frozen=True)
class SetPaused(AtNode):
    """Pauses or resumes the worker of a node and waits for its answer."""

    worker: str
    paused: bool
    timeout: float

    def describe(self) -> str:
        return f"{self.at.name}: {'pause' if self.paused else 'resume'} worker {self.worker}"

    def done(self, sites: Connections) -> bool:
        state = nodes.get_consumer_state(sites.at(self.at.dsn), self.queue, self.worker)
        return state.paused is self.paused and state.uptodate

    def run(self, sites: Connections) -> None:
        pause.set_paused(
            sites.at(self.at.dsn), self.queue, self.worker, self.paused, timeout=self.timeout
        )


@dataclass(frozen=True)
class Subscribe(AtNode):
    """Registers a node as subscriber of ``at``, from the tick that ``tick`` returns.

    again -- the commands that create the node again, below ``at``.
    known -- what the node has stored of that tick, if there is a record.
    undo -- the command that undoes the change that this step is part of.
    undoing -- the steps that undo it when the provider refuses the node; none: an earlier command
        has recorded it, and ``undo`` is told.
    """

    node: str
    worker: str
    tick: Callable[[], int]
    timeout: float
    again: str
    known: Callable[[], KnownPosition | None] = lambda: None
    undo: str = ""
    undoing: Callable[[], Sequence[Step]] = tuple

    def describe(self) -> str:
        return f"{self.at.name}: register {self.node} as subscriber, with worker {self.worker}"

    def done(self, sites: Connections) -> bool:
        # The position is always set again: it costs nothing, and an earlier subscription may be
        # at another tick.
        return False

    def run(self, sites: Connections) -> None:
        undoing = self.undoing()
        try:
            self._register(sites, "" if undoing else self.undo)
        except TransientError:
            raise
        except LondisteError as refused:
            if undoing:
                self._undo(sites, undoing, refused)
            raise

    def _undo(self, sites: Connections, undoing: Sequence[Step], refused: LondisteError) -> None:
        """Undoes the change, and adds the outcome to the error."""
        try:
            plan.execute(undoing, sites)
        except (LondisteError, psycopg.Error) as second:
            refused.say_more(
                f"the change could not be undone: {from_database(second)}",
                f"undo it: {self.undo}; then {refused.hint}",
            )
        else:
            refused.say_more(f"the change of node {self.node} is undone")

    def _register(self, sites: Connections, undo: str) -> None:
        conn = sites.at(self.at.dsn)
        tick = self.tick()
        self._require_same_history(conn, tick, undo)
        if not wait_until(
            lambda: newest_tick(conn, self.queue) >= tick, self.timeout, poll=POLL_SECONDS
        ):
            raise TransientError(
                f"node {self.at.name} has not reached tick {tick} of node {self.node}"
                f" within {self.timeout:g} s",
                detail=f"it is at tick {newest_tick(conn, self.queue)}",
                hint="find the cause with londiste status, then repeat the command",
            )
        self._require_same_history(conn, tick, undo)
        with sites.transaction(self.at.dsn) as conn:
            refuse_taken_name(conn, self.queue, self.at.name, self.node, self.worker, undo)
            try:
                nodes.register_subscriber(conn, self.queue, self.node, self.worker, tick)
            except LondisteError as error:
                gone = isinstance(error, StateError)
                error.say_more(
                    f"node {self.node} is at tick {tick}, which {self.at.name} does not have",
                    hint=(f"{undo}; then " if undo else "")
                    + f"choose another provider, or create it again: {self.again}"
                    if gone
                    else "",
                )
                raise

    def refuse_other_history(self, sites: Connections, undo: str = "") -> None:
        """Raises StateError when the node has events that ``at`` does not have.

        undo -- the command that undoes a change that has begun.
        """
        self._require_same_history(sites.at(self.at.dsn), self.tick(), undo)

    def refuse_taken(self, sites: Connections, undo: str = "") -> None:
        """Raises UsageError when the name of the worker belongs to another program at ``at``.

        undo -- the command that undoes a change that has begun.
        """
        conn = sites.at(self.at.dsn)
        refuse_taken_name(conn, self.queue, self.at.name, self.node, self.worker, undo)

    def _require_same_history(self, conn: Connection, tick: int, undo: str) -> None:
        newest = newest_tick(conn, self.queue)
        if tick > newest and nodes.is_root_node(conn, self.queue):
            raise self._diverged(tick, f"the newest tick of the root is {newest}", undo)
        other = other_history(conn, self.queue, self.worker, self.known(), tick)
        if other is not None:
            raise self._diverged(tick, other, undo)

    def _diverged(self, tick: int, reason: str, undo: str) -> StateError:
        return StateError(
            f"node {self.node} is at tick {tick} and has events that {self.at.name} does not have",
            detail=reason,
            hint=f"{undo}; then create it again: {self.again}"
            if undo
            else f"create it again: {self.again}",
        )


def other_history(
    conn: Connection, queue: str, consumer: str, known: KnownPosition | None, tick: int
) -> str | None:
    """Why a provider has another tick under this id than the one that was read; None: it has not.

    conn -- on the provider.
    known -- what the node has stored.
    """
    if known is None:
        return None
    facts = position_check.look(conn, queue, consumer, known, tick)
    return position_check.another_tick(known, facts, tick)


def refuse_taken_name(
    conn: Connection, queue: str, at: str, node: str, worker: str, undo: str = ""
) -> None:
    """Raises UsageError when the consumer ``worker`` of a provider belongs to another program.

    undo -- the command that undoes a change that has begun.
    """
    known = nodes.get_subscriber_info(conn, queue)
    mine = any(s.name == node and s.worker == worker for s in known)
    if not mine and queues.get_consumer_info(conn, queue, worker):
        other = ""
        if own_consumer(worker, known) is None:
            call = " ".join(map(word, [queue, worker]))
            other = f"; or, with the settings of {at}: londiste queue unregister {call}"
        if undo:
            other += f"; or undo the unfinished change: {undo}"
        raise UsageError(
            f"node {at}: consumer {worker} is registered already, and not for node {node}",
            detail="the worker would move the position of another program",
            hint=f"give every worker its own job_name{other}",
        )


@dataclass(frozen=True)
class Unsubscribe(AtNode):
    """Unregisters a subscriber of ``at``.

    warn -- told when ``at`` does not answer; None: that is an error, because the command needs it.
    """

    node: str
    warn: Callable[[str], None] | None

    def describe(self) -> str:
        return f"{self.at.name}: unregister subscriber {self.node}"

    def done(self, sites: Connections) -> bool:
        try:
            conn = sites.at(self.at.dsn)
            return all(s.name != self.node for s in nodes.get_subscriber_info(conn, self.queue))
        except TransientError:
            return False

    def run(self, sites: Connections) -> None:
        if self.warn is None:
            self._unregister(sites)
            return
        try:
            # The session alone may be broken: another one shows whether the node answers.
            with contextlib.suppress(TransientError):
                self._unregister(sites)
                return
            self._unregister(sites)
        except TransientError as error:
            self.warn(
                f"node {self.at.name} does not answer and keeps events for {self.node}: {error};"
                " when it answers, run there: select pgq_node.unregister_subscriber"
                f"({literal(self.queue)}, {literal(self.node)})"
            )

    def _unregister(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.unregister_subscriber(conn, self.queue, self.node)


@dataclass(frozen=True)
class UnsubscribeMoved(Unsubscribe):
    """The same for a node that reads from another provider now; ``there`` is its address."""

    there: NodeAddress

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.there.dsn)
        comes = operation_log.find(conn, self.queue) is not None
        reads = nodes.get_node_info(conn, self.queue).provider == self.at.name
        return comes or reads or super().done(sites)


@dataclass(frozen=True)
class ChangeProvider(AtNode):
    """Sets the provider of a node's worker."""

    worker: str
    provider: str

    def describe(self) -> str:
        return f"{self.at.name}: switch worker {self.worker} to provider {self.provider}"

    def done(self, sites: Connections) -> bool:
        state = nodes.get_consumer_state(sites.at(self.at.dsn), self.queue, self.worker)
        return state.provider == self.provider

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.change_consumer_provider(conn, self.queue, self.worker, self.provider)
