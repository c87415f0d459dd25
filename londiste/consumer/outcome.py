"""What is to become of an event that was not simply processed: again later, or a dead letter.

Raise one of these in ``process_event``, or tell the context.  Nothing of it is stored before the
batch is finished: both happen in one transaction of the queue's database.
"""

from __future__ import annotations

from dataclasses import dataclass

from londiste.errors import LondisteError

#: Seconds after which an event is delivered again when nobody says otherwise.
RETRY_SECONDS = 60


class Retry(LondisteError):
    """Raised by ``process_event``: deliver this event again in so many seconds."""

    def __init__(self, seconds: int = RETRY_SECONDS, reason: str = "") -> None:
        super().__init__(reason or f"again in {seconds} seconds")
        self.seconds = seconds
        self.reason = reason


class Dead(LondisteError):
    """Raised by ``process_event``: put this event among the dead letters, with a reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Outcome:
    """The decision for one event.

    seconds -- deliver it again after this time; None for a dead letter.
    attempts -- deliveries after which it goes to the dead letters instead; None for no limit
        but the queue's own.
    """

    event_id: int
    seconds: int | None
    reason: str = ""
    attempts: int | None = None
