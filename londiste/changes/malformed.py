"""What the decoders of the formats raise; ``decode`` turns it into an EventError."""

from __future__ import annotations


class Malformed(Exception):
    """The event is not in the form its type promises.  The message completes "cannot be …:"."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
