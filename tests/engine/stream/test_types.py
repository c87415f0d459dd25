"""Values of every type, read as typed columns: Spark gets the values that PostgreSQL has.

What executors run is called here without Spark; one slow test takes the same through Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.db import catalog
from londiste.engine.spark.stream import arrow_decode, reader, schema, snapshot
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import Options, parse
from londiste.engine.spark.stream.types import StreamShape, shape_of
from londiste.errors import EventError
from londiste.pgq import ticks
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream
from tests.fixtures.values import quoted, usable

#: Types of which some values have no place in Spark.
RISKY = {"numeric", "date", "timestamp", "timestamptz"}
CAPTURES = {
    "own": "select londiste.create_capture('q', 't')",
    "json": "create trigger log after insert or delete on t for each row"
    " execute function pgq.jsontriga('q')",
    "url": "create trigger log after insert or delete on t for each row"
    " execute function pgq.logutriga('q')",
}


class Values:
    """A table with a column of each type, and a row for each of its values.

    texts -- by id and column what PostgreSQL prints.
    """

    def __init__(self, stream: Stream, capture: str) -> None:
        self.stream = stream
        with psycopg.connect(stream.database.dsn, autocommit=True) as conn:
            self.types = usable(conn)
        columns = ", ".join(f"c{n} {name}" for n, name in enumerate(self.types))
        stream.database.execute(f"create table t (id int primary key, {columns})")
        stream.database.execute(CAPTURES[capture])
        literals = list(self.types.values())
        for row in range(max(map(len, literals))):
            values = [
                f"cast({quoted(one[row])} as {name})" if row < len(one) else "null"
                for name, one in self.types.items()
            ]
            stream.database.execute(f"insert into t values ({row}, {', '.join(values)})")
        self.last = stream.tick()
        shown = ", ".join(
            f"case when num_nulls(c{n}) = 0 then format('%s', c{n}) end"
            for n in range(len(literals))
        )
        with stream.database.connect() as conn:
            found = conn.execute(f"select id, {shown} from public.t".encode()).fetchall()
        self.texts = {row[0]: row[1:] for row in found}

    def options(self, **more: Any) -> Options:
        return parse({"dsn": self.stream.database.dsn, "queue": "q", "tables": "t", **more})

    def shape(self, options: Options) -> StreamShape:
        found = catalog.columns(self.stream.conn, options.table)
        return shape_of(found, strings=options.strings, policy=options.values)

    def changes(self, **more: Any) -> list[dict[str, Any]]:
        """The rows as an executor makes them of the events."""
        options = self.options(**more)
        shape = self.shape(options)
        result = schema.schema(options.payload, shape.columns)
        part = TickRange(tuple(ticks.between(self.stream.conn, "q", 1)))
        return _rows(reader.changes(options, part, shape, result))

    def rows(self, **more: Any) -> list[dict[str, Any]]:
        """The rows as an executor makes them of the table."""
        options = self.options(mode="snapshot", **more)
        shape = self.shape(options)
        result = schema.schema(options.payload, shape.columns)
        return _rows(snapshot.rows(options, snapshot.TablePart(), shape, result))

    def same(self, rows: list[dict[str, Any]]) -> None:
        """Every value is the one that PostgreSQL prints."""
        assert sorted(row["id"] for row in rows) == sorted(self.texts)
        for row in rows:
            for number, name in enumerate(self.types):
                text = self.texts[row["id"]][number]
                value = row[f"c{number}"]
                if text is None or value is None or isinstance(value, str):
                    assert value == text, (name, value, text)
                else:
                    assert self.printed(value, name) == text, (name, value)

    def printed(self, value: Any, name: str) -> str:
        """What PostgreSQL prints of a value that it gets."""
        if isinstance(value, Decimal):
            # Its zeros at the end are those of the column in Spark.
            value = str(value).rstrip("0").rstrip(".") if "." in str(value) else str(value)
        row = self.stream.conn.execute(
            f"select format('%%s', %s::{name})".encode(), [value]
        ).fetchone()
        assert row is not None
        return str(row[0])


def _rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    found = [row for batch in batches for row in batch.to_pylist()]
    # Nobody promises an order.
    return sorted(found, key=lambda row: (row["id"], row["_event_id"] or 0))


def _shown(rows: list[dict[str, Any]]) -> list[str]:
    return [repr({k: v for k, v in row.items() if not k.startswith("_")}) for row in rows]


@pytest.fixture
def make(new_database: Callable[..., Database], tmp_path: Path) -> Callable[[str], Values]:
    def made(capture: str) -> Values:
        return Values(Stream(None, new_database(pgq=True), tmp_path), capture)

    return made


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_value_is_there_as_postgresql_prints_it(
    make: Callable[[str], Values], capture: str
) -> None:
    values = make(capture)
    values.same(values.changes(unsupportedValues="string"))
    values.same(values.rows(unsupportedValues="string"))


def test_values_that_have_no_place_are_told_one_by_one(make: Callable[[str], Values]) -> None:
    values = make("own")
    asked = values.changes(unsupportedValues="null")
    # The rows of the table and of the events are the same; NaN is not equal to itself.
    assert _shown(asked) == _shown(values.rows(unsupportedValues="null"))
    by_id = {row["id"]: row for row in asked}
    risky = [n for n, name in enumerate(values.types) if name in RISKY]
    missing = 0
    for number, name in enumerate(values.types):
        for row, texts in values.texts.items():
            value, text = by_id[row][f"c{number}"], texts[number]
            if value is None and text is not None:
                assert number in risky, (name, text)
                missing += 1
            elif number in risky and text is not None:
                own = values.printed(value, name)
                assert own == text or (name == "numeric" and Decimal(own) == Decimal(text))
    # Infinities, NaN, years beyond 9999 and before 1, more digits than 38.
    assert missing >= 15
    others = ",".join(f"c{n}" for n in risky[1:])
    first = values.types["numeric"].index("1" + "0" * 300 + "." + "0" * 50 + "1")
    with pytest.raises(EventError) as failed:
        values.changes(stringColumns=others)
    error = failed.value
    assert f"column c{risky[0]} of table public.t" in error.message
    (event,) = {row["_event_id"] for row in asked if row["id"] == first}
    assert error.event_id == event and f"event {event}" in error.message


@pytest.mark.parametrize("policy", ["string", "null"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_many_events_at_a_time_are_what_they_are_one_by_one(
    make: Callable[[str], Values],
    monkeypatch: pytest.MonkeyPatch,
    capture: str,
    policy: str,
) -> None:
    values = make(capture)
    read: list[int] = []
    rows = arrow_decode.Parser._rows

    def counted(self: Any, events: Any, *others: Any) -> Any:
        made = rows(self, events, *others)
        read.append(made.num_rows)
        return made

    monkeypatch.setattr(arrow_decode.Parser, "_rows", counted)
    together = values.changes(unsupportedValues=policy)
    # A row of texts with control characters is another decoder's, as are all of url-encoded events.
    assert sum(read) >= (0 if capture == "url" else len(together) - 3)
    monkeypatch.setattr(arrow_decode, "_ENOUGH", 0)
    assert list(map(repr, together)) == list(map(repr, values.changes(unsupportedValues=policy)))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("capture", CAPTURES)
def test_spark_has_the_same_values(spark: Any, make: Callable[[str], Values], capture: str) -> None:
    values = make(capture)
    values.stream.spark = spark
    given = {"payload": None, "tables": "t", "unsupportedValues": "null"}
    for got, mode in (
        (values.changes(unsupportedValues="null"), "changes"),
        (values.rows(unsupportedValues="null"), "snapshot"),
    ):
        rows = values.stream.read(**given, mode=mode).orderBy("id").collect()
        for row, ours in zip(rows, sorted(got, key=lambda r: r["id"]), strict=True):
            for number, name in enumerate(values.types):
                there, here = row[f"c{number}"], ours[f"c{number}"]
                if name == "timestamptz" and here is not None:
                    there, here = there.timestamp(), here.timestamp()
                if name in ("float4", "float8") and here is not None:
                    there, here = repr(there), repr(here)
                if isinstance(there, bytearray):
                    there = bytes(there)
                assert there == here, (name, there, here)
