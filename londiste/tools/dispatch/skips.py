"""Events that the dispatcher skips: the setting ``skip_events``, and the hint that offers it.

A packed event has the rows of a whole statement, hundreds of them, so one row can be skipped alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from londiste.changes.types import address
from londiste.db.ddl import literal
from londiste.errors import EventError
from londiste.handlers.event_actions import SkippedRows

_NAME = re.compile(r"(\d+)(?::(\d+))?", re.ASCII)
#: Event ids are int8.
_LAST = 2**63


def parse(names: Iterable[str]) -> SkippedRows:
    """The events and rows of the setting.  Raises ValueError.

    names -- each is ``4711``, or ``4711:50`` for one row.
    """
    found = set()
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) >= _LAST:
            raise ValueError(f"{name} is no event: write 4711, or 4711:50 for row 50 of this event")
        found.add((int(match[1]), int(match[2] or 0)))
    return frozenset(found)


def explain(error: EventError, rows: int | None, skips: SkippedRows) -> None:
    """Makes the error say what is in its event, and how to skip no more than must be.

    rows -- of the event; None: unknown.
    skips -- what is skipped already.
    """
    assert error.event_id is not None
    found = error.finding
    row = found.row if found is not None else 0
    if rows is None and not row:
        skip = "skip the event with all its rows"
    elif row:
        skip = f"skip row {row} of the event"
    elif rows is not None and rows > 1:
        skip = f"skip all {rows} rows of the event"
    else:
        skip = "skip the event"
    if rows is not None and rows > 1:
        has = f"event {error.event_id} has {rows} rows"
        has += f", this is row {row}" if row else ""
        error.detail = "; ".join(filter(None, [error.detail, has]))
    # An error of the event itself is none of a row in the target.
    mend = "correct the table or the row in the target; or " if found and found.dest else ""
    later = ""
    if found and found.keyed:
        mend = f"delete the row with its key in the target ({', '.join(found.key)}), then "
    if found and found.keyed == "statement":
        # The queue may have no node.
        call = ", ".join(map(literal, [error.queue, found.table, "row"]))
        later = f"; for later events, in the source database: select londiste.change_form({call})"
    error.hint = f"{mend}{skip}: {option(error.event_id, row, skips)}{later}"


def option(event_id: int, row: int, skips: SkippedRows) -> str:
    """The option that skips one more event or row; row 0: the whole event."""
    every = sorted({*skips, (event_id, row)})
    return "--set " + shlex.quote(f"skip_events={','.join(address(*one) for one in every)}")
