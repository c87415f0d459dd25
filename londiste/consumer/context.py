"""What a consumer's function gets beside the events: a session, the batch, ways to say more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

from londiste.consumer.delivery import Delivery
from londiste.consumer.outcome import RETRY_SECONDS, Outcome
from londiste.db.connection import Connection
from londiste.errors import StateError
from londiste.pgq.types import Batch, Event

#: Seconds, as the database takes them.
LONGEST = 2**31 - 1

EventFunction: TypeAlias = "Callable[[Event, Context], object]"


class Context:
    """Belongs to one batch; made anew when a batch is tried again.

    batch -- the batch.
    stats -- numbers for the line of statistics: ``ctx.stats["mails"] += 1``.
    """

    def __init__(
        self,
        batch: Batch,
        delivery: Delivery,
        db: Callable[[], Connection],
        *,
        one: Callable[[Event, EventFunction, Context], None],
        attempts: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.batch = batch
        self.stats: Counter[str] = Counter()
        self.outcomes: dict[int, Outcome] = {}
        #: Whether an event failed whose effects only a rollback of the whole batch undoes.
        self.half_done = False
        self._delivery = delivery
        self._db = db
        self._one = one
        self._attempts = attempts
        self._stopping = stopping

    @property
    def db(self) -> Connection:
        """The session for effects.

        Exactly once: the one whose transaction also has the position, so that only what is written
        here is exactly once; it commits when the batch is done.  Once per event: its transaction
        has the event's mark.  Otherwise a session in autocommit mode.  It leads to ``target_db`` if
        that is set, and to the queue's database if not.  The user's own search_path applies.
        """
        return self._db()

    @property
    def stopping(self) -> bool:
        """Whether the process must stop after this batch."""
        return self._stopping()

    @property
    def returned(self) -> list[Outcome]:
        """The events with an outcome other than success, and their outcomes."""
        return list(self.outcomes.values())

    def counters(self) -> Counter[str]:
        """The function's own numbers, and those of retries and dead letters."""
        numbers = Counter(self.stats)
        numbers.update("dead" if o.seconds is None else "retried" for o in self.outcomes.values())
        return numbers

    def each(self, events: Iterable[Event], function: EventFunction) -> None:
        """Calls ``function(event, ctx)`` for every event, as the consumer calls ``process_event``.

        With all that belongs to it: Retry and Dead, the limit of attempts, errors that name the
        event, and marks under delivery once per event.
        """
        for event in events:
            self._one(event, function, self)

    def retry(self, event: Event, seconds: int = RETRY_SECONDS, reason: str = "") -> None:
        """Schedules a retry of the event for this consumer after ``seconds``.

        Raises StateError if the delivery contract does not allow it.
        """
        self._require(self._delivery.may_retry, event, "retry it")
        if not isinstance(seconds, int) or not 0 <= seconds <= LONGEST:
            raise StateError(
                f"event {event.id}: invalid retry delay: {seconds!r} seconds",
                hint=f"give a whole number of seconds from 0 to {LONGEST}",
            )
        self.outcomes[event.id] = Outcome(event.id, int(seconds), _text(reason), self._attempts)

    def dead(self, event: Event, reason: str) -> None:
        """Makes the event a dead letter, which is stored with the reason.

        Raises StateError if the delivery contract does not allow it.
        """
        self._require(self._delivery.may_bury, event, "make it a dead letter")
        self.outcomes[event.id] = Outcome(event.id, None, _text(reason))

    def _require(self, allowed: bool, event: Event, what: str) -> None:
        if not allowed:
            raise StateError(
                f"event {event.id}: cannot {what} under delivery {self._delivery.value!r}",
                detail=f"queue {self.batch.queue}, batch {self.batch.id}, type {event.type}",
                hint="handle the failure in the function, or choose another delivery contract:"
                " docs/howto/write-a-consumer.md",
            )


def _text(reason: object) -> str:
    """A reason as a text that a database takes; reasons quote what could not be processed."""
    text = str(reason).replace("\0", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
