"""Which stored errors of copies no further attempt ends: an operator has to act.  Pure."""

from __future__ import annotations

from londiste.errors import LondisteError, TableChanged, TooFewIds

#: Between the error and its hint, in the text that the copy stores.
_MARK = "; stopped until this is done: "
#: An error that may pass does not come so often in a row.
_TIMES = 2
#: They end automatically, although no retry at once helps.
_PASSING = (TableChanged, TooFewIds)


def stored(text: str, hint: str, error: LondisteError, times: int) -> str:
    """What is stored of an error, for status and for ``remedy``.

    text -- of the error.  times -- how often in a row it has been the same.
    """
    stops = times >= _TIMES and not error.retry and not isinstance(error, _PASSING)
    return f"{text}{_MARK if stops else '; '}{hint}"


def remedy(error: str) -> tuple[str, str] | None:
    """The reason and the remedy of a stored error; None if it may pass without an operator."""
    reason, mark, hint = error.partition(_MARK)
    return (reason, hint) if mark else None
