"""A dispatched TRUNCATE and the rows around it in one batch: the tables end as the source's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_dispatch_presets import QUEUE, Ends

INSERT = "insert into public.t select g, '2026-02-03 04:05+00', 'v' from generate_series({}, {}) g"
EMPTY = "truncate public.t"
#: No key comes twice: a row that has stayed is in nobody's way.
BATCHES = {
    "between": [INSERT.format(22, 29), EMPTY, INSERT.format(31, 35)],
    "twice": [EMPTY, INSERT.format(42, 49), EMPTY, INSERT.format(51, 53)],
    "many rows": [EMPTY, INSERT.format(101, 900), "delete from public.t where id = 107"],
    "last": [INSERT.format(62, 69), EMPTY],
}


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> Ends:
    queues.create_queue(pgq_db.connect(), QUEUE)
    ends = Ends(pgq_db, new_database(pgq=True))
    ends.table("t")
    ends.source.execute(
        "drop trigger captured on t;"
        f" select londiste.create_capture('{QUEUE}', 'public.t', array['form=row'])"
    )
    return ends


@pytest.mark.parametrize(
    ("engine", "handler"),
    [
        ("process", "daily_field"),
        pytest.param("process", "direct", marks=pytest.mark.slow),
        pytest.param("process", "bulk_direct", marks=pytest.mark.slow),
        # A job that takes a TRUNCATE between rows is in test_dispatch_presets.
        pytest.param("local", "direct", marks=pytest.mark.slow),
        pytest.param("local", "bulk_direct", marks=pytest.mark.slow),
        pytest.param("local", "daily_field", marks=pytest.mark.slow),
    ],
)
def test_rows_after_a_truncate_in_one_batch(engine: str, handler: str, ends: Ends) -> None:
    given: dict[str, Any] = {} if handler == "daily_field" else {"part_field": None}
    dispatcher = ends.dispatcher(
        engine=engine, handler=handler, parallel_apply_min_events=2, **given
    )
    # The table and its partition were there before the batch.
    ends.source.execute(INSERT.format(1, 1))
    ends.tick()
    dispatcher.run_once()
    for name, statements in BATCHES.items():
        _in_one(ends.source, statements)
        ends.tick()
        dispatcher.run_once()
        rows = "select id, v from public.t order by id"
        assert ends.target.execute(rows) == ends.source.execute(rows), name
    assert ends.ways() == (set() if engine == "process" else {"job"})


def _in_one(source: Database, statements: Sequence[str]) -> None:
    with source.connect(autocommit=True) as conn, conn.transaction():
        for statement in statements:
            conn.execute(statement.encode())
