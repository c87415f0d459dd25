"""Error of the event decoders; ``decode`` turns it into an EventError."""

from __future__ import annotations


class Malformed(Exception):
    """The event is not in the form its type promises.  The message completes "cannot be …:".

    quoted -- a piece of the event, which stands for ``{}`` in the message.
    blind -- the message without it, where values of the event must stay hidden.
    """

    def __init__(self, message: str, hint: str = "", *, quoted: str | None = None) -> None:
        shown = message if quoted is None else message.replace("{}", repr(quoted))
        super().__init__(shown)
        self.hint = hint
        self.blind = message if quoted is None else message.replace("{}", "…")
