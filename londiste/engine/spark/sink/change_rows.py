"""Columns of change rows: those of the row, and those that describe the change.

Runs in executors; the driver merges the result with ``merge.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from londiste.db.relation import Relation
from londiste.engine.spark.sink import text_format
from londiste.engine.spark.sink.copy_rows import Lines
from londiste.engine.spark.sink.options import Mode, Payload, TableOptions
from londiste.engine.spark.sink.stage import Cutter, StagedRows, column_lists
from londiste.engine.spark.stream.options import CHANGE_NAMES
from londiste.errors import BadOption, EventError

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of a change feed that describe the change; they are not columns of the table.
META = (*CHANGE_NAMES, "_key")
#: Which change of a key is the last: name, and letter in a chunk.
ORDER = (("_commit_version", "v"), ("_event_id", "e"), ("_row", "w"))

#: 1: the row is so now; 0: there is no row of that key.
_OPS = {"insert": 1, "update_postimage": 1, "update_preimage": 0, "delete": 0}


@dataclass(frozen=True)
class RowShape:
    """Roles of the columns of a row.

    columns -- columns of the table, with their indexes; empty when the row is JSON text.
    document -- index of the JSON text.
    kind, table -- indexes of _change_type and _table; None: no such column.
    order -- letters and indexes of the columns that determine the last change.
    """

    columns: tuple[tuple[str, int], ...]
    document: int | None
    kind: int | None
    table: int | None
    order: tuple[tuple[str, int], ...]


def shape_of(options: TableOptions, schema: Any) -> RowShape:
    """Raises BadOption for columns that the options do not allow."""
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
            raise BadOption(f"column {name}: not an integer", hint=f"cast {name} to bigint")
    if options.payload is Payload.JSON:
        if "row" not in names or kinds["row"] != "string":
            raise BadOption(
                "payload=json: requires a column row of type string",
                hint="use payload=json in the source too, or select to_json(struct(*)) as row",
            )
        unknown = [name for name in inside if name != "row"]
        if unknown:
            raise BadOption(
                f"column {unknown[0]}: not supported with payload=json",
                hint=f"remove it: .drop('{unknown[0]}')",
            )
        named = options.tables[0][0] != ""
        if named and "_table" not in names:
            raise BadOption(
                "tables: requires a column _table",
                hint="add it, or use .option('table', …) for one table",
            )
        if not named and "_table" in names:
            raise BadOption(
                "table: not supported for rows with a column _table",
                detail="rows of all source tables would be written into one table",
                hint="use .option('tables', 'public.orders=shop.orders'), or .drop('_table')",
            )
        if append and "_change_type" in names:
            raise BadOption(
                "mode=append: cannot apply _change_type (deletes)",
                hint="use mode=merge, or .drop('_change_type')",
            )
    elif not inside:
        raise BadOption(
            "no column to write into the table",
            detail=f"columns: {', '.join(names)}",
            hint="select at least one column of the table",
        )

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
    options: TableOptions,
    schema: Any,
    tables: Sequence[Relation],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[StagedRows]:
    """The rows of a task.  Raises EventError for a row that is not a change of the tables."""
    shape = shape_of(options, schema)
    if shape.document is None:
        effects = None if options.mode is Mode.APPEND else _op
        lines = Lines(schema, tables[0], shape.columns, shape.order, shape.kind, effects)
        yield from lines.chunks(batches)
        return
    makers = [text_format.nested(field.dataType) for field in schema.fields]
    places = options.by_name
    cutter = Cutter()
    for batch in batches:
        for row in zip(*column_lists(batch, makers), strict=True):
            op = 1 if shape.kind is None else _op(row[shape.kind])
            table = 0 if shape.table is None else _place(places, row[shape.table])
            text, columns = _document(row[shape.document], op)
            order = "".join(
                f'"{letter}":{row[place]},'
                for letter, place in shape.order
                if row[place] is not None
            )
            yield from cutter.add(f'{{"o":{op},{order}"i":{text}}}', table, columns)
    yield from cutter.rest()


def _document(text: str | None, op: int) -> tuple[str, tuple[str, ...]]:
    try:
        found = json.loads(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EventError(
            "column row: value is not a JSON object",
            detail="rows for TRUNCATE and for scripts have none",
            hint="exclude such rows with .where(…), or in the source with onTruncate=ignore and"
            " onScript=ignore",
        )
    return (text or ""), (tuple(sorted(found)) if op else ())


def _op(kind: str | None) -> int:
    try:
        return _OPS[kind or ""]
    except KeyError:
        raise EventError(
            f"_change_type {kind or 'NULL'}: not a change of one row",
            detail=f"supported: {', '.join(_OPS)}",
            hint="apply the change manually and exclude the row: .where(\"_change_type <> '…'\")",
        ) from None


def _place(places: dict[str, int], table: str | None) -> int:
    try:
        return places[table or ""]
    except KeyError:
        raise EventError(
            f"_table {table or 'NULL'}: not in option tables",
            detail=f"option tables contains: {', '.join(places)}",
            hint="add it to option tables, or exclude such rows with .where(…)",
        ) from None
