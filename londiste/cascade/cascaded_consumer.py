"""Consumers of a cascaded queue that keep their position in their own node, like a worker.

A cascaded consumer reads from a node that has the queue and writes into the database of its own
node.  Effects and position (``pgq_node.local_state``) are one transaction there.  The commands of
the cascade pause it and switch its provider; it continues after the tick that it has reached.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import ConsumerState, NodeInfo, NodeType
from londiste.cascade.progress import NodeProgress
from londiste.consumer import Batch, Consumer, Delivery
from londiste.consumer.factory import Parts, some
from londiste.consumer.outcome import Outcome
from londiste.consumer.progress import Progress
from londiste.consumer.source import QueueSource, position
from londiste.db.connection import Connection, session
from londiste.db.connstr.locations import reach
from londiste.errors import BadOption, UnknownConsumer
from londiste.pgq import batches, position_check, ticks
from londiste.pgq.position_check import KnownPosition

POSITION_LOST_HINT = (
    "if this database is complete up to its tick: --rewind; to accept the queue's position, which"
    " skips or repeats the events in between: --reset"
)


class _NodePosition:
    """The position in the node's database, for commands that move it."""

    def __init__(self, conn: Connection, queue: str, consumer: str) -> None:
        self._progress = NodeProgress(conn, queue, consumer)

    def tick(self) -> int | None:
        return self._progress.tick()

    def set(self, tick: int) -> None:
        nodes.set_consumer_completed(
            self._progress.conn, self._progress.queue, self._progress.consumer, tick
        )


class _Progress:
    """``NodeProgress`` in the transaction of the effects."""

    def __init__(self, db: Callable[[], Connection], queue: str, consumer: str) -> None:
        self._db = db
        self._queue = queue
        self._consumer = consumer

    def seen(self, batch: Batch) -> bool:
        return self._now().seen(batch)

    def completed(self, batch: Batch, returned: Sequence[Outcome]) -> None:
        # Moves only from the tick at which the batch begins.
        self._now().completed(batch)

    def returned(self, batch: Batch) -> Sequence[Outcome]:
        return ()

    def _now(self) -> NodeProgress:
        return NodeProgress(self._db(), self._queue, self._consumer)


class NodeParts(Parts):
    """The parts of a consumer whose settings name its node's database."""

    def queue_dsn(self) -> str:
        try:
            with self._own_node() as conn:
                return _reach(self._state(conn))
        except UnknownConsumer:
            settings = self.settings
            raise UnknownConsumer(
                f"consumer {settings.consumer} is not registered on queue {settings.queue_name}",
                detail="its node's database holds no position of it",
                hint="register it, to start with the next events: --register, or in a program"
                " consumer.register()",
            ) from None

    #: The provider has not come to where the consumer is; it waits.
    _is_ahead = False

    def begin(self, on: QueueSource) -> None:
        queue, name = self.settings.queue_name, self.settings.consumer
        with self._node() as conn:
            state = self._state(conn)
            known = position_check.recall(conn, queue, name)
        # Also by a program that was started since its provider is another one.
        is_elsewhere = known is not None and known.source != state.provider
        location = _reach(state)
        if location != on.dsn:
            # The former provider may have failed.
            on.close()
            on.dsn = location
            is_elsewhere = True
        self._is_ahead = is_elsewhere and not self._take_up(on, state)
        if self._is_ahead:
            # No batch before the node was asked again.
            self._ask_again = 0.0
            return
        super().begin(on)
        with self._node() as conn:
            state = self._acknowledge(conn)
            if _reach(state) == on.dsn:
                self._prove_at(on, conn, state)
                return
        # It was given another provider since; what this one has says nothing about that.
        self.begin(on)

    def _prove_at(self, on: QueueSource, conn: Connection, state: ConsumerState) -> None:
        """Checks the node's position at its provider, and records the identity of the queue there.

        Raises PositionLost.
        """
        queue, name, tick = self.settings.queue_name, self.settings.consumer, state.completed_tick
        known = position_check.recall(conn, queue, name)
        facts = position_check.look(on.conn, queue, name, known, tick)
        found = position_check.prove(
            queue, name, state.provider, tick, known, facts, hint=POSITION_LOST_HINT
        )
        if found is not None and found != known:
            position_check.note(conn, queue, name, found)

    def asked_to_pause(self, on: QueueSource) -> str | None:
        with self._node() as conn:
            state = self._acknowledge(conn)
        if _reach(state) != on.dsn or self._is_ahead:
            self.begin(on)
        if self._is_ahead:
            return f": node {state.provider} has not reached tick {state.completed_tick} yet"
        return " by the node" if state.paused else None

    def _take_up(self, on: QueueSource, state: ConsumerState) -> bool:
        """Moves the consumer at a new provider to the node's position.

        Returns False while the provider does not have that tick.
        """
        queue, name = self.settings.queue_name, self.settings.consumer
        if position(on.conn, queue, name, on.dsn) == state.completed_tick:
            return True
        newest = ticks.newest(on.conn, queue)
        if newest is None or newest.id < state.completed_tick:
            return False
        batches.register_consumer_at(on.conn, queue, name, state.completed_tick)
        return True

    def progress(self) -> Callable[[Callable[[], Connection]], Progress]:
        settings = self.settings
        return lambda db: _Progress(db, settings.queue_name, settings.consumer)

    def register(self, tick: int | None, like: str | None) -> bool:
        if tick is not None and like is not None:
            raise BadOption("a tick and another consumer", hint="give either a tick or a consumer")
        queue, name = self.settings.queue_name, self.settings.consumer
        with self._own_node() as conn:
            with contextlib.suppress(UnknownConsumer):
                self._state(conn)
                return False
            node = nodes.get_node_info(conn, queue)
            provider, location = node.provider, ""
            if node.type is not NodeType.LEAF:
                # The queue is in this database, complete.
                provider, location = node.name, self.settings.db
            else:
                location = _reach(node)
            with session(location, name="londiste consumer", autocommit=True) as source:
                if like is not None:
                    tick = position(source, queue, like, location)
                # Registered there first: from then on the events are kept.
                batches.register_consumer_at(source, queue, name, tick)
                tick = some(position(source, queue, name, location))
            nodes.register_consumer(conn, queue, name, provider, tick)
        return True

    def unregister(self) -> bool:
        queue, name = self.settings.queue_name, self.settings.consumer
        with self._own_node() as conn:
            try:
                location = _reach(self._state(conn))
            except UnknownConsumer:
                return False
            with session(location, name="londiste consumer", autocommit=True) as source:
                batches.unregister_consumer(source, queue, name)
            nodes.unregister_consumer(conn, queue, name)
            position_check.forget(conn, queue, name)
        return True

    def _noted(self, on: QueueSource) -> tuple[KnownPosition | None, str]:
        settings = self.settings
        with self._node() as conn:
            known = position_check.recall(conn, settings.queue_name, settings.consumer)
            return known, self._state(conn).provider

    def reset(self) -> int:
        tick = super().reset()
        self._take_as_it_is()
        return tick

    def pause(self, reason: str | None) -> bool:
        with self._node() as conn:
            return nodes.set_consumer_paused(
                conn, self.settings.queue_name, self.settings.consumer, True
            )

    def resume(self) -> bool:
        settings = self.settings
        with self._node() as conn:
            return nodes.set_consumer_paused(conn, settings.queue_name, settings.consumer, False)

    @contextmanager
    def _stored(self) -> Iterator[_NodePosition]:  # type: ignore[override]
        with self._node() as conn:
            yield _NodePosition(conn, self.settings.queue_name, self.settings.consumer)

    def _take_as_it_is(self) -> None:
        """Moves the position to the provider's newest tick."""
        with self._node() as conn:
            position_check.forget(conn, self.settings.queue_name, self.settings.consumer)

    def _node(self) -> contextlib.AbstractContextManager[Connection]:
        return session(
            self.settings.db, name="londiste consumer", autocommit=True, synchronous=True
        )

    @contextmanager
    def _own_node(self) -> Iterator[Connection]:
        """``_node`` before the provider is used.  Raises StateError in a copy of its database."""
        with self._node() as conn:
            queue = self.settings.queue_name
            copied_database.refuse(conn, queue, lambda location: reach(location, ""))
            yield conn

    def _state(self, conn: Connection) -> ConsumerState:
        return nodes.get_consumer_state(conn, self.settings.queue_name, self.settings.consumer)

    def _acknowledge(self, conn: Connection) -> ConsumerState:
        """The present state; acknowledges it, because a command may wait for that."""
        state = self._state(conn)
        if not state.uptodate:
            nodes.set_consumer_uptodate(
                conn, self.settings.queue_name, self.settings.consumer, True
            )
        return state


def _reach(of: ConsumerState | NodeInfo) -> str:
    """The connection string of the provider."""
    return reach(of.provider_location, "", node=of.provider)


class CascadedConsumer(Consumer):
    """Base of consumers whose position is in a node of a cascade; ``db`` is the node's database.

    The delivery is exactly once in that database; events are neither retried nor dead letters.
    """

    delivery: ClassVar[Delivery] = Delivery.CASCADE_NODE
    parts_class: ClassVar[type[Parts]] = NodeParts
