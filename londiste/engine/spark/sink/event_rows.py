"""Event rows: mapping of rows to events, and their insertion by the driver.

The statements take a chunk of rows as one text of JSON, from the message of a task or from where
it was staged; no row passes through the driver that does not come with a message.
"""

# ruff: noqa: S608 - names are those of this module, values are in the parameters

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from psycopg import RawCursor

from londiste.db.connection import Connection
from londiste.engine.spark.sink import text_format
from londiste.engine.spark.sink.options import Payload, QueueOptions
from londiste.engine.spark.sink.stage import Cutter, StagedRows, column_lists
from londiste.errors import BadOption, EventError, TransientError

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
_LETTERS = "tdabcf"
_KINDS = ", ".join(f"{letter} text" for letter in _LETTERS)
_NAMES = ", ".join(f"r.{letter}" for letter in _LETTERS)

#: Types by which an epoch can be ordered, and PostgreSQL's for it.
_ORDERED = {
    "string": 'text collate "C"',
    "whole": "bigint",
    "float": "float8",
    "double": "float8",
    "decimal": "numeric",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
#: Characters of events that one statement inserts out of an ordered epoch.
_STEP = 1 << 20


@dataclass(frozen=True)
class EventShape:
    """Roles of the columns of a row in its event.

    places -- indexes of the event's fields in the row; None: no such column.
    inside -- names and indexes of the columns that are encoded in the data.
    key, order -- indexes of the columns of the options; None: not set.
    ordered -- PostgreSQL's type for the order.
    """

    places: tuple[int | None, ...]
    inside: tuple[tuple[str, int], ...]
    key: int | None
    order: int | None
    ordered: str


def shape_of(options: QueueOptions, schema: Any) -> EventShape:
    """Raises BadOption for columns that do not belong to an event."""
    names = [field.name for field in schema.fields]
    kinds = {field.name: text_format.kind_of(field.dataType) for field in schema.fields}
    for field in schema.fields:
        text_format.require_text(field)
    extra = [name for name in (options.key, options.order) if name]
    for name in extra:
        if name not in names:
            raise BadOption(f"column {name}: does not exist", hint=f"use one of {', '.join(names)}")
    fields = list(FIELDS)
    if options.payload is not Payload.RAW:
        fields.remove("ev_data")
        if "ev_data" in names:
            raise BadOption(
                f"payload={options.payload}: not supported for rows with a column ev_data",
                detail="ev_data is built from the whole row",
                hint=f"rename the column, or write the fields unchanged: payload={Payload.RAW}",
            )
    for name in fields:
        if name in names and kinds[name] not in ("string", "null"):
            raise BadOption(
                f"column {name}: not of type string",
                hint=f"cast it: .withColumn('{name}', col('{name}').cast('string'))",
            )
    if options.order and kinds[options.order] not in _ORDERED:
        raise BadOption(
            f"orderBy: type of column {options.order} cannot be ordered in PostgreSQL",
            hint="use a column with numbers, text, dates or timestamps",
        )
    if options.type is not None and "ev_type" in names:
        raise BadOption(
            "eventType: not supported for rows with a column ev_type",
            hint="omit eventType, or .drop('ev_type')",
        )
    others = [name for name in names if name not in fields]
    if options.payload is Payload.RAW:
        unknown = [name for name in others if name not in extra]
        if unknown:
            raise BadOption(
                f"column {unknown[0]}: not a field of an event",
                detail=f"fields: {', '.join(FIELDS)}",
                hint="use .select('ev_type', 'ev_data'), or write the whole row:"
                f" payload={Payload.JSON}",
            )
        if "ev_data" not in names:
            raise BadOption(
                "column ev_data: required with payload=raw",
                hint=f"add it, or write the whole row as event data: payload={Payload.JSON}",
            )
        others = []
    return EventShape(
        tuple(names.index(name) if name in names and name in fields else None for name in FIELDS),
        tuple((name, names.index(name)) for name in others),
        names.index(options.key) if options.key else None,
        names.index(options.order) if options.order else None,
        _ORDERED[kinds[options.order]] if options.order else "",
    )


def chunks(
    options: QueueOptions, schema: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[StagedRows]:
    """The rows of a task.  Raises EventError for one without the key that it has to have."""
    shape = shape_of(options, schema)
    makers = [text_format.nested(field.dataType) for field in schema.fields]
    data = _data(options.payload, shape)
    cutter = Cutter()
    for batch in batches:
        for row in zip(*column_lists(batch, makers), strict=True):
            yield from cutter.add(_line(options, shape, data, row))
    yield from cutter.rest()


def _data(payload: Payload, shape: EventShape) -> Callable[[Sequence[Any]], str] | None:
    if payload is Payload.JSON:
        heads = [(f"{text_format.document(name)}:", place) for name, place in shape.inside]
        return lambda row: (
            "{" + ",".join(head + text_format.document(row[place]) for head, place in heads) + "}"
        )
    if payload is Payload.URLENCODED:
        fields = [(quote_plus(name), place) for name, place in shape.inside]
        return lambda row: "&".join(
            name if row[place] is None else f"{name}={quote_plus(text_format.plain(row[place]))}"
            for name, place in fields
        )
    return None


def _line(
    options: QueueOptions,
    shape: EventShape,
    data: Callable[[Sequence[Any]], str] | None,
    row: Sequence[Any],
) -> str:
    found = [
        f'"{letter}":{text_format.document(row[place])}'
        for letter, place in zip(_LETTERS, shape.places, strict=True)
        if place is not None and row[place] is not None
    ]
    if options.type is not None:
        found.append(f'"t":{text_format.document(options.type)}')
    if data is not None:
        found.append(f'"d":{text_format.document(data(row))}')
    if shape.key is not None:
        if row[shape.key] is None:
            raise EventError(
                f"key column {options.key}: row with NULL",
                hint=f"exclude such rows: .where('{options.key} is not null')",
            )
        found.append(f'"k":{text_format.document(text_format.plain(row[shape.key]))}')
    if shape.order is not None and row[shape.order] is not None:
        found.append(f'"o":{text_format.document(text_format.plain(row[shape.order]))}')
    return "{" + ",".join(found) + "}"


#: What gives the text of a chunk: the SQL of it as ``$1`` and ``$2``, and these.
Given = tuple[str, list[Any]]


def insert(
    conn: Connection, options: QueueOptions, schema: Any, given: Iterable[tuple[Given, int]]
) -> None:
    """Inserts the events of an epoch in the open transaction.

    given -- chunks, and the expected number of rows of each.

    Raises TransientError when staged rows are missing, and errors of the queue.
    """
    shape = shape_of(options, schema)
    if shape.order is not None:
        _insert_ordered(conn, options, shape, given)
        return
    for (text, parameters), count in given:
        rows = _rows(text)
        done = _run(conn, _statement(options, rows), [*parameters, options.queue])
        require(done, count)


def require(done: int, count: int) -> None:
    """Raises TransientError unless a chunk had as many rows as were staged."""
    if done != count:
        raise TransientError(
            f"staged rows lost: {done} found, {count} expected",
            detail="the server was restarted after a crash, or the rows were deleted",
            hint="restart the query: it repeats the epoch from its checkpoint",
        )


def _rows(text: str) -> str:
    """The rows of a chunk as ``r``, numbered by ``n``."""
    return (
        f"(select * from rows from (json_to_recordset(('[' || {text} || ']')::json)"
        f" as ({_KINDS}, k text, o text)) with ordinality"
        f" as r({', '.join(_LETTERS)}, k, o, n) order by n) as r"
    )


def _statement(options: QueueOptions, rows: str) -> str:
    """Inserts the rows; answers how many there were.  ``$3`` is the queue."""
    if options.key:
        return (
            "select count(x.ev_id) from " + rows + " cross join lateral"
            f" pgq.insert_event_once($3, r.k, {_NAMES}) as x"
        )
    arrays = ", ".join(f"array_agg(r.{letter} order by r.n)" for letter in _LETTERS)
    return (
        f"select coalesce((select pgq.insert_events($3, {arrays}) from {rows}"
        " having count(*) > 0), 0)"
    )


def _insert_ordered(
    conn: Connection,
    options: QueueOptions,
    shape: EventShape,
    given: Iterable[tuple[Given, int]],
) -> None:
    letters = ", ".join(_LETTERS)
    _do(
        conn,
        f"create temp table londiste_epoch ({_KINDS}, k text, o text,"
        " n bigint generated always as identity) on commit drop",
    )
    for (text, parameters), count in given:
        done = _do(
            conn,
            f"insert into londiste_epoch ({letters}, k, o) select {_NAMES}, r.k, r.o"
            f" from {_rows(text)} order by r.n",
            parameters,
        )
        require(done, count)
    order = f"o::{shape.ordered} nulls first, n"
    _do(
        conn,
        f"create temp table londiste_ordered on commit drop as select {letters}, k, o,"
        f" row_number() over (order by {order}) as n,"
        " (sum(200 + coalesce(length(d), 0) + coalesce(length(a), 0) + coalesce(length(b), 0)"
        f" + coalesce(length(c), 0) + coalesce(length(f), 0)) over (order by {order}))"
        f" / {_STEP} as step from londiste_epoch",
    )
    _do(conn, "create index on londiste_ordered (step)")
    with RawCursor(conn) as cursor:
        steps = cursor.execute(
            "select step, count(*) from londiste_ordered group by step order by step"
        ).fetchall()
    for step, count in steps:
        rows = (
            "(select * from londiste_ordered where step = $1::bigint and $2::text is null"
            " order by n) as r"
        )
        done = _run(conn, _statement(options, rows), [step, None, options.queue])
        require(done, count)


def _run(conn: Connection, statement: str, parameters: Sequence[Any]) -> int:
    with RawCursor(conn) as cursor:
        row = cursor.execute(statement, parameters).fetchone()
    assert row is not None
    return int(row[0])


def _do(conn: Connection, statement: str, parameters: Sequence[Any] = ()) -> int:
    with RawCursor(conn) as cursor:
        return cursor.execute(statement, parameters).rowcount
