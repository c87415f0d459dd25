"""Who reads from whom: subscriptions, providers, workers that stand still meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import pause
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.switching.steps.waits import POLL_SECONDS, newest_tick
from londiste.db.connection import Connection
from londiste.errors import (
    LondisteError,
    StateError,
    TransientError,
    UsageError,
)
from londiste.orchestration.connections import Connections
from londiste.pgq import queues


@dataclass(frozen=True)
class SetPaused:
    """The worker of a node stands still, or goes on, and has said so."""

    at: NodeAddress
    queue: str
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
class Subscribe:
    """A node may read from ``at``, from the tick on that ``tick`` gives."""

    at: NodeAddress
    queue: str
    node: str
    worker: str
    tick: Callable[[], int]
    timeout: float

    def describe(self) -> str:
        return f"{self.at.name}: register {self.node} as subscriber, with worker {self.worker}"

    def done(self, sites: Connections) -> bool:
        # The position is set again in any case: it costs nothing, and a subscription of before
        # may stand elsewhere.
        return False

    def run(self, sites: Connections) -> None:
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
            time.sleep(POLL_SECONDS)
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

    at: NodeAddress
    queue: str
    node: str
    warn: Callable[[str], None]

    def describe(self) -> str:
        return f"{self.at.name}: {self.node} is no subscriber any more"

    def done(self, sites: Connections) -> bool:
        try:
            conn = sites.at(self.at.dsn)
            return all(s.name != self.node for s in nodes.get_subscriber_info(conn, self.queue))
        except TransientError:
            return False

    def run(self, sites: Connections) -> None:
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

    at: NodeAddress
    queue: str
    worker: str
    provider: str

    def describe(self) -> str:
        return f"{self.at.name}: worker {self.worker} reads from {self.provider}"

    def done(self, sites: Connections) -> bool:
        state = nodes.get_consumer_state(sites.at(self.at.dsn), self.queue, self.worker)
        return state.provider == self.provider

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            nodes.change_consumer_provider(conn, self.queue, self.worker, self.provider)
