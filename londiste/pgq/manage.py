"""What people do with queues and consumers, checked before anything is changed.

Between the functions of the schema, of which each does one thing, and the commands: names that
do not exist are met with the one that was meant, and what a change destroys is told in advance.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import query
from londiste.errors import BadOption, LondisteError, UnknownConsumer, UnknownQueue, from_database
from londiste.pgq import batches, queues
from londiste.pgq.types import ConsumerInfo, QueueInfo


def find_queue(conn: Connection, name: str) -> QueueInfo:
    """A queue by name; UnknownQueue says which one may have been meant."""
    found = queues.get_queue_info(conn, name)
    if found:
        return found[0]
    known = [queue.queue_name for queue in queues.get_queue_info(conn)]
    raise UnknownQueue(
        f"no queue {name}",
        detail=f"in {whereabouts(conn)}",
        hint=_meant(name, known, "londiste queue list shows the queues"),
    )


def find_queues(conn: Connection, names: Sequence[str], *, every: bool = False) -> list[str]:
    """The queues of these names, each once; all of them for ``*`` or ``every``."""
    if every or "*" in names:
        return [queue.queue_name for queue in queues.get_queue_info(conn)]
    return [find_queue(conn, name).queue_name for name in dict.fromkeys(names)]


def find_consumer(conn: Connection, queue: str, name: str) -> ConsumerInfo:
    """A consumer of a queue; UnknownQueue or UnknownConsumer say which may have been meant."""
    find_queue(conn, queue)
    found = queues.get_consumer_info(conn, queue, name)
    if found:
        return found[0]
    known = [consumer.consumer_name for consumer in queues.get_consumer_info(conn, queue)]
    raise UnknownConsumer(
        f"no consumer {name} on queue {queue}",
        detail=f"in {whereabouts(conn)}",
        hint=_meant(name, known, f"londiste queue consumers {queue} shows them"),
    )


def new_name(what: str, name: str) -> str:
    """A name for a new queue or consumer; BadOption for one that nobody could type again."""
    if not name.strip():
        raise BadOption(f"a {what} needs a name", hint="a name has one letter or digit at least")
    if any(not character.isprintable() for character in name):
        raise BadOption(
            f"control characters in the name of a {what}", hint="use letters, digits, _ . -"
        )
    return name


@dataclass(frozen=True)
class Registration:
    """Where a consumer begins.

    tick -- behind which; None: behind the newest.
    before -- its position until now; None: it is not registered.
    skipped -- most events that it will not see, because it moves forward.
    """

    queue: str
    consumer: str
    tick: int | None
    before: ConsumerInfo | None = None
    skipped: int = 0

    def describe(self) -> str:
        """What will be done, in one line."""
        at = "the end of the queue" if self.tick is None else f"tick {self.tick}"
        if self.before is None:
            return f"register consumer {self.consumer} on queue {self.queue} at {at}"
        text = f"move consumer {self.consumer} of queue {self.queue}"
        text += f" from tick {self.before.last_tick} to {at}"
        if self.before.current_batch is not None:
            text += f", dropping its open batch {self.before.current_batch}"
        if self.skipped:
            text += f", past up to {self.skipped} events that it will not see"
        return text

    @property
    def needed(self) -> bool:
        """False for a consumer that is registered and shall stay where it is."""
        return self.before is None or self.tick is not None

    def carry_out(self, conn: Connection) -> None:
        batches.register_consumer_at(conn, self.queue, self.consumer, self.tick)


def registration(
    conn: Connection,
    queue: str,
    consumer: str,
    *,
    at: int | None = None,
    copy: str | None = None,
) -> Registration:
    """Plans to register a consumer, or to move one that is there.

    at -- a tick of the queue; copy -- another consumer of it, whose position is taken.
    """
    find_queue(conn, queue)
    if at is not None and copy is not None:
        raise BadOption("at and copy exclude each other", hint="give one of them")
    tick = find_consumer(conn, queue, copy).last_tick if copy is not None else at
    if copy is not None and tick is None:
        raise BadOption(
            f"consumer {copy} has no position of its own",
            detail="it is a cooperative consumer without a batch",
            hint="copy its main consumer",
        )
    if tick is not None:
        _require_tick(conn, queue, tick)
    found = queues.get_consumer_info(conn, queue, new_name("consumer", consumer))
    before = found[0] if found else None
    skipped = 0
    if before is not None and tick is not None and before.last_tick is not None:
        skipped = _events_between(conn, queue, before.last_tick, tick)
    return Registration(queue, consumer, tick, before, skipped)


def losses(conn: Connection, queue: str) -> list[str]:
    """What goes with a queue that is dropped, one sentence each; empty: nothing of value."""
    lost: list[str] = []
    node = _node(conn, queue)
    if node is not None:
        lost.append(f"queue {queue} belongs to node {node[0]} ({node[1]}) of a cascade")
    for consumer in queues.get_consumer_info(conn, queue):
        lost.append(
            f"consumer {consumer.consumer_name} is registered,"
            f" with up to {consumer.pending_events or 0} events to come"
        )
    return lost


def event_bytes(conn: Connection, queue: str) -> int:
    """Bytes of the event tables of a queue."""
    return int(_one(conn, "queue_bytes", queue=queue)[0])


def _node(conn: Connection, queue: str) -> tuple[str, str] | None:
    there, readable = _one(conn, "relation_exists", relation="pgq_node.node_info")
    if not there or not readable:
        return None
    row = _first(conn, "queue_node", queue=queue)
    return None if row is None else (str(row[0]), str(row[1]))


def _require_tick(conn: Connection, queue: str, tick: int) -> None:
    row = _one(conn, "tick_range", queue=queue, tick=tick)
    if not row[0]:
        raise BadOption(
            f"queue {queue} has no tick {tick}",
            detail=f"it has ticks {row[1]} to {row[2]}" if row[1] is not None else "it has no tick",
            hint=f"londiste queue ticks {queue} lists them",
        )


def _events_between(conn: Connection, queue: str, first: int, last: int) -> int:
    row = _first(conn, "tick_distance", queue=queue, first=first, last=last)
    return 0 if row is None or row[0] is None else max(0, int(row[0]))


def _one(conn: Connection, name: str, **parameters: object) -> tuple[Any, ...]:
    row = _first(conn, name, **parameters)
    if row is None:
        raise LondisteError(f"query {name} answered nothing", hint="this is a defect; report it")
    return row


def _first(conn: Connection, name: str, **parameters: object) -> tuple[Any, ...] | None:
    try:
        return conn.execute(query(name), parameters).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error


def _meant(name: str, known: Iterable[str], otherwise: str) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}?" if close else otherwise


__all__ = [
    "Registration",
    "event_bytes",
    "find_consumer",
    "find_queue",
    "find_queues",
    "losses",
    "new_name",
    "registration",
]
