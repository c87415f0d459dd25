"""Outcomes of a failed event: retry or dead letter.

Raise one of these in ``process_event``, or call the context.  They are stored when the batch
is finished, in the same transaction of the queue's database.
"""

from __future__ import annotations

from dataclasses import dataclass

from londiste.errors import LondisteError

#: Seconds after which an event is delivered again when nobody says otherwise.
RETRY_SECONDS = 60


class Retry(LondisteError):
    """Raised by ``process_event``: deliver this event again after ``seconds``."""

    def __init__(self, seconds: int = RETRY_SECONDS, reason: str = "") -> None:
        super().__init__(reason or f"retry in {seconds} seconds")
        self.seconds = seconds
        self.reason = reason


class Dead(LondisteError):
    """Raised by ``process_event``: make this event a dead letter, with a reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Outcome:
    """The decision for one event.

    seconds -- deliver it again after this time; None for a dead letter.
    attempts -- deliveries after which it becomes a dead letter instead; None: only the limit of
        the queue.
    """

    event_id: int
    seconds: int | None
    reason: str = ""
    attempts: int | None = None
