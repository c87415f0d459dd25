"""Which values of Spark a column of a table takes as they are."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types as t

from londiste.db.relation import RelationColumn
from londiste.engine.spark.sink.type_check import fits

INTS, CENTS = t.ArrayType(t.IntegerType()), t.DecimalType(10, 2)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (INTS, "integer[]"),
        (INTS, "bigint[]"),
        (INTS, "jsonb"),
        (t.ArrayType(INTS), "integer[]"),
        (t.ArrayType(CENTS), "numeric(8,2)[]"),
        (t.ArrayType(t.DoubleType()), "double precision[]"),
        (t.ArrayType(t.TimestampType()), "timestamp with time zone[]"),
        (t.ArrayType(t.StringType()), "date[]"),
        (t.LongType(), "numeric"),
    ],
)
def test_what_is_stored_unchanged_fits(kind: Any, column: str) -> None:
    assert fits(kind, RelationColumn("c", column))


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (t.ArrayType(t.DecimalType(10, 3)), "numeric(6,2)[]"),
        (t.ArrayType(t.ArrayType(t.DecimalType(10, 3))), "numeric(6,2)[]"),
        (t.ArrayType(t.DoubleType()), "numeric(6,2)[]"),
        (t.ArrayType(t.DoubleType()), "real[]"),
        (t.ArrayType(t.TimestampType()), "date[]"),
        (t.ArrayType(t.TimestampType()), "timestamp without time zone[]"),
        (t.ArrayType(t.TimestampType()), "timestamp(3) with time zone[]"),
        (INTS, "integer"),
        (INTS, "text"),
        (t.LongType(), "oid"),
    ],
)
def test_what_would_be_rounded_cut_or_wrapped_does_not(kind: Any, column: str) -> None:
    assert not fits(kind, RelationColumn("c", column))


def test_a_domain_is_judged_as_its_type() -> None:
    column = RelationColumn("c", "prices", base_type="numeric(6,2)[]")
    assert fits(t.ArrayType(CENTS), column)
    assert not fits(t.ArrayType(t.DecimalType(10, 3)), column)
