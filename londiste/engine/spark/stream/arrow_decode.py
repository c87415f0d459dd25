"""Arrow decoding of events: COPY output to columns, many events at a time.

Decoding events one by one takes four times the CPU that the server needs for them.
Events of the common form, rows as JSON (of the native capture, packed or not, and of jsontriga),
are parsed by Arrow instead, all lines of a block at once, and their texts cast column by column.

Other events are not decoded here: ``rows`` reports them, and the caller decodes them one by one,
with an error message if that fails.  Text that Arrow would accept where the serial decoder rejects
it, or would convert to another value (digits beyond its decimals, years beyond 9999, hexadecimal
numbers), is not passed to Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from londiste.changes import jsonrow
from londiste.changes.types import Malformed, Op
from londiste.db.names import TableName
from londiste.engine.spark.stream.offsets import TickOf
from londiste.engine.spark.stream.options import CHANGE_NAMES, GapPolicy
from londiste.engine.spark.stream.types import StreamColumn, StreamShape
from londiste.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

#: Names of columns that JSON does not escape.
_PLAIN = re.compile(r"[^\"\\\x00-\x1f]+")

#: Characters of a number up to which Arrow's decimals cannot overflow while it reads them.
_DIGITS = 38

#: The years 1 to 9999, since 1970.
_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)


#: Consecutive blocks without the common form, after which it is not tried again.
_ENOUGH = 3


class OtherForm(Exception):
    """These events have to be decoded one by one."""


@dataclass(frozen=True)
class DecodeKind:
    """A parsed type of events, and its table."""

    op: Op
    table: TableName
    key: tuple[str, ...]
    pack: bool


def kind(type: str | None, extra1: str | None) -> DecodeKind | None:
    """What the events of this type and this table are; None: they are not of the common form."""
    if type is None or not type.startswith("{") or len(type) > jsonrow.MAX_TYPE_LENGTH:
        return None
    try:
        what = jsonrow.header(type)
        table = TableName.parse(what.table if extra1 is None else extra1)
    except (Malformed, BadOption):
        return None
    return None if what.op is None else DecodeKind(what.op, table, what.key, what.pack)


#: Makes the values of a column of its texts one by one: number of the column, texts, events, rows.
OneByOne = Callable[[int, "pa.Array", "pa.Array", "pa.Array"], Sequence[Any]]


class Divider:
    """Divides events into those of the common form, whose rows it makes, and all others."""

    def __init__(self, fields: pa.Schema, wanted: Callable[[TableName], bool]) -> None:
        """fields -- of the result; wanted -- whether a table is read."""
        self._fields = fields
        self._wanted = wanted
        self._others = 0
        self._usable = True

    def divide(
        self, events: pa.RecordBatch, tick_of: TickOf
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """The rows of events of the common form, and the events to decode one by one.

        Events of the common form that belong to other tables are in neither.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self._usable or self._others >= _ENOUGH:
            return None, events
        type, extra1 = events["type"], events["extra1"]
        types, tables = type.dictionary.to_pylist(), extra1.dictionary.to_pylist()
        # One number for each pair; NULL has the last place.
        width = len(tables) + 1
        pair = pc.add(
            pc.multiply(pc.fill_null(type.indices, len(types)), width),
            pc.fill_null(extra1.indices, len(tables)),
        )
        coded = pair.dictionary_encode()
        kinds: list[DecodeKind] = []
        numbers: list[int | None] = []
        for one in coded.dictionary.to_pylist():
            first, second = divmod(one, width)
            found = kind([*types, None][first], [*tables, None][second])
            numbers.append(None if found is None else len(kinds))
            if found is not None:
                kinds.append(found)
        number = pa.array(numbers, pa.int32()).take(coded.indices)
        # Escapes of characters that a text may not have are for the other decoder.
        plain = pc.invert(pc.fill_null(pc.match_substring(events["data"], "\\u"), True))
        common = pc.and_(pc.is_valid(number), plain)
        others = events.filter(pc.invert(common))
        wanted = [n for n, one in enumerate(kinds) if self._wanted(one.table)]
        if len(wanted) < len(kinds):
            common = pc.and_(common, pc.is_in(number, pa.array(wanted, pa.int32())))
        chosen = others.num_rows or len(wanted) < len(kinds)
        mine = events.filter(common) if chosen else events
        if not mine.num_rows:
            return None, others
        try:
            made = self._rows(mine, number.filter(common) if chosen else number, kinds, tick_of)
        except OtherForm:
            self._others += 1
            return None, events
        self._others = 0
        return made, others

    def _rows(
        self, events: pa.RecordBatch, number: pa.Array, kinds: Sequence[DecodeKind], tick_of: TickOf
    ) -> pa.RecordBatch:
        """The rows of events of these kinds.  Raises OtherForm when one is not as it should be."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ids, txids, texts = events["id"], events["txid"], events["data"]
        more = (
            [events["time"].cast(pa.timestamp("us", "UTC"))]
            if "time" in events.schema.names
            else []
        )
        ticks, of = _ticks(txids, tick_of)
        row = pa.repeat(pa.scalar(0, pa.int32()), len(ids))
        packs = [n for n, one in enumerate(kinds) if one.pack]
        if packs:
            lists = pc.split_pattern(texts, "\n")
            packed = pc.is_in(number, pa.array(packs, pa.int32()))
            if pc.any(
                pc.greater(pc.list_value_length(lists), pc.if_else(packed, 1 << 30, 1))
            ).as_py():
                raise OtherForm
            texts, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
            place = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), len(texts)))
            begin = lists.offsets.slice(0, len(lists)).take(parents)
            row = pc.if_else(packed.take(parents), pc.subtract(place, begin), 0)
            ids, txids, number, of = (one.take(parents) for one in (ids, txids, number, of))
            more = [one.take(parents) for one in more]
        elif pc.any(pc.match_substring(texts, "\n")).as_py():
            raise OtherForm
        names = pa.array([_NAMES[one.op] for one in kinds], pa.string())
        tables = pa.array([str(one.table) for one in kinds], pa.string())
        versions = pa.array([tick.id for tick in ticks], pa.int64())
        times = pa.array(
            [tick.time for tick in ticks], self._fields.field("_commit_timestamp").type
        )
        meta = [
            names.take(number),
            versions.take(of),
            times.take(of),
            ids,
            row.cast(pa.int32()),
            txids,
            tables.take(number),
            *more,
        ]
        arrays = self._arrays(texts, number, kinds, meta)
        return pa.RecordBatch.from_arrays(arrays, schema=self._fields)

    def _arrays(
        self,
        texts: pa.Array,
        number: pa.Array,
        kinds: Sequence[DecodeKind],
        meta: Sequence[pa.Array],
    ) -> list[pa.Array]:
        """The columns of the result; texts -- one object a row; number -- its place in ``kinds``.

        Raises OtherForm.
        """
        raise NotImplementedError


class JsonLines(Divider):
    """Makes rows of payload json: the text of each row, and its key, decoded once a type."""

    def _arrays(
        self,
        texts: pa.Array,
        number: pa.Array,
        kinds: Sequence[DecodeKind],
        meta: Sequence[pa.Array],
    ) -> list[pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        _parsed(texts, pa.schema([]), "ignore")
        for n, one in enumerate(kinds):
            for key in one.key:
                if not _PLAIN.fullmatch(key):
                    raise OtherForm
                there = pc.match_substring(texts, f'"{key}":')
                other = pc.not_equal(number, pa.scalar(n, pa.int32()))
                if not pc.all(pc.or_(there, other)).as_py():
                    raise OtherForm
        keys = pa.array([list(one.key) for one in kinds], self._fields.field("_key").type)
        return [*meta, keys.take(number), texts]


class Parser(Divider):
    """Makes typed rows: values of columns."""

    def __init__(
        self,
        shape: StreamShape,
        fields: pa.Schema,
        one_by_one: OneByOne,
        *,
        wanted: Callable[[TableName], bool],
        new_columns: GapPolicy,
        missing_columns: GapPolicy,
    ) -> None:
        """fields -- of the result; wanted -- whether a table is read."""
        import pyarrow as pa

        super().__init__(fields, wanted)
        self._columns = shape.columns
        self._one_by_one = one_by_one
        self._complete = missing_columns is GapPolicy.FAIL
        self._usable = bool(shape.columns) and all(_PLAIN.fullmatch(c.name) for c in shape.columns)
        self._parse = pa.schema([(c.name, _in_json(c)) for c in shape.columns])
        self._unexpected = "error" if new_columns is GapPolicy.FAIL else "ignore"

    def _arrays(
        self,
        texts: pa.Array,
        number: pa.Array,
        kinds: Sequence[DecodeKind],
        meta: Sequence[pa.Array],
    ) -> list[pa.Array]:
        values = self._read(texts)
        self._check(values, texts, number, kinds)
        ids, row = meta[_ID], meta[_ROW]
        columns = [
            self._cast(n, column, values[n], ids, row) for n, column in enumerate(self._columns)
        ]
        return [*columns, *meta]

    def _read(self, texts: pa.Array) -> list[pa.Array]:
        """The columns of the lines, each one object; strings are strings yet."""
        found = _parsed(texts, self._parse, self._unexpected)
        if found.num_rows != len(texts) or found.num_columns != len(self._columns):
            raise OtherForm
        return [found[column.name].combine_chunks() for column in self._columns]

    def _check(
        self,
        values: Sequence[pa.Array],
        texts: pa.Array,
        number: pa.Array,
        kinds: Sequence[DecodeKind],
    ) -> None:
        """Raises OtherForm when a line does not have the key, or a column that it has to have.

        Arrow does not tell a column that is not there from NULL; but the text of a line does.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [column.name for column in self._columns]
        for n, one in enumerate(kinds):
            for key in one.key:
                if key not in names:
                    raise OtherForm
                absent = values[names.index(key)]
                if (
                    absent.null_count
                    and pc.any(
                        pc.and_(pc.is_null(absent), pc.equal(number, pa.scalar(n, pa.int32())))
                    ).as_py()
                ):
                    raise OtherForm
        if not self._complete:
            return
        whole = [n for n, one in enumerate(kinds) if one.op is not Op.DELETE]
        changed = pc.is_in(number, pa.array(whole, pa.int32()))
        rows = None
        for name, array in zip(names, values, strict=True):
            if not array.null_count:
                continue
            nulls = pc.sum(pc.and_(pc.is_null(array), changed)).as_py() or 0
            if not nulls:
                continue
            if rows is None:
                rows = texts.filter(changed)
            # A quotation mark inside of a value has a backslash in front of it.
            if pc.sum(pc.count_substring(rows, f'"{name}":null')).as_py() != nulls:
                raise OtherForm

    def _cast(
        self, number: int, column: StreamColumn, array: pa.Array, ids: pa.Array, row: pa.Array
    ) -> pa.Array:
        """The values of a column: numbers and truth values as JSON has them, all else of texts."""
        import pyarrow as pa

        to = self._fields[number].type
        if column.kind == "string" and not column.is_time:
            return array
        if column.type in _JSON_OWN and column.kind != "string":
            return array
        found = fitting(column, array, to)
        if found is None:
            found = pa.array(self._one_by_one(number, array, ids, row), to)
        return found


def _parsed(texts: pa.Array, columns: pa.Schema, unexpected: str) -> pa.Table:
    """The columns of lines, each one object.  Raises OtherForm for lines that are not JSON."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    # So no object can begin on one line and end on another.
    whole = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if not pc.all(whole).as_py():
        raise OtherForm
    joined = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n"
    )
    data = joined[0].as_buffer()
    try:
        return json.read_json(
            pa.BufferReader(data),
            read_options=json.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=json.ParseOptions(
                explicit_schema=columns, unexpected_field_behavior=unexpected
            ),
        )
    except (pa.ArrowException, ValueError):
        raise OtherForm from None


#: Places of the id of the event and of the row in it among the columns of a change.
_ID, _ROW = CHANGE_NAMES.index("_event_id"), CHANGE_NAMES.index("_row")

_NAMES = {Op.INSERT: "insert", Op.UPDATE: "update_postimage", Op.DELETE: "delete"}

#: Types whose values are numbers or truth values in JSON; all others are texts there.
_JSON_OWN = {"boolean": "bool", "smallint": "int16", "integer": "int32", "bigint": "int64"}


def _in_json(column: StreamColumn) -> pa.DataType:
    import pyarrow as pa

    own = _JSON_OWN.get(column.type)
    return pa.string() if own is None or column.kind == "string" else pa.type_for_alias(own)


def fitting(column: StreamColumn, texts: pa.Array, to: Any) -> pa.Array | None:
    """The values of texts; None when one of them has no place there, or Arrow may not see that."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if column.kind in ("float", "double"):
            return pc.cast(texts, to)
        if column.kind == "decimal":
            longest = pc.max(pc.binary_length(texts)).as_py() or 0
            if longest > _DIGITS or pc.any(pc.match_substring_regex(texts, "[^-.0-9]")).as_py():
                return None
            # Rescaling overflows in 128 bits and says nothing.
            return pc.cast(pc.cast(texts, pa.decimal256(76, to.scale)), to)
        if column.kind == "date":
            return _between(pc.cast(texts, to), pa.int32(), _DAYS)
        if column.kind in ("timestamp", "timestamp_ntz"):
            return _between(pc.cast(texts, to), pa.int64(), _MICROSECONDS)
    except pa.ArrowException:
        pass
    return None


def _between(found: pa.Array, number: pa.DataType, bounds: tuple[int, int]) -> pa.Array | None:
    """The values, when all are in the years 1 to 9999."""
    import pyarrow.compute as pc

    ends = pc.min_max(found.cast(number))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return found if low is None or bounds[0] <= low <= high <= bounds[1] else None


def _ticks(txids: pa.Array, tick_of: TickOf) -> tuple[list[Any], pa.Array]:
    """The ticks of transactions, and for each the place of its tick among them."""
    coded = txids.dictionary_encode()
    return [tick_of(txid) for txid in coded.dictionary.to_pylist()], coded.indices
