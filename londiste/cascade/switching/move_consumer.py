"""Switch of an application consumer (``londiste.CascadedConsumer``) to another provider.

    record the change at the node                so that repeating the command finishes it
    register the consumer on the new provider    at its tick, so that events are kept
    set its provider                             it switches automatically, after its tick
    wait for its acknowledgement                 one that does not run: a warning
    unregister it on the old provider
    done

A batch that the consumer has open during the switch may still be finished: effects and position are
one transaction on the node, and the consumer continues at the position of its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import CascadedConsumer, NodeInfo
from londiste.cascade.switching.change_provider import known_at
from londiste.cascade.switching.cluster_state import ClusterState, Warn, refuse_leaf, without_end
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import AtNode, Begin, End, NodeAddress, Ticket
from londiste.cascade.switching.steps.readers import ChangeProvider, other_history
from londiste.cascade.switching.steps.waits import newest_tick
from londiste.daemon.waiting import wait_until
from londiste.db.names import word
from londiste.errors import StateError, TransientError, UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import batches, position_check, queues

POLL_SECONDS = 0.05


def change_provider(
    sites: Connections,
    scene: ClusterState,
    node: str,
    consumer: str,
    new: str,
    *,
    timeout: float,
    warn: Warn,
) -> list[Step]:
    """The steps that switch a consumer of ``node`` to provider ``new``; none when that is done.

    timeout -- seconds for each wait.
    Raises UnknownNode, UnknownConsumer, NodeUnreachable, UsageError, StateError, NodeBusy.
    """
    info, queue, here = scene.info(node), scene.queue, scene.place(node)
    if consumer == info.worker:
        raise UsageError(
            f"consumer {consumer} is the worker of node {node}",
            hint=f"londiste change-provider --node {word(node)} --provider {word(new)}",
        )
    state = nodes.get_consumer_state(sites.at(here.dsn), queue, consumer)
    noted, stale = scene.operations.get(node), without_end(scene, node, new)
    if stale is not None and stale.kind is OperationKind.MOVE_CONSUMER:
        noted = None
    if noted is not None and (noted.kind, noted.node, noted.new) != (
        OperationKind.MOVE_CONSUMER,
        consumer,
        new,
    ):
        raise noted.busy(node)
    if noted is None and state.provider == new:
        return []
    refuse_leaf(scene.info(new), "it cannot be a provider")
    there = scene.place(new)
    if noted is None and queues.get_consumer_info(sites.at(there.dsn), queue, consumer):
        raise UsageError(
            f"node {new}: another consumer {consumer} is registered, which is not that of {node}",
            detail="both would move the same position",
            hint=f"rename it; or unregister the other one, with the settings of {new}: londiste"
            f" queue unregister {' '.join(map(word, [queue, consumer]))}",
        )
    old = noted.from_node if noted is not None and noted.from_node else state.provider
    ticket = Ticket(noted.token if noted is not None else None)
    replaces = None if stale is None else stale.token
    steps: list[Step] = [
        Begin(
            here, queue, OperationKind.MOVE_CONSUMER, consumer, new, ticket, old, False, replaces
        ),
        known_at(scene, node, new),
        RegisterConsumer(there, queue, consumer, here, timeout, warn),
        ChangeProvider(here, queue, consumer, new),
        WaitKnows(here, queue, consumer, timeout, warn),
    ]
    if scene.answers(old):
        steps.append(UnregisterConsumer(scene.place(old), queue, consumer))
    elif old in scene.places:
        warn(
            f"node {old} does not answer and keeps events for consumer {consumer}; when it answers,"
            f" with the settings of {old}: londiste queue unregister"
            f" {' '.join(map(word, [queue, consumer]))}"
        )
    return [*steps, End(here, queue, ticket)]


def orphaned(
    sites: Connections, scene: ClusterState, lost: str, new: str, *, warn: Warn
) -> Iterator[Step]:
    """The steps that switch the consumers of all nodes from a failed provider to ``new``."""
    for info in scene.live():
        here = scene.place(info.name)
        for consumer in of_users(info, nodes.get_consumer_info(sites.at(here.dsn), scene.queue)):
            if consumer.provider == lost:
                there = scene.place(new)
                yield known_at(scene, info.name, new)
                yield RegisterConsumer(there, scene.queue, consumer.name, here, 0.0, warn)
                yield ChangeProvider(here, scene.queue, consumer.name, new)


def of_users(info: NodeInfo, found: list[CascadedConsumer]) -> list[CascadedConsumer]:
    """Pure: the consumers except the node's worker and its copies."""
    copies = f"{info.worker}.copy."
    return [c for c in found if c.name != info.worker and not c.name.startswith(copies)]


@dataclass(frozen=True)
class RegisterConsumer(AtNode):
    """Registers a consumer on the new provider, at its position."""

    consumer: str
    node: NodeAddress
    timeout: float
    warn: Warn

    def describe(self) -> str:
        return f"{self.at.name}: register consumer {self.consumer} of {self.node.name}"

    def done(self, sites: Connections) -> bool:
        state = nodes.get_consumer_state(sites.at(self.node.dsn), self.queue, self.consumer)
        return state.provider == self.at.name

    def run(self, sites: Connections) -> None:
        state = nodes.get_consumer_state(sites.at(self.node.dsn), self.queue, self.consumer)
        tick, provider = state.completed_tick, sites.at(self.at.dsn)
        if not wait_until(
            lambda: newest_tick(provider, self.queue) >= tick, self.timeout, poll=POLL_SECONDS
        ):
            if not self.timeout:
                self.warn(
                    f"consumer {self.consumer} of node {self.node.name} is at tick {tick},"
                    f" which no node has any more: check its effects, then use --reset"
                )
                return
            raise TransientError(
                f"node {self.at.name} has not reached tick {tick} of consumer"
                f" {self.consumer} within {self.timeout:g} s",
                hint="find the cause with londiste status, then repeat the command",
            )
        known = position_check.recall(sites.at(self.node.dsn), self.queue, self.consumer)
        other = other_history(provider, self.queue, self.consumer, known, tick)
        if other is not None:
            diverged = (
                f"consumer {self.consumer} of node {self.node.name} has processed events that"
                f" {self.at.name} does not have"
            )
            if self.timeout:
                raise StateError(
                    diverged, detail=other, hint="check its effects, then start it with --reset"
                )
            self.warn(f"{diverged} ({other}): check its effects, then use --reset")
            return
        with sites.transaction(self.at.dsn) as conn:
            batches.register_consumer_at(conn, self.queue, self.consumer, tick)


@dataclass(frozen=True)
class WaitKnows(AtNode):
    """Waits until the consumer confirms its new provider; warns if it does not run."""

    consumer: str
    timeout: float
    warn: Warn

    def describe(self) -> str:
        return f"{self.at.name}: wait until consumer {self.consumer} confirms its provider"

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.at.dsn)
        return nodes.get_consumer_state(conn, self.queue, self.consumer).uptodate

    def run(self, sites: Connections) -> None:
        if not wait_until(lambda: self.done(sites), self.timeout, poll=POLL_SECONDS):
            self.warn(
                f"consumer {self.consumer} did not answer within {self.timeout:g} s; when it"
                " runs, it will read from the new provider"
            )


@dataclass(frozen=True)
class UnregisterConsumer(AtNode):
    """Unregisters the consumer on the old provider."""

    consumer: str

    def describe(self) -> str:
        return f"{self.at.name}: unregister consumer {self.consumer}"

    def done(self, sites: Connections) -> bool:
        return not queues.get_consumer_info(sites.at(self.at.dsn), self.queue, self.consumer)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            batches.unregister_consumer(conn, self.queue, self.consumer)
