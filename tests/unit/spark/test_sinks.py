"""Sinks: the decision about an arriving epoch, and valid options and rows."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
from pyspark.sql import types as t

from londiste.db.relation import RelationColumn
from londiste.engine.spark.sink import event_rows, text_format
from londiste.engine.spark.sink.options import parse_queue, parse_tables
from londiste.engine.spark.sink.stage import CHUNK_ROWS, Cutter, StagedRows
from londiste.engine.spark.sink.type_check import fits
from londiste.errors import BadOption, EventError, LondisteError, NodeBusy, StateError
from londiste.pgq.spark_epochs import Written, is_new

KNOWN = Written("a", 7, 100, "queue q")


@pytest.mark.parametrize("known", [Written(None, None, None, "queue q"), KNOWN])
def test_the_next_epoch_is_written_and_the_last_one_is_not_again(known: Written) -> None:
    assert is_new("s", known, "a", 8, 3, "queue q")
    assert is_new("s", KNOWN, "a", 9, 3, "queue q")
    assert not is_new("s", KNOWN, "a", 7, 100, "queue q")


@pytest.mark.parametrize(
    ("query", "epoch", "rows", "target", "kind", "text"),
    [
        ("b", 8, 3, "queue q", NodeBusy, "belongs to another query"),
        ("a", 6, 3, "queue q", StateError, "arrived after its epoch 7"),
        ("a", 7, 99, "queue q", StateError, "has 99 rows, but was written with 100"),
        ("a", 8, 3, "queue r", StateError, "writes to queue q, not to queue r"),
    ],
)
def test_what_cannot_be_its_next_epoch_stops(
    query: str, epoch: int, rows: int, target: str, kind: type[LondisteError], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        is_new("s", KNOWN, query, epoch, rows, target)
    assert caught.value.hint


GIVEN = {"service": "shop", "queue": "q"}


@pytest.mark.parametrize(
    ("more", "stream", "text"),
    [
        ({"keys": "id"}, True, "unknown option keys"),
        ({"writeId": "x"}, True, "writeId: not supported by df.writeStream"),
        ({"sinkId": "x"}, False, "sinkId: not supported by df.write"),
        ({"sinkId": " "}, True, "sinkId: ' ' is blank"),
        ({"onOtherRows": "skip"}, False, "onOtherRows: requires writeId"),
        ({"payload": "typed"}, True, "payload: invalid value 'typed'"),
        ({"queue": ""}, True, "option queue: required"),
        ({"dsn": "dbname=x"}, True, "service, dsn: exactly one"),
    ],
)
def test_a_wrong_option_is_named(more: dict[str, str], stream: bool, text: str) -> None:
    with pytest.raises(BadOption, match=text) as caught:
        parse_queue({**GIVEN, **more}, stream=stream)
    assert caught.value.hint


def test_spark_gives_a_sink_its_own_option() -> None:
    assert parse_queue({**GIVEN, "checkpointLocation": "/c"}, stream=True).queue == "q"


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("ev_type string", {}, "column ev_data: required"),
        ("ev_data int", {}, "column ev_data: not of type string"),
        ("ev_data string, id int", {}, "column id: not a field of an event"),
        ("ev_data string, id day", {"key": "id"}, "column id: type interval day"),
        ("ev_data string", {"key": "id"}, "column id: does not exist"),
        (
            "ev_data string, m map<string,int>",
            {"orderBy": "m"},
            "type of column m cannot be ordered",
        ),
        ("ev_data string", {"payload": "json"}, "not supported for rows with a column ev_data"),
        (
            "ev_type string, id int",
            {"payload": "json", "eventType": "x"},
            "eventType: not supported",
        ),
        ("i day", {"payload": "json"}, "column i: type interval day is not"),
    ],
)
def test_columns_that_are_not_those_of_events_are_refused(
    columns: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(BadOption, match=text) as caught:
        event_rows.shape_of(parse_queue({**GIVEN, **options}, stream=True), struct(columns))
    assert caught.value.hint


def test_a_row_is_the_data_as_json_or_url_encoded() -> None:
    schema = struct(
        "id long, name string, n decimal(9,2), extra map<string,array<int>>, ev_type string"
    )
    rows = [
        [1, 'k "i" & é', Decimal("1.50"), [("a", [1, None])], "new"],
        [2, None, None, None, None],
    ]
    assert lines(schema, rows, payload="json") == [
        {"t": "new", "d": '{"id":1,"name":"k \\"i\\" & é","n":1.50,"extra":{"a":[1,null]}}'},
        {"d": '{"id":2,"name":null,"n":null,"extra":null}'},
    ]
    encoded = lines(schema, rows, payload="urlencoded")
    assert [row["d"] for row in encoded] == [
        "id=1&name=k+%22i%22+%26+%C3%A9&n=1.50&extra=%7B%22a%22%3A%5B1%2Cnull%5D%7D",
        "id=2&name&n&extra",
    ]


def test_key_and_order_come_with_the_event_and_a_row_without_key_stops() -> None:
    schema = struct("ev_data string, k string, at timestamp")
    when = datetime(2026, 2, 3, 4, 5, 6, 7, UTC)
    options = {"key": "k", "orderBy": "at", "eventType": "x"}
    assert lines(schema, [["d", "k1", when]], **options) == [
        {"t": "x", "d": "d", "k": "k1", "o": "2026-02-03 04:05:06.000007+00:00"}
    ]
    with pytest.raises(EventError, match="key column k: row with NULL"):
        lines(schema, [["d", None, when]], **options)


@pytest.mark.parametrize(
    ("value", "plain", "document"),
    [
        (True, "true", "true"),
        (-5, "-5", "-5"),
        (0.1, "0.1", "0.1"),
        (float("nan"), "nan", '"nan"'),
        (float("-inf"), "-inf", '"-inf"'),
        (Decimal("1E+3"), "1000", "1000"),
        (date(2026, 1, 2), "2026-01-02", '"2026-01-02"'),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00", '"2026-01-02 03:04:00"'),
        (b"\x00\xff", "\\x00ff", '"\\\\x00ff"'),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}', '{"a":[1,"é"]}'),
    ],
)
def test_a_value_as_text_and_as_json(value: Any, plain: str, document: str) -> None:
    assert text_format.plain(value) == plain
    assert text_format.document(value) == document


def test_chunks_are_bounded_and_keep_the_order() -> None:
    cutter = Cutter()
    made: list[StagedRows] = []
    for number in range(2 * CHUNK_ROWS + 1):
        made += cutter.add(str(number))
    made += cutter.rest()
    assert [chunk.count for chunk in made] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert ",".join(chunk.rows for chunk in made).split(",") == [
        str(n) for n in range(2 * CHUNK_ROWS + 1)
    ]
    long = Cutter()
    assert [chunk.count for chunk in long.add("x" * (1 << 20))] == [1]


def struct(columns: str) -> Any:
    """Its DDL would need a session."""
    known = {
        "string": t.StringType(),
        "int": t.IntegerType(),
        "long": t.LongType(),
        "decimal(9,2)": t.DecimalType(9, 2),
        "timestamp": t.TimestampType(),
        "day": t.DayTimeIntervalType(0, 0),
        "map<string,int>": t.MapType(t.StringType(), t.IntegerType()),
        "map<string,array<int>>": t.MapType(t.StringType(), t.ArrayType(t.IntegerType())),
    }
    pairs = [one.split() for one in columns.split(", ")]
    return t.StructType([t.StructField(name, known[kind]) for name, kind in pairs])


def lines(schema: Any, rows: list[list[Any]], **options: str) -> list[dict[str, Any]]:
    """The rows of the only chunk."""
    from londiste.engine.spark.stream.schema import arrow

    fields = arrow(schema)
    arrays = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(fields)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=fields)
    parsed = parse_queue({**GIVEN, **options}, stream=True)
    (chunk,) = event_rows.chunks(parsed, schema, [batch])
    assert chunk.count == len(rows)
    found: list[dict[str, Any]] = json.loads(f"[{chunk.rows}]")
    return found


@pytest.mark.parametrize(
    ("kind", "type_name", "base", "good"),
    [
        (t.LongType(), "integer", None, True),
        (t.LongType(), "numeric(10,2)", None, True),
        (t.DecimalType(10, 2), "numeric(10,2)", None, True),
        (t.DecimalType(10, 3), "numeric(10,2)", None, False),
        (t.DecimalType(38, 0), "bigint", None, True),
        (t.DecimalType(10, 2), "bigint", None, False),
        (t.DoubleType(), "real", None, False),
        (t.FloatType(), "double precision", None, True),
        (t.TimestampType(), "timestamp(3) with time zone", None, False),
        (t.TimestampType(), "timestamp with time zone", None, True),
        (t.TimestampNTZType(), "timestamp with time zone", None, False),
        (t.IntegerType(), "s.number", "smallint", True),
        (t.IntegerType(), "text", None, False),
        (t.StringType(), "uuid", None, True),
        (t.ArrayType(t.StringType()), "text[]", None, True),
        (t.ArrayType(t.StringType()), "text", None, False),
        (t.MapType(t.StringType(), t.StringType()), "jsonb", None, True),
    ],
)
def test_a_type_fits_where_no_value_is_changed(
    kind: Any, type_name: str, base: str | None, good: bool
) -> None:
    assert fits(kind, RelationColumn("c", type_name, base_type=base)) is good


def test_tables_are_mapped_by_name() -> None:
    given = {"service": "mart", "payload": "json", "tables": "a, public.b=s.b, c=s.b"}
    options = parse_tables(given, stream=True)
    assert [str(table) for table in options.targets] == ["public.a", "s.b"]
    assert options.by_name == {"public.a": 0, "public.b": 1, "public.c": 1}
    with pytest.raises(BadOption, match=r"tables: public\.a is listed twice"):
        parse_tables({**given, "tables": "a, public.a=b"}, stream=True)
