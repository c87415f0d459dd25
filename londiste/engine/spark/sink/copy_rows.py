"""Typed rows as text for COPY: record batches become lines, column by column.

Runs in executors.  A line has the effect of the row, the columns that determine the last change,
and those of the table: ``o, v, e, w, …``; with mode append only those of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from londiste.db.relation import Relation
from londiste.engine.spark.sink import text_format
from londiste.engine.spark.sink.stage import CHUNK_CHARACTERS, CHUNK_ROWS, StagedRows

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns in front of those of the table, except the first.
ORDER_LETTERS = "vew"


class Lines:
    """Makes lines of the rows of a task.

    columns -- names and places of the columns of the table; order -- of those in ``ORDER_LETTERS``.
    kind -- place of _change_type; effects -- what it means, None for mode append.
    """

    def __init__(
        self,
        schema: Any,
        table: Relation,
        columns: Sequence[tuple[str, int]],
        order: Sequence[tuple[str, int]],
        kind: int | None,
        effects: Any,
    ) -> None:
        self._makers = [
            (at, _maker(schema.fields[at].dataType, table, name)) for name, at in columns
        ]
        self._order = dict(order)
        self._kind = kind
        self._effects = effects

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[StagedRows]:
        """The rows in chunks of bounded size."""
        number = 0
        for batch in batches:
            for begin in range(0, batch.num_rows, CHUNK_ROWS):
                whole = self._lines(batch.slice(begin, CHUNK_ROWS))
                for text, count in _cut(whole):
                    yield StagedRows(number, count, text)
                    number += 1

    def _lines(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        found = []
        if self._effects is not None:
            if self._kind is None:
                found.append(pa.repeat(pa.scalar(1, pa.int8()), batch.num_rows))
            else:
                coded = pc.cast(batch.column(self._kind), pa.string()).dictionary_encode("encode")
                effects = [self._effects(word) for word in coded.dictionary.to_pylist()]
                found.append(pa.array(effects, pa.int8()).take(coded.indices))
            for letter in ORDER_LETTERS:
                at = self._order.get(letter)
                found.append(pa.nulls(batch.num_rows) if at is None else batch.column(at))
        found += [make(batch.column(at)) for at, make in self._makers]
        lines: pa.Array = pc.binary_join_element_wise(
            *(pc.cast(one, pa.string()) for one in found),
            "\t",
            null_handling="replace",
            null_replacement="\\N",
        )
        return lines


def _cut(lines: pa.Array) -> Iterator[tuple[str, int]]:
    """Lines, in texts of bounded length."""
    if lines.nbytes > 2 * CHUNK_CHARACTERS and len(lines) > 1:
        half = len(lines) // 2
        yield from _cut(lines.slice(0, half))
        yield from _cut(lines.slice(half))
    else:
        yield "".join([f"{line}\n" for line in lines.to_pylist()]), len(lines)


#: In this order: a backslash is in all others.
_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as COPY reads them."""
    import pyarrow.compute as pc

    for character, escape in _ESCAPES:
        texts = pc.replace_substring(texts, character, escape)
    return texts


def _maker(kind: Any, table: Relation, name: str) -> Any:
    """What makes a column of Arrow one whose text is a field of COPY."""
    import pyarrow as pa
    import pyarrow.compute as pc

    word = text_format.kind_of(kind)
    if word in ("boolean", "whole"):
        return lambda array: array
    if word in ("float", "double"):
        # The digits of a float are those of the double that it is.
        return lambda array: array.cast(pa.float64())
    if word == "timestamp":
        return lambda array: array.cast(pa.timestamp("us", "UTC"))
    if word == "string":
        return lambda array: _escaped(pc.cast(array, pa.string()))
    if word in ("decimal", "date", "timestamp_ntz", "null"):
        return lambda array: array
    nested = text_format.nested(kind) or (lambda value: value)
    column = table.by_name[name]
    whole = (column.base_type or column.type_name).endswith("[]")
    text = _array if word == "array" and whole else text_format.plain

    def each(array: pa.Array) -> pa.Array:
        values = [None if value is None else text(nested(value)) for value in array.to_pylist()]
        return _escaped(pa.array(values, pa.string()))

    return each


def _array(value: Any) -> str:
    """PostgreSQL's text of an array."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(_array, value)) + "}"
    text = text_format.plain(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
