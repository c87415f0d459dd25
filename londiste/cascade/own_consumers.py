"""Consumers that a cascade registers itself: whose each of them is, and what to do about it.

Workers and copies read the queue of their provider.  Watermarks and gravestones are marks without a
process: they keep events for the nodes below, and for a failed root that may rejoin.  To unregister
one of them costs a full copy, or the return of the root; other commands move or remove them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Subscriber
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.errors import InstallError, LondisteError, StateError
from londiste.pgq.consumers import ConsumerKind
from londiste.pgq.queues import get_consumer_info

GLOBAL_WATERMARK = ".global_watermark"
GRAVESTONE = "{}.gravestone"
_WATERMARK = ".watermark"

#: For what has a worker: another command, when its node is lost.
_LOST = "or, if it will not return: londiste drop-node {} --ignore-unreachable"


@dataclass(frozen=True)
class OwnConsumer:
    """A consumer of a queue that belongs to the cascade.

    kind -- node, copy or watermark.
    node -- the node that it serves; empty for the watermark of all nodes.
    failed -- it keeps events for a failed root, which may rejoin.
    """

    kind: ConsumerKind
    node: str = ""
    failed: bool = False

    @property
    def has_process(self) -> bool:
        """Whether a process reads events with it; else it is a mark."""
        return not self.failed and self.kind is not ConsumerKind.WATERMARK

    def who(self) -> str:
        """A description of what keeps events."""
        if self.failed:
            return f"failed node {self.node}: londiste resurrect, or drop-node"
        match self.kind:
            case ConsumerKind.COPY:
                return f"a copy of node {self.node}"
            case ConsumerKind.WATERMARK if self.node:
                return f"node {self.node}, or one below it"
            case ConsumerKind.WATERMARK:
                return "the slowest node of the cascade (global watermark)"
            case _:
                return f"node {self.node}"

    def way_out(self) -> str:
        """What ends the keeping of events: the worker to start, or commands."""
        name = argument(self.node)
        if self.failed:
            return (
                f"londiste resurrect --node {name}; or, only if it will never return:"
                f" londiste drop-node {name}"
            )
        if self.kind is ConsumerKind.WATERMARK:
            return (
                "londiste status names the node that keeps these events; start its worker;"
                f" {_LOST.format('NODE')}"
            )
        return f"start the worker of node {self.node}; {_LOST.format(name)}"

    def found_again(self) -> str:
        """What to do after its position was lost."""
        there = f"with the settings of node {self.node}"
        if self.failed:
            name = argument(self.node)
            return (
                f"node {self.node} cannot rejoin; create it again: londiste drop-node {name},"
                f" then londiste create-branch {name} --provider DSN"
            )
        match self.kind:
            case ConsumerKind.WATERMARK:
                return (
                    "the next reports of all nodes move it; londiste status names the nodes whose"
                    " worker does not run"
                )
            case ConsumerKind.COPY:
                return f"{there}: londiste tables, and londiste resync TABLE for what is copied"
            case _:
                return f"{there}: londiste worker --rewind"

    def loss(self) -> str:
        """What the cascade loses with its position."""
        if self.failed:
            return f"failed root {self.node} could not rejoin, nor its diverged events be found"
        match self.kind:
            case ConsumerKind.WATERMARK:
                return "events could be removed that a node below needs to change its provider"
            case ConsumerKind.COPY:
                return f"the copy of node {self.node} would have to start again"
            case _:
                return f"all tables of node {self.node} would have to be copied again"


def own_consumer(consumer: str, subscribers: Sequence[Subscriber]) -> OwnConsumer | None:
    """Pure: what a consumer is in the cascade, as far as its name shows it; None for all others.

    subscribers -- the nodes that read from the node of the queue.
    """
    if consumer == GLOBAL_WATERMARK:
        return OwnConsumer(ConsumerKind.WATERMARK)
    if consumer.startswith(".") and consumer.endswith(_WATERMARK):
        node = consumer[1 : -len(_WATERMARK)]
        failed = any((s.name, s.worker) == (node, GRAVESTONE.format(node)) for s in subscribers)
        return OwnConsumer(ConsumerKind.WATERMARK, node, failed)
    node = consumer.rpartition(".")[0]
    if node and consumer == GRAVESTONE.format(node):
        return OwnConsumer(ConsumerKind.NODE, node, failed=True)
    for subscriber in subscribers:
        if consumer == subscriber.worker:
            return OwnConsumer(ConsumerKind.NODE, subscriber.name)
        if consumer.startswith(f"{subscriber.worker}.copy."):
            return OwnConsumer(ConsumerKind.COPY, subscriber.name)
    return None


def consumer_kind(consumer: str, subscribers: Sequence[Subscriber]) -> ConsumerKind:
    """Pure: the kind of a consumer, as far as its name shows it."""
    own = own_consumer(consumer, subscribers)
    return ConsumerKind.CONSUMER if own is None else own.kind


def find_subscribers(conn: Connection, queue: str) -> list[Subscriber] | None:
    """The nodes that read from the node of a queue; None if the queue belongs to no node.

    Empty without the right to see them: then names tell less.
    """
    try:
        with conn.transaction():
            if nodes.find_node_info(conn, queue) is None:
                return None
            return nodes.get_subscriber_info(conn, queue)
    except InstallError:
        return None
    except LondisteError:
        return []


def refuse_move(
    conn: Connection, queue: str, names: Sequence[str], *, at: int | None, copy: str | None
) -> None:
    """Raises StateError if a registration would move a consumer of the cascade."""
    if at is None and copy is None:
        return
    to = f" --at {at}" if copy is None else f" --copy {shlex.quote(copy)}"
    call = f"londiste queue register {' '.join(map(word, [queue, *names]))}{to}"
    _refuse(conn, queue, names, forced=f"{call} --allow-resync")


def refuse_unregister(conn: Connection, queue: str, names: Sequence[str]) -> None:
    """Raises StateError if a consumer of the cascade would be dropped; no names stand for all."""
    found = names or [one.consumer_name for one in get_consumer_info(conn, queue)]
    every = "" if names else " --all"
    call = f"londiste queue unregister {' '.join(map(word, [queue, *names]))}{every}"
    _refuse(conn, queue, found, forced=f"{call} --allow-resync")


def _refuse(conn: Connection, queue: str, consumers: Iterable[str], *, forced: str) -> None:
    """Raises StateError for consumers that the cascade itself has registered.

    forced -- the command that proceeds.
    """
    below = find_subscribers(conn, queue)
    if below is None:
        return
    found = {name: own_consumer(name, below) for name in consumers}
    own = {name: one for name, one in found.items() if one is not None}
    if not own:
        return
    way_out = next(iter(own.values())).way_out()
    raise StateError(
        f"queue {queue}: the cascade needs the position of {', '.join(own)}",
        detail="; ".join(dict.fromkeys(one.loss() for one in own.values()))
        + "; nothing was changed",
        hint=(way_out if len(own) == 1 else f"londiste queue status {argument(queue)}")
        + f"; or proceed: {forced}",
    )
