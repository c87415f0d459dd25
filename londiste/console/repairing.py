"""Repair of one table from the console: compares it, and writes the rows that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from londiste import settings as settings_module
from londiste.compare import compare
from londiste.compare import repair as repairs
from londiste.compare.context import Asked
from londiste.compare.repair_plan import RepairChange
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, escaped
from londiste.errors import StateError
from londiste.settings import WorkerSettings

#: Rows that differ, at most; bytes of a table that a request may compare; seconds for the worker.
MOST_ROWS, MOST_BYTES = 1_000, 2_000_000_000
_WAIT_SECONDS = 30.0


def prepare(
    conn: Connection, dsn: str, queue: str, extra: str, table: str
) -> tuple[list[str], Callable[[], str]]:
    """The steps in words, without values, and what takes them.

    Raises StateError if a request cannot do it; the command can.
    """
    name = TableName.parse(table)
    size = _size(conn, name)
    if size > MOST_BYTES:
        raise StateError(
            f"table {name}: {size:,} bytes are too many to compare in a request",
            hint=f"londiste repair {argument(name)}",
        )
    found = settings_module.load(
        WorkerSettings,
        None,
        {"db": dsn, "queue_name": queue, "remote_extra_connstr": extra, "engine": "local"},
    )
    asked = Asked([escaped(name)], _WAIT_SECONDS, limit=MOST_ROWS)
    plan, spared = _planned(found, asked)
    if not plan:
        text = "; ".join(spared) or f"table {name} is equal, nothing to do"
        return [], lambda: text
    return [*in_words(str(name), plan), *spared], lambda: _run(found, asked, str(name), plan)


def in_words(table: str, plan: Sequence[RepairChange]) -> list[str]:
    """Pure: the steps of a plan, without values of rows."""
    numbers = Counter(change.verb for change in plan)
    return [
        *(f"table {table}: {verb} {numbers[verb]} rows" for verb in sorted(numbers)),
        "pause the worker at a new tick, and check these rows again on both sides",
        "write in one transaction; skip rows that have changed since",
        "compare the table again",
    ]


def _run(found: WorkerSettings, asked: Asked, table: str, plan: Sequence[RepairChange]) -> str:
    applied = repairs.apply(found, plan, timeout=_WAIT_SECONDS, say=lambda text: None)
    text = f"table {table}: wrote {applied.rows} rows at tick {applied.tick_id}"
    if applied.stale:
        text += f", skipped {len(applied.stale)} that have changed since"
    left = len(_planned(found, asked)[0])
    return f"{text}; {f'{left} rows differ still' if left else 'equal now'}"


def _planned(found: WorkerSettings, asked: Asked) -> tuple[list[RepairChange], list[str]]:
    """(the changes, rows that are left alone in words)."""
    compared = compare.compare_tables(found, asked, say=lambda text: None, done=lambda result: None)
    return repairs.planned(found, compared, asked), repairs.left_alone(compared, asked)


def _size(conn: Connection, name: TableName) -> int:
    rows = conn.execute(
        "select coalesce(pg_catalog.pg_table_size(pg_catalog.to_regclass(%s)), 0)", [name.quoted]
    ).fetchall()
    return int(rows[0][0])
