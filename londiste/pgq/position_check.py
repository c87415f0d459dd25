"""Proves that a position stored elsewhere still belongs to the queue it was taken from.

A consumer that keeps its position with its data, in another database, believes the numbers of
ticks.  After a restore, or when queue or consumer were made anew, the same numbers stand for other
events.  So it stores more than a number, and compares when it begins:

    known = recall(target, queue, consumer)                 what was stored, in its own database
    facts = look(source, queue, consumer, known, tick)      what there is
    note(target, queue, consumer, prove(…, known, facts))   PositionLost, or what to store now
    moved(target, queue, consumer, batch)                   with every batch, in its transaction
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from londiste.db import call
from londiste.db.connection import Connection
from londiste.errors import PositionLost
from londiste.pgq.types import Batch


@dataclass(frozen=True)
class KnownPosition:
    """What a consumer stores of the queue it reads from.

    source -- name of the place; positions of different places are not compared.
    generation -- of the queue: another one when it was made anew or rebased.
    registration -- of the consumer: another one when it was registered anew.
    tick, tick_time -- up to where its data are complete.
    """

    source: str
    generation: UUID
    registration: int
    tick: int
    tick_time: datetime


@dataclass(frozen=True)
class Lost:
    """That a position was found lost; it stays so until ``forget_lost``, which is decided by hand.

    source -- name of the place that it did not fit.
    """

    source: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class PositionFacts:
    """What the queue says now; see ``pgq.position_facts``.

    valid_until -- last tick up to which positions of the stored generation are valid; None when
        that is the present one, or unknown.
    finished_tick -- what the queue takes for the consumer's position.
    tick_time -- of the tick asked for; None when the queue has no such tick.
    """

    generation: UUID
    valid_until: int | None
    registration: int | None
    finished_tick: int | None
    tick_time: datetime | None
    first_tick: int | None
    last_tick: int | None


def decide(known: KnownPosition, facts: PositionFacts, tick: int) -> str | None:
    """Why a consumer whose data are complete up to ``tick`` must not go on; None: it may.

    Pure.  ``known.tick`` may be another tick when the position was moved by hand; its time says
    nothing then.
    """
    if facts.generation != known.generation:
        if facts.valid_until is None:
            return "the queue was made anew"
        if tick > facts.valid_until:
            return f"the queue was restored from a dump that ends at tick {facts.valid_until}"
    if facts.last_tick is None or tick > facts.last_tick:
        return f"the queue has come to tick {facts.last_tick} only: it is older than the data"
    if facts.tick_time is not None and known.tick == tick and facts.tick_time != known.tick_time:
        return (
            f"tick {tick} is another one: made at {facts.tick_time}, not at {known.tick_time};"
            " the queue was set back and went on from there"
        )
    if facts.registration is None:
        return "the consumer is not registered any more"
    if facts.registration != known.registration and facts.finished_tick != tick:
        return f"the consumer was registered anew, at tick {facts.finished_tick}"
    if facts.finished_tick is not None and facts.finished_tick > tick:
        return (
            f"the queue has given out everything up to tick {facts.finished_tick}, the data are"
            f" complete up to tick {tick}: this database is a backup or a copy of another one"
        )
    return None


def rewind_obstacle(
    known: KnownPosition | None, facts: PositionFacts, source: str, tick: int
) -> str | None:
    """Why the queue must not begin at ``tick`` again, where the data are; None: it may.

    Pure.  A branch has the ticks of its provider, so their times are compared at any source.
    """
    if known is None or known.tick != tick:
        return f"nothing is noted of the queue in which tick {tick} was read"
    if facts.tick_time is None:
        return f"the queue has ticks {facts.first_tick} to {facts.last_tick}, not tick {tick}"
    if facts.tick_time != known.tick_time:
        return f"tick {tick} is another one: made at {facts.tick_time}, not at {known.tick_time}"
    if known.source == source and facts.generation != known.generation:
        if facts.valid_until is None:
            return "the queue was made anew"
        if tick > facts.valid_until:
            return f"the queue was restored from a dump that ends at tick {facts.valid_until}"
    return None


def prove(
    queue: str,
    consumer: str,
    source: str,
    tick: int,
    known: KnownPosition | None,
    facts: PositionFacts,
    *,
    hint: str,
) -> KnownPosition | None:
    """What to store now for a consumer whose data are complete up to ``tick``.

    The first time, and at another source, things are taken as they are.  None: the queue has
    no such tick, or no such consumer, so there is nothing to store.

    hint -- what to do when the position is lost.

    Raises PositionLost.
    """
    if known is not None and known.source == source:
        reason = decide(known, facts, tick)
        if reason is not None:
            raise PositionLost(
                f"consumer {consumer} of queue {queue} cannot go on at tick {tick} of {source}",
                detail=reason,
                hint=hint,
            )
    if facts.registration is None:
        return None
    if facts.tick_time is None:
        return (
            None
            if known is None
            else replace(
                known, source=source, generation=facts.generation, registration=facts.registration
            )
        )
    return KnownPosition(source, facts.generation, facts.registration, tick, facts.tick_time)


def forgotten(known: KnownPosition | None, facts: PositionFacts, source: str, tick: int) -> bool:
    """Whether the queue takes the consumer to be further back than its data are, and is wrong.

    Pure; for what ``prove`` has let pass.  A server that crashes forgets batches whose end was
    not told durably.  The position in the data is the true one then, if the tick there is the one
    that was noted with the data, in the same generation and the same registration of the
    consumer: so all that lies between is in the data.  Anything else that is behind must be
    looked at by somebody.
    """
    return (
        known is not None
        and known.source == source
        and known.tick == tick
        and facts.tick_time == known.tick_time
        and facts.generation == known.generation
        and facts.registration == known.registration
        and facts.finished_tick is not None
        and facts.finished_tick < tick
    )


def same_tick(known: KnownPosition | None, batch: Batch) -> bool:
    """Whether the tick that ends a batch can be the one noted under its number."""
    return known is None or known.tick != batch.tick_id or known.tick_time == batch.tick_time


def look(
    conn: Connection, queue: str, consumer: str, known: KnownPosition | None, tick: int
) -> PositionFacts:
    """Asks the queue for what ``decide`` compares.  Raises UnknownQueue."""
    generation = None if known is None else known.generation
    row = call.row(conn, "pgq.position_facts", queue, consumer, generation, tick)
    return PositionFacts(**row)


def recall(conn: Connection, queue: str, consumer: str) -> KnownPosition | None:
    """What is noted in the database of the data; None when nothing is."""
    found = call.records(conn, KnownPosition, "pgq.get_known_source", queue, consumer)
    return found[0] if found else None


def note(conn: Connection, queue: str, consumer: str, known: KnownPosition) -> None:
    """Notes it in the database of the data."""
    call.value(
        conn,
        "pgq.note_known_source",
        queue,
        consumer,
        known.source,
        known.generation,
        known.registration,
        known.tick,
        known.tick_time,
    )


def moved(conn: Connection, queue: str, consumer: str, batch: Batch) -> None:
    """Notes that the data are complete up to the end of the batch; the caller's transaction."""
    call.value(conn, "pgq.move_known_tick", queue, consumer, batch.tick_id, batch.tick_time)


def lost(conn: Connection, queue: str, consumer: str) -> Lost | None:
    """What was found wrong with the position, as the database of the data knows it."""
    found = call.records(conn, Lost, "pgq.get_lost_position", queue, consumer)
    return found[0] if found else None


def note_lost(conn: Connection, queue: str, consumer: str, source: str, reason: str) -> None:
    """Notes that the position is lost; the first reason stays."""
    call.value(conn, "pgq.note_lost_position", queue, consumer, source, reason)


def forget_lost(conn: Connection, queue: str, consumer: str) -> None:
    """The position counts again, by decision."""
    call.value(conn, "pgq.forget_lost_position", queue, consumer)


def forget(conn: Connection, queue: str, consumer: str | None = None) -> None:
    """Forgets it, for one consumer or all: the queue is taken as it is found next."""
    call.value(conn, "pgq.forget_known_sources", queue, consumer)


__all__ = [
    "KnownPosition",
    "Lost",
    "PositionFacts",
    "decide",
    "forget",
    "forget_lost",
    "forgotten",
    "look",
    "lost",
    "moved",
    "note",
    "note_lost",
    "prove",
    "recall",
    "rewind_obstacle",
    "same_tick",
]
