"""Decoding events in Arrow batches equals decoding them one by one, or falls back to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from londiste.db import catalog
from londiste.engine.spark.stream import event_csv, schema
from londiste.engine.spark.stream import rows as reading
from londiste.engine.spark.stream.change_rows import JsonRows
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import parse
from londiste.engine.spark.stream.typed_rows import TypedRows
from londiste.engine.spark.stream.types import shape_of
from londiste.errors import LondisteError
from londiste.pgq.types import Tick
from tests.support.suite.slow import first

TYPES = {
    "id": "integer",
    "v": "text",
    "n": "numeric",
    "p": "numeric(38,30)",
    "d": "date",
    "t": "timestamp with time zone",
    "l": "timestamp without time zone",
    "f": "double precision",
    "b": "boolean",
    "o": "oid",
    "x": "bytea",
}
ROW = (
    '{"id":7,"v":"a, \\"b\\":null \\\\ é","n":"1.50","p":"0.5","d":"2024-02-03",'
    '"t":"2024-02-03T04:05:06.7+00:00","l":"2024-02-03T04:05:06","f":"0.1","b":true,"o":"4711",'
    '"x":"\\\\x00ff"}'
)
INSERT = '{"op":"INSERT","table":["public","t"],"pkey":["id"]}'
UPDATE = INSERT.replace("INSERT", "UPDATE")
DELETE = INSERT.replace("INSERT", "DELETE")
PACK = INSERT[:-1] + ',"pack":true}'
TICKS = (
    Tick(1, datetime(2024, 1, 1, tzinfo=UTC), 0, "10:10:"),
    Tick(2, datetime(2024, 1, 2, tzinfo=UTC), 50, "20:20:"),
    Tick(3, datetime(2024, 1, 3, tzinfo=UTC), 99, "30:30:"),
)


def column(name: str, type: str) -> catalog.Column:
    return catalog.Column(name, type, False, None, "", "", True)


class Reader:
    """Reads events of a table with a column of each type."""

    def __init__(self, **options: Any) -> None:
        self.options = parse({"dsn": "dbname=x", "queue": "q", "tables": "t", **options})
        shape = shape_of([column(*one) for one in TYPES.items()], policy=self.options.values)
        self.result = schema.schema(self.options.payload, shape.columns)
        self.rows = TypedRows(self.options, TickRange(TICKS), shape)

    def together(self, *events: tuple[str, str]) -> tuple[list[str], int]:
        """The rows that are made of many at a time; the number of events that are left."""
        parser = self.rows.parser(self.result)
        made, others = parser.divide(event_csv.table(written(events)), self.rows._tick_of)
        return [] if made is None else list(map(repr, made.to_pylist())), others.num_rows

    def one_by_one(self, *events: tuple[str, str]) -> list[str]:
        batches = reading.batches(
            self.rows._one_by_one(event_csv.table(written(events))), self.result
        )
        return [repr(row) for batch in batches for row in batch.to_pylist()]


def written(events: Sequence[tuple[str, str]]) -> bytes:
    """As the server writes them."""
    lines = []
    for number, (type, data) in enumerate(events, 100):
        fields = (str(number), str(10 + number % 20), type, data, "public.t")
        lines.append("\t".join(f"\x01{f}\x01" if set(f) & set("\t\n\r") else f for f in fields))
    return "".join(line + "\n" for line in lines).encode()


def test_rows_of_all_kinds_packed_and_single() -> None:
    reader = Reader()
    events = [
        (INSERT, ROW),
        (PACK, "\n".join([ROW, ROW.replace('"id":7', '"id":8'), ROW.replace('"v":"a', '"v":"z')])),
        (UPDATE, ROW.replace('"1.50"', "null").replace("true", "null")),
        (DELETE, '{"id":7}'),
        (PACK, ROW),
    ]
    rows, left = reader.together(*events)
    assert left == 0 and len(rows) == 7
    assert rows == reader.one_by_one(*events)


@pytest.mark.parametrize(
    "bad",
    [
        (INSERT, '{"id":7}'),
        (UPDATE, ROW.replace('"b":true,', "")),
        (INSERT, ROW.replace('"b":true', '"b":null').replace('"f":"0.1",', "")),
        (INSERT, ROW.replace('"id"', '"new":"1","id"')),
        (INSERT, ROW.replace('"id":7', '"id":7,"id":8')),
        (INSERT, ROW.replace('"id":7,', "")),
        (DELETE, '{"v":"x"}'),
        (INSERT, ROW.replace("{", "{\n")),
        (INSERT, f"{ROW}\n{ROW}"),
        (PACK, f"{ROW}{ROW}"),
        (PACK, f"{ROW}\n\n{ROW}"),
        (PACK, f"{ROW}\n"),
        (INSERT, ROW.replace("é", "\\u0000")),
        (INSERT, ROW.replace('"id":7', '"id":7.0')),
        (INSERT, ROW.replace('"id":7', '"id":77777777777')),
        (INSERT, ROW.replace('"id":7', '"id":[7]')),
        (INSERT, f"[{ROW}]"),
        (INSERT, ""),
        ("R", ""),
        ("EXECUTE", "drop table t"),
        ("I:id", "id=7"),
    ],
)
def test_what_is_not_of_the_common_form_is_left(bad: tuple[str, str]) -> None:
    rows, left = Reader().together((INSERT, ROW), bad, (INSERT, ROW))
    assert left and len(rows) in (0, 2)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("n", "NaN"),
        ("n", "9" * 300),
        ("n", "1" + "0" * 30),
        ("n", "1" + "0" * 37),
        ("n", "0.0000000000000000001"),
        ("n", "0." + "0" * 40),
        ("p", "123456789"),
        ("p", "1" + "0" * 36),
        ("d", "infinity"),
        ("d", "0001-01-01 BC"),
        ("d", "0000-12-31"),
        ("d", "10000-01-01"),
        ("t", "-infinity"),
        ("t", "10000-01-01T00:00:00+00:00"),
        ("t", "9999-12-31T23:59:59-01:00"),
        ("t", "0001-01-01T00:00:00+01:00"),
        ("t", "1883-11-18T12:03:57-04:56:02"),
        ("t", "2024-02-03T04:05:06"),
        ("l", "2024-02-03T04:05:06+00:00"),
        ("f", "Infinity"),
        ("f", "-0"),
        ("f", "5e-324"),
        ("o", "0x1F"),
        ("o", "4294967295"),
        ("x", "\\\\x0"),
        ("x", ""),
    ],
)
@pytest.mark.parametrize("policy", ["fail", "null"])
def test_a_value_with_or_without_a_place_is_what_it_is_one_by_one(
    column: str, text: str, policy: str
) -> None:
    reader = Reader(unsupportedValues=policy)
    before = ROW.partition(f'"{column}":"')
    row = before[0] + before[1] + text + '"' + before[2].partition('"')[2]
    events = [(INSERT, ROW), (PACK, f"{ROW}\n{row}")]
    assert _outcome(reader.together, events) == _outcome(reader.one_by_one, events)


def _outcome(read: Any, events: Sequence[tuple[str, str]]) -> Any:
    try:
        found = read(*events)
    except LondisteError as error:
        return error.message, error.detail, error.hint
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("rounds", first([500, 1500]))
def test_no_text_is_taken_that_would_be_refused_one_by_one(rounds: int) -> None:
    """Broken texts: beside each other they could make up for each other."""
    chance = random.Random(0)
    reader = Reader(missingColumns="null", newColumns="ignore")
    pieces = [*'{}[]",:\\\n\t 0-e.', '{"id":1}', "null", "true", '"id":2,', "}\n{", "},{", '":"']
    taken = 0
    for _ in range(rounds):
        events = []
        for _ in range(chance.randint(1, 3)):
            text = chance.choice([ROW, '{"id":1,"v":"x"}', '{"id":1}', f'{ROW}\n{{"id":3}}'])
            for _ in range(chance.randint(0, 2)):
                place = chance.randint(0, len(text))
                text = text[:place] + chance.choice(pieces) + text[place + chance.randint(0, 2) :]
            events.append((chance.choice([INSERT, DELETE, PACK]), text))
        try:
            rows, left = reader.together(*events)
        except LondisteError:
            # Of a value: one by one has it, too, or another one before it.
            with pytest.raises(LondisteError):
                reader.one_by_one(*events)
            continue
        if not left:
            taken += 1
            assert rows == reader.one_by_one(*events), events
    assert taken > rounds // 15


def test_rows_as_json_are_the_same_one_by_one() -> None:
    options = parse({"dsn": "dbname=x", "queue": "q", "tables": "t", "payload": "json"})
    result = schema.schema(options.payload)
    rows = JsonRows(options, TickRange(TICKS))
    two = INSERT.replace('["id"]', '["v","id"]')
    for bad, left in (
        (None, 0),
        ((INSERT, '{"id":7'), 5),
        ((INSERT, '{"v":7}'), 5),
        ((INSERT, ROW.replace("é", "\\u00e9")), 1),
        (("I:id", "id=1&v=x"), 1),
    ):
        events = [
            (INSERT, ROW),
            (PACK, ROW + "\n" + ROW.replace('"id":7', '"id":8')),
            (two.replace("INSERT", "UPDATE"), ROW),
            (DELETE, '{"id":7}'),
            *([bad] if bad else []),
        ]
        found = event_csv.table(written(events))
        made, others = rows.parser(result).divide(found, rows._tick_of)
        assert others.num_rows == left
        if left < 5:
            mine = [] if made is None else list(map(repr, made.to_pylist()))
            slow = reading.batches(rows._one_by_one(others), result)
            mine += [repr(row) for batch in slow for row in batch.to_pylist()]
            whole = reading.batches(rows._one_by_one(found), result)
            assert mine == [repr(row) for batch in whole for row in batch.to_pylist()]
            assert len(mine) == (6 if left else 5)
