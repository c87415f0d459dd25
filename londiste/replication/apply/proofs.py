"""Control events that nobody entitled has written: a node does not obey them.

Scripts and messages of the cascade act with the rights of the worker.  Who may write them is
decided by the database into which they are written, which notes those that it has let pass
(``pgq.control_event``).  A subscriber asks its provider for the others, before it does anything
that one of them says; a branch notes in its turn what it hands on.

Batches without control events, which are nearly all, are not asked about.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from londiste.changes.decode import shown
from londiste.changes.types import SystemEvent
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import query
from londiste.errors import ApplyError, EventError, from_database
from londiste.pgq import queues
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.accumulator import is_message

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
    """Those of a block; it costs a search through its bytes where there is none."""
    # A long event is alone, and is not copied to look at it.
    text = block.head(_HEAD) if len(block) == 1 else block.data
    if _WORDS.search(text) is None:
        return []
    return [
        Control(int(id or 0), int(txid or 0), kind)
        for id, txid, kind in block.select("id", "txid", "type")
        if kind is not None and is_message(kind)
    ]


def of_messages(messages: Sequence[SystemEvent]) -> list[Control]:
    """The same of messages that were read already."""
    return [Control(one.event_id, one.txid, one.type) for one in messages]


class Proofs:
    """Asks the provider of a node about the control events of one batch after another.

    conn -- the session on the provider; while it sends a long batch, another one is opened.
    location -- connection string of the provider.
    """

    def __init__(self, conn: Connection, queue: str, location: str) -> None:
        self._conn = conn
        self._queue = queue
        self._location = location
        self._knows = False
        self._met: set[int] = set()
        self._refused: set[int] = set()

    @property
    def refused(self) -> Collection[int]:
        """Numbers of events of the batch that are not proven, and are left out."""
        return self._refused

    def begin(self) -> None:
        """Another batch, or the same once more."""
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
        """Raises EventError for the first that is not proven, and is not to be left out.

        skips -- numbers of events, and rows, that an operator has left out.
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
        with session(self._location, name="londiste worker: proofs", autocommit=True) as conn:
            yield conn


def _knows(conn: Connection) -> bool:
    """Whether the provider notes who has written; those of before do not."""
    try:
        row = conn.execute(query("function_exists"), {"function": _FUNCTION}).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=describe_dsn(conn.info.dsn)) from error
    return bool(row and row[0])


def _error(event: Control, queue: str, provider: str) -> EventError:
    literal = queue.replace("'", "''")
    return EventError(
        f"event {event.id} of type {shown(event.type)} is not proven: {provider} does not know that"
        " an administrator or the cascade has written it",
        detail=f"queue {queue}; it is a control event, and could do anything here: nothing of its"
        " batch was applied",
        hint=f"read it on the provider: londiste queue events {shlex.quote(queue)} --id {event.id};"
        " if it is right, accept it there: select"
        f" pgq.accept_control_event('{literal}', {event.id}); if not,"
        f" leave it out here: londiste events skip {event.id}, and see who may write into the"
        " tables of the queue",
        queue=queue,
        event_id=event.id,
        finding=ApplyError("unproven"),
    )


__all__ = ["Control", "Proofs", "control_events", "of_messages"]
