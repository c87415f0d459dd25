"""Proofs of control events, without which a node rejects them.

Scripts and cascade messages are executed with the rights of the worker.  The database into which
they are written decides which roles may write them, and records those that it accepted
(``pgq.control_event``).  A subscriber asks its provider for unproven ones before it executes any; a
branch records those that it forwards.

Batches without control events, which are nearly all, cause no query.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from psycopg.pq import TransactionStatus

from londiste.changes.decode import shown
from londiste.changes.kinds import is_message
from londiste.changes.types import SystemEvent
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import word
from londiste.db.queries import has_function
from londiste.errors import ApplyError, EventError
from londiste.handlers.base import literal
from londiste.pgq import queues
from londiste.pgq.blocks import EventBlock

_WORDS = re.compile(rb"\t(?:EXECUTE\t|pgq\.|londiste\.)")
#: Bytes in which the first fields of an event are, up to such a type.
_HEAD = 256
_FUNCTION = "pgq.unproven_events(text,bigint[],bigint[],text[])"


class Control(NamedTuple):
    """A control event, as its provider has it."""

    id: int
    txid: int
    type: str


def control_events(block: EventBlock) -> list[Control]:
    """Control events of a block; without any, the cost is one search through its bytes."""
    # A long event is alone, and is not copied to look at it.
    text = block.head(_HEAD) if len(block) == 1 else block.data
    if _WORDS.search(text) is None:
        return []
    # One that is no text is an error later, where it is needed.
    readable = block.readable(lambda *event: False)
    return [
        Control(int(id or 0), int(txid or 0), kind)
        for id, txid, kind in readable.select("id", "txid", "type")
        if kind is not None and is_message(kind)
    ]


def of_messages(messages: Sequence[SystemEvent]) -> list[Control]:
    """Control events of messages that are already decoded."""
    return [Control(one.event_id, one.txid, one.type) for one in messages]


class Proofs:
    """Asks the provider of a node about the control events of one batch after another.

    conn -- the session on the provider; while it sends a long batch, another one is opened.
    location -- connection string of the provider.
    answer_seconds -- see ``connect``; a server that works may take longer.
    """

    def __init__(
        self, conn: Connection, queue: str, location: str, answer_seconds: float | None = None
    ) -> None:
        self._conn = conn
        self._queue = queue
        self._location = location
        self._answer_seconds = answer_seconds
        self._knows = False
        self._met: set[int] = set()
        self._refused: set[int] = set()

    @property
    def refused(self) -> Collection[int]:
        """IDs of unproven events of the batch, which are skipped."""
        return self._refused

    def begin(self) -> None:
        """Resets for the next batch, or for another attempt."""
        self._met = set()
        self._refused = set()

    def proven(
        self, block: EventBlock, skips: Collection[tuple[int, int]]
    ) -> list[tuple[int, str]]:
        """The proven control events of a block, by id and type; raises what ``check`` does."""
        found = control_events(block)
        self.check(found, skips)
        return [(event.id, event.type) for event in found if event.id not in self._refused]

    def check(self, events: Sequence[Control], skips: Collection[tuple[int, int]] = ()) -> None:
        """Raises EventError for the first event that is neither proven nor skipped.

        skips -- event IDs and rows that an operator skips.
        """
        if not events:
            return
        with self._session() as conn:
            # One that does not know may be upgraded at any time.
            self._knows = self._knows or _knows(conn)
            if not self._knows:
                return
            unproven = set(queues.unproven_events(conn, self._queue, events))
        for event in events:
            # A proof is for one event, whatever else has its number.
            if event.id in unproven or event.id in self._met:
                self._refused.add(event.id)
                if (event.id, 0) not in skips:
                    raise _error(event, self._queue, describe_dsn(self._location))
            self._met.add(event.id)

    @contextlib.contextmanager
    def _session(self) -> Iterator[Connection]:
        if self._conn.info.transaction_status == TransactionStatus.IDLE:
            yield self._conn
            return
        with session(
            self._location,
            name="londiste worker: proofs",
            autocommit=True,
            silent_seconds=self._answer_seconds,
        ) as conn:
            yield conn


def _knows(conn: Connection) -> bool:
    """Whether the provider records proofs; older versions do not."""
    return has_function(conn, _FUNCTION)


def _error(event: Control, queue: str, provider: str) -> EventError:
    return EventError(
        f"event {event.id} of type {shown(event.type)} is not proven: {provider} has no record that"
        " an administrator or the cascade wrote it",
        detail=f"queue {queue}; control events run with the rights of the worker: nothing of the"
        " batch was applied",
        hint="inspect it on the provider: londiste queue events"
        f" {word(queue)} --id {event.id}; if it is legitimate, accept it on the provider:"
        f" select pgq.accept_control_event({literal(queue)}, {event.id}); otherwise skip it on this"
        f" node: londiste events skip {event.id}, and check which roles may write into the tables"
        " of the queue",
        queue=queue,
        event_id=event.id,
        finding=ApplyError("unproven"),
    )
