"""Decodes an event of the queue into row changes.

Three formats of row changes are understood, by the form of ``ev_type``:

    I  U  D              a fragment of SQL         pgq.sqltriga     partialsql.py
    I:id  U:id  D:id     the url-encoded row       pgq.logutriga    urlencoded.py
    {"op":"INSERT",…}    the row as JSON           pgq.jsontriga and our own capture, jsonrow.py

Any role that may insert events can write anything into them, so events are not trusted: values only
become parameters, and an event of another form blocks replication.

A packed event of the native capture has many rows, so consumers call ``decode_all``; ``decode`` is
for events with one row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from londiste.changes import jsonrow, partialsql, urlencoded
from londiste.changes.jsonrow import MAX_TYPE_LENGTH
from londiste.changes.keyed import read_type
from londiste.changes.types import (
    Change,
    ExecuteScript,
    Malformed,
    Op,
    RowChange,
    SystemEvent,
    Truncate,
)
from londiste.db.names import TableName
from londiste.errors import BadOption, EventError
from londiste.pgq.types import Event

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}


def decode_all(event: Event) -> Iterator[Change]:
    """The changes of one event, in order; more than one for a packed event.

    Values of a row stay text, NULL is None.  Raises EventError, with the id of the event,
    for every event of another form.
    """
    try:
        if event.type is not None and event.type.startswith("{"):
            yield from _json(event, _checked(event.type))
        else:
            yield _decode(event)
    except Malformed as error:
        raise _undecodable(event, error) from error


def decode(event: Event) -> Change:
    """The change of an event with one row.

    Raises EventError as ``decode_all`` does, and for a packed event of more rows than one.
    """
    first, *others = decode_all(event)
    if others:
        raise _undecodable(event, Malformed("it is packed, but one row was expected"))
    return first


def singles(event: Event) -> Iterator[Event]:
    """Unpacks a packed event into plain ones, one per row; others stay.

    For programs that want an event per row; it costs less to ask ``decode_all`` for the changes.
    Raises EventError when the fields of a packed event have not the same number of rows.
    """
    what = read_type(event.type)
    if what is None or not what.pack:
        yield event
        return
    kind = (event.type or "").removesuffix(',"pack":true}') + "}"
    images = (event.data or "").split("\n")
    count = len(images)
    old, keys = _lines(event.extra2, count), _lines(event.extra3, count)
    if len(old) != count or len(keys) != count:
        raise _undecodable(event, Malformed("its fields have different numbers of rows"))
    for image, before, key in zip(images, old, keys, strict=True):
        yield event._replace(type=kind, data=image, extra2=before, extra3=key)


def row_count(event: Event) -> int:
    """How many rows a row change has; of a packed event that is valid."""
    what = read_type(event.type)
    return (event.data or "").count("\n") + 1 if what is not None and what.pack else 1


def _lines(text: str | None, count: int) -> Sequence[str | None]:
    return [None] * count if text is None else text.split("\n")


def _undecodable(event: Event, error: Malformed) -> EventError:
    return EventError(
        f"event {event.id} cannot be decoded: {error}",
        # No data: they are values of rows, and messages go into logs and to whom they notify.
        detail=f"ev_type {shown(event.type)}, ev_extra1 {shown(event.extra1)},"
        f" ev_data {'NULL' if event.data is None else f'of {len(event.data):,} characters'}",
        hint=error.hint
        or f"londiste queue events QUEUE --id {event.id} shows the event: find the program that"
        " wrote it before you skip it; only triggers should write into a replicated queue",
        event_id=event.id,
    )


def shown(text: str | None, limit: int = 80) -> str:
    """A text of an event for a message: short, on one line, without control characters."""
    if text is None:
        return "NULL"
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def _decode(event: Event) -> Change:
    if event.type is None:
        raise Malformed("it has no type")
    kind = _checked(event.type)
    op = _OPS.get(kind[:1])
    if op is not None and kind[1:2] == ":":
        key, image = urlencoded.row(kind[2:], op, _data(event))
        return RowChange(event.id, event.txid, _table(event.extra1), op, key, image)
    if op is not None and len(kind) == 1:
        key, image, partial = partialsql.row(op, _data(event))
        return RowChange(event.id, event.txid, _table(event.extra1), op, key, image, partial)
    if kind == "R":
        return Truncate(event.id, event.txid, _table(event.extra1))
    if kind == "EXECUTE":
        if not event.extra1:
            raise Malformed("the script has no name")
        return ExecuteScript(
            event.id, event.txid, event.extra1, _data(event), event.extra2, event.extra3
        )
    if kind.startswith(("pgq.", "londiste.")):
        return SystemEvent(
            event.id, event.txid, kind, event.data, event.extra1, event.extra2, event.extra3
        )
    raise Malformed(
        "unknown type {}",
        quoted=kind if len(kind) <= 80 else kind[:79] + "…",
        hint="use a separate queue for tables with custom events (ev_type=, magic columns)",
    )


def _checked(kind: str) -> str:
    if len(kind) > MAX_TYPE_LENGTH:
        raise Malformed(f"its type is {len(kind)} characters long")
    return kind


def _json(event: Event, kind: str) -> Iterator[Change]:
    what = jsonrow.header(kind)
    # ev_extra1 is the name the table is registered under; it differs from the table of the
    # trigger when the trigger has ev_extra1=.
    table = _table(what.table if event.extra1 is None else event.extra1)
    if what.op is None:
        yield Truncate(event.id, event.txid, table)
        return
    data = _data(event)
    if not what.pack:
        image = jsonrow.row(what, data)
        yield RowChange(event.id, event.txid, table, what.op, what.key, image, False, what.state)
        return
    for number, text in enumerate(data.split("\n"), 1):
        image = jsonrow.row(what, text)
        yield RowChange(
            event.id, event.txid, table, what.op, what.key, image, False, what.state, number
        )


def _data(event: Event) -> str:
    if event.data is None:
        raise Malformed("it has no data")
    return event.data


@functools.lru_cache(maxsize=4096)
def _table(name: str | None) -> TableName:
    if not name:
        raise Malformed("it does not name its table")
    if len(name) > 1000:
        raise Malformed("its table has an invalid name")
    try:
        return TableName.parse(name)
    except BadOption as error:
        raise Malformed(error.message) from error
