"""Preimages: the row as it was before a change, from events that contain it.

A capture with the option ``backup`` writes the old row into ``ev_extra2``, in the form of
``ev_data``.  An event of the state of a row contains no old row: it becomes a delete of its key and
an insert, so a filter that keeps deletes keeps none of the rows that left.
"""

from __future__ import annotations

import json

from londiste.changes import jsonrow, urlencoded
from londiste.changes.types import Malformed, Op, RowChange
from londiste.errors import EventError
from londiste.pgq.types import Event

Change = tuple[Event, RowChange]


def before(change: RowChange, first: Change) -> Change | None:
    """The row before a change, as a change of an event; None: there was none.

    first -- the event that contains the row as it was; for a net change it is an earlier one.

    Raises EventError for an update whose event has no old row.
    """
    event, found = first
    if change.op is Op.INSERT and change.state:
        image = {name: change.image[name] for name in change.key}
        return _with(event, found, image, {name: found.image[name] for name in change.key})
    if change.op is not Op.UPDATE:
        return None
    return old_row(event, found)


def old_row(event: Event, change: RowChange) -> Change:
    """The row as it was before an update or a delete.  Raises EventError without it."""
    if change.op is Op.DELETE and not change.state:
        return event, change
    lines = None if event.extra2 is None else event.extra2.split("\n")
    if lines is None or change.op is not Op.UPDATE or len(lines) < change.row or change.partial:
        raise EventError(
            f"event {change.address}: table {change.table}: no old row",
            detail="computeUpdates needs the row before each update; a capture writes it with the"
            " option backup",
            hint="capture the table again, with its other options, too: select"
            f" londiste.create_capture('QUEUE', '{change.table}', '{{backup}}'), and start after"
            " that",
            event_id=event.id,
        )
    text = lines[max(0, change.row - 1)] if change.row else event.extra2
    assert text is not None
    try:
        if (event.type or "").startswith("{"):
            image = jsonrow.image(text)
        else:
            _, image = urlencoded.row(",".join(change.key), Op.DELETE, text)
    except Malformed as error:
        raise EventError(
            f"event {change.address}: table {change.table}: old row cannot be decoded: {error}",
            hint="find the program that wrote the event",
            event_id=event.id,
        ) from None
    return event._replace(data=text), change._replace(image=image, row=0)


def _with(
    event: Event, change: RowChange, image: dict[str, str | None], key: dict[str, str | None]
) -> Change:
    """A delete that has the key only."""
    assert image.keys() == key.keys()
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    if (event.type or "").startswith("{"):
        line = (event.data or "").split("\n")[max(0, change.row - 1)]
        own = json.loads(line)
        text = json.dumps(
            {name: own[name] for name in key}, ensure_ascii=False, separators=(",", ":")
        )
    deleted = change._replace(op=Op.DELETE, image=key, row=0)
    return event._replace(data=text), deleted
