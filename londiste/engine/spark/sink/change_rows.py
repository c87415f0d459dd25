"""Columns of change rows: those of the row, and those that describe the change.

Here is what executors do; ``merging.py`` is what the driver makes of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from londiste.engine.spark.sink import text_format
from londiste.engine.spark.sink.options import Mode, Payload, TableOptions
from londiste.engine.spark.sink.stage import Cutter, StagedRows, column_lists
from londiste.engine.spark.stream.options import CHANGE_NAMES
from londiste.errors import BadOption, EventError

if TYPE_CHECKING:
    import pyarrow as pa

#: What a change feed tells of a change; they are no columns of the table.
META = (*CHANGE_NAMES, "_key")
#: Which change of a key is the last: name, and letter in a chunk.
ORDER = (("_commit_version", "v"), ("_event_id", "e"), ("_row", "w"))

#: 1: the row is so now; 0: there is no row of that key.
_OPS = {"insert": 1, "update_postimage": 1, "update_preimage": 0, "delete": 0}


@dataclass(frozen=True)
class RowShape:
    """Which columns of a row are what.

    columns -- those of the table, with their places; empty when the row is a text of JSON.
    document -- place of that text.
    kind, table -- places of _change_type and _table; None: it has none.
    order -- letters and places of what tells the last change.
    """

    columns: tuple[tuple[str, int], ...]
    document: int | None
    kind: int | None
    table: int | None
    order: tuple[tuple[str, int], ...]


def shape_of(options: TableOptions, schema: Any) -> RowShape:
    """Raises BadOption for columns that do not go with the options."""
    names = [field.name for field in schema.fields]
    kinds = {field.name: text_format.kind_of(field.dataType) for field in schema.fields}
    append = options.mode is Mode.APPEND
    meta = () if append and options.payload is Payload.TYPED else META
    inside = [name for name in names if name not in meta]
    for field in schema.fields:
        if field.name in inside:
            text_format.require_text(field)
    for name, _ in ORDER:
        if name in names and name in meta and kinds[name] not in ("whole", "null"):
            raise BadOption(f"column {name} is no whole number", hint=f"cast {name} to bigint")
    if options.payload is Payload.JSON:
        if "row" not in names or kinds["row"] != "string":
            raise BadOption(
                "payload=json needs a column row, a text of JSON",
                hint="the source makes it with payload=json; or to_json(struct(*)) as row",
            )
        unknown = [name for name in inside if name != "row"]
        if unknown:
            raise BadOption(
                f"column {unknown[0]} has no meaning beside row", hint=f".drop('{unknown[0]}')"
            )
        named = options.tables[0][0] != ""
        if named and "_table" not in names:
            raise BadOption(
                "tables needs a column _table", hint="for one table: .option('table', …)"
            )
        if not named and "_table" in names:
            raise BadOption(
                "table would take the rows of every _table",
                hint="map it: .option('tables', 'public.orders=shop.orders'); or .drop('_table')",
            )
        if append and "_change_type" in names:
            raise BadOption(
                "mode=append has no place for deletes", hint="mode=merge; or .drop('_change_type')"
            )
    elif not inside:
        raise BadOption("there is no column for the table", hint=f"there are: {', '.join(names)}")

    def place(name: str) -> int | None:
        return names.index(name) if name in names and name in meta else None

    order = tuple(
        (letter, names.index(name)) for name, letter in ORDER if name in names and name in meta
    )
    json_row = options.payload is Payload.JSON
    return RowShape(
        () if json_row else tuple((name, names.index(name)) for name in inside),
        names.index("row") if json_row else None,
        place("_change_type"),
        place("_table") if json_row else None,
        order,
    )


def chunks(
    options: TableOptions, schema: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[StagedRows]:
    """The rows of a task.  Raises EventError for one that is no change of a row of the tables."""
    shape = shape_of(options, schema)
    makers = [text_format.nested(field.dataType) for field in schema.fields]
    image = _image(shape, schema)
    places = options.by_name
    cutter = Cutter()
    for batch in batches:
        for row in zip(*column_lists(batch, makers), strict=True):
            op = 1 if shape.kind is None else _op(row[shape.kind])
            table = 0 if shape.table is None else _place(places, row[shape.table])
            text, columns = image(row, op)
            order = "".join(
                f'"{letter}":{row[place]},'
                for letter, place in shape.order
                if row[place] is not None
            )
            yield from cutter.add(f'{{"o":{op},{order}"i":{text}}}', table, columns)
    yield from cutter.rest()


def _image(
    shape: RowShape, schema: Any
) -> Callable[[Sequence[Any], int], tuple[str, tuple[str, ...]]]:
    """What makes the row of the table: its JSON, and its columns where they differ."""
    place = shape.document
    if place is not None:
        return lambda row, op: _document(row[place], op)
    # A string that holds a document shall be that document, so nothing but arrays is nested.
    heads = [
        (
            f"{text_format.document(name)}:",
            at,
            text_format.document
            if text_format.kind_of(schema.fields[at].dataType) == "array"
            else _text,
        )
        for name, at in shape.columns
    ]
    return lambda row, op: (
        "{" + ",".join(head + make(row[at]) for head, at, make in heads) + "}",
        (),
    )


def _text(value: Any) -> str:
    return "null" if value is None else text_format.document(text_format.plain(value))


def _document(text: str | None, op: int) -> tuple[str, tuple[str, ...]]:
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EventError(
            "a row is no object of JSON",
            hint="rows that are no changes have none: leave them out, or let the source do it"
            " with onTruncate=ignore and onScript=ignore",
        )
    return (text or ""), (tuple(sorted(found)) if op else ())


def _op(kind: str | None) -> int:
    try:
        return _OPS[kind or ""]
    except KeyError:
        raise EventError(
            f"a row has _change_type {kind or 'NULL'}, which is no change of one row",
            detail=f"these are: {', '.join(_OPS)}",
            hint="do by hand what it says, and leave it out: .where(\"_change_type <> '…'\")",
        ) from None


def _place(places: dict[str, int], table: str | None) -> int:
    try:
        return places[table or ""]
    except KeyError:
        raise EventError(
            f"a row is of table {table or 'NULL'}, which is none of the sink's",
            detail=f"option tables has: {', '.join(places)}",
            hint="add it there, or leave such rows out with .where(…)",
        ) from None


__all__ = ["META", "ORDER", "RowShape", "chunks", "shape_of"]
