"""Position check: proves that a stored position still belongs to its queue.

A consumer that keeps its position with its data, in another database, relies on tick ids.  After a
restore, or when queue or consumer were created again, the same ids stand for other events.  So it
stores more than a number, and compares at the start:

    known = recall(target, queue, consumer)                 what was stored, in its own database
    facts = look(source, queue, consumer, known, tick)      the present state
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

#: Why a position is lost whose consumer the queue has forgotten.
UNREGISTERED = "the consumer is not registered any more"


@dataclass(frozen=True)
class KnownPosition:
    """What a consumer stores of the queue it reads from.

    source -- name of the place; positions of different places are not compared.
    generation -- of the queue: changes when it is created again or rebased.
    registration -- of the consumer: changes when it is registered again.
    tick, tick_time -- its data are complete up to here.
    """

    source: str
    generation: UUID
    registration: int
    tick: int
    tick_time: datetime


@dataclass(frozen=True)
class Lost:
    """A lost position; it stays lost until ``forget_lost``, an operator's decision.

    source -- name of the place whose queue did not fit.
    """

    source: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class PositionFacts:
    """Present state of the queue; see ``pgq.position_facts``.

    valid_until -- last tick up to which positions of the stored generation are valid; None if it is
        the present generation, or unknown.
    finished_tick -- the consumer's position as the queue knows it.
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
    """Why a consumer whose data are complete up to ``tick`` must not continue; None: it may.

    Pure.  After a manual move of the position ``known.tick`` may be another tick; its time is not
    compared then.
    """
    if facts.generation != known.generation:
        if facts.valid_until is None:
            return "the queue was dropped and created again"
        if tick > facts.valid_until:
            return f"the queue was restored from a dump that ends at tick {facts.valid_until}"
    if facts.last_tick is None or tick > facts.last_tick:
        return f"the newest tick of the queue is {facts.last_tick}: it is older than the data"
    if another := another_tick(known, facts, tick):
        return f"{another}; the queue was set back and continued from there"
    if facts.registration is None:
        return UNREGISTERED
    if facts.registration != known.registration and facts.finished_tick != tick:
        return f"the consumer was registered again, at tick {facts.finished_tick}"
    if facts.finished_tick is not None and facts.finished_tick > tick:
        return (
            f"the consumer has finished all batches up to tick {facts.finished_tick}, the"
            f" data are complete up to tick {tick}: this database is a backup or a copy of"
            " another one"
        )
    return None


def another_tick(known: KnownPosition, facts: PositionFacts, tick: int) -> str | None:
    """Why the queue has another tick under this id than the recorded one; None: it may be the same.

    Pure, at any source: a branch has the ticks of its provider, with their times.
    """
    if facts.tick_time is None or known.tick != tick or facts.tick_time == known.tick_time:
        return None
    return f"tick {tick} is another tick: created at {facts.tick_time}, not at {known.tick_time}"


def rewind_obstacle(
    known: KnownPosition | None, facts: PositionFacts, source: str, tick: int
) -> str | None:
    """Why the queue must not restart at ``tick``, the position of the data; None: it may.

    Pure.  A branch has the ticks of its provider, so their times are compared at any source.
    """
    if known is None or known.tick != tick:
        return f"the queue in which tick {tick} was read is not recorded"
    if facts.tick_time is None:
        return f"the queue has ticks {facts.first_tick} to {facts.last_tick}, not tick {tick}"
    if another := another_tick(known, facts, tick):
        return another
    if known.source == source and facts.generation != known.generation:
        if facts.valid_until is None:
            return "the queue was dropped and created again"
        if tick > facts.valid_until:
            return f"the queue was restored from a dump that ends at tick {facts.valid_until}"
    return None


def last_common_tick(facts: PositionFacts, tick: int) -> int:
    """The last tick that nodes with the lost position ``tick`` can have in common with the queue.

    Pure.
    """
    ends = (facts.valid_until, facts.last_tick or 0)
    return min(tick - 1, *(end for end in ends if end is not None))


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
    """The record to store for a consumer whose data are complete up to ``tick``.

    The first time the present state is accepted; at another source, if that has the same tick.
    None: the queue has no such tick, or no such consumer, so there is nothing to store.

    hint -- for the error of a lost position.

    Raises PositionLost.
    """
    if known is not None:
        same = known.source == source
        reason = decide(known, facts, tick) if same else another_tick(known, facts, tick)
        if reason is not None:
            raise PositionLost(
                f"consumer {consumer} of queue {queue}: cannot continue at tick {tick} of {source}",
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
    """Whether the queue has the consumer further back than its data, wrongly.

    Pure; for positions that ``prove`` accepted.  A server that crashes loses finishes that were not
    durable.  Then the position in the data is the true one, if its tick is the recorded one, in the
    same generation and the same registration of the consumer: the data contain everything between.
    In all other cases an operator must decide.
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
    """Whether the tick that ends a batch can be the one recorded under its id."""
    return known is None or known.tick != batch.tick_id or known.tick_time == batch.tick_time


def look(
    conn: Connection, queue: str, consumer: str, known: KnownPosition | None, tick: int
) -> PositionFacts:
    """Reads from the queue what ``decide`` compares.  Raises UnknownQueue."""
    generation = None if known is None else known.generation
    row = call.row(conn, "pgq.position_facts", queue, consumer, generation, tick)
    return PositionFacts(**row)


def recall(conn: Connection, queue: str, consumer: str) -> KnownPosition | None:
    """The record in the database of the data; None if there is none."""
    found = call.records(conn, KnownPosition, "pgq.get_known_source", queue, consumer)
    return found[0] if found else None


def note(conn: Connection, queue: str, consumer: str, known: KnownPosition) -> None:
    """Records it in the database of the data."""
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
    """Records that the data are complete up to the end of the batch; the caller's transaction."""
    call.value(conn, "pgq.move_known_tick", queue, consumer, batch.tick_id, batch.tick_time)


def lost(conn: Connection, queue: str, consumer: str) -> Lost | None:
    """The recorded loss of the position; None if it is not lost."""
    found = call.records(conn, Lost, "pgq.get_lost_position", queue, consumer)
    return found[0] if found else None


def note_lost(conn: Connection, queue: str, consumer: str, source: str, reason: str) -> None:
    """Records that the position is lost; the first reason stays."""
    call.value(conn, "pgq.note_lost_position", queue, consumer, source, reason)


def forget_lost(conn: Connection, queue: str, consumer: str) -> None:
    """Clears a lost position, by decision of an operator."""
    call.value(conn, "pgq.forget_lost_position", queue, consumer)


def forget(conn: Connection, queue: str, consumer: str | None = None) -> None:
    """Deletes the record, of one consumer or all: the next queue that is found is accepted."""
    call.value(conn, "pgq.forget_known_sources", queue, consumer)
