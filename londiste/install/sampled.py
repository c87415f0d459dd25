"""Sample events: compares events of triggers before and after a replacement of functions.

A copy of some rows of each captured table is written to, in a temporary table with a trigger of the
same arguments, once with the old and once with the new functions.  Everything is rolled back.

All of that runs with the rights of the installer.  So triggers are left out where it would run code
of a role without these rights.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import query

log = logging.getLogger(__name__)

#: Rows of each table that are tried.
_ROWS = 100

#: The events of a statement, or None where the trigger refused it.
Written = Sequence[tuple[Any, ...]] | None


class Trigger(NamedTuple):
    """A row trigger that calls one of the three trigger functions of pgq.

    before -- it fires before the change; args -- its arguments, the queue first.
    """

    table: str
    name: str
    function: str
    before: bool
    args: Sequence[str]


class Captured(NamedTuple):
    """A trigger, and what is known of its table; doubts -- why its code is not run, or ''.

    strangers -- a role without the rights of this one owns the table or may add triggers to it.
    """

    trigger: Trigger
    strangers: bool
    doubts: str


class Sample(NamedTuple):
    """A trigger, and a temporary table with sample rows."""

    trigger: Trigger
    rows: str


class _TakenBack(Exception):
    """Raised to roll back a transaction on purpose."""


def take_samples(conn: Connection) -> list[Sample]:
    """Keeps sample rows of each captured table until the transaction ends.

    An empty table gives one row without values.  A warning names the triggers that are left out.
    """
    _hold_tables(conn)
    samples = []
    for number, captured in enumerate(_captured(conn)):
        trigger = captured.trigger
        if reason := why_untried(captured):
            log.warning("trigger %s of %s is not tested: %s", trigger.name, trigger.table, reason)
            continue
        rows = f"sample_rows_{number}"
        table, names = sql.SQL(trigger.table), sql.Identifier("pg_temp", rows)
        conn.execute(
            sql.SQL("create temp table {} on commit drop as select * from {} limit {}").format(
                sql.Identifier(rows), table, sql.Literal(_ROWS)
            )
        )
        # A column that must have a value leaves the sample empty.
        with contextlib.suppress(psycopg.DatabaseError), conn.transaction():
            conn.execute(
                sql.SQL(
                    "insert into {} select (null::{}).* where not exists (select from {})"
                ).format(names, table, names)
            )
        samples.append(Sample(trigger, rows))
    return samples


def why_untried(captured: Captured) -> str:
    """Why a trigger is not tried: a role without our rights has code there; or ''."""
    if captured.doubts:
        return captured.doubts
    if captured.strangers and any(map(_is_expression, captured.trigger.args[1:])):
        return "its expressions are those of a role without the rights of this one"
    return ""


def _is_expression(argument: str) -> bool:
    name, equals, _ = argument.partition("=")
    return bool(equals) and name.strip().lower() not in {"ignore", "pkey"}


def _hold_tables(conn: Connection) -> None:
    """Keeps the captured tables as they are until the transaction ends; rows can be written.

    A superuser also keeps their schemas, whose owner could put others in their place.
    """
    holds = conn.execute("select current_setting('is_superuser') = 'on'").fetchone() == (True,)
    for table, schema in conn.execute(query("sample_tables")).fetchall():
        if holds:
            conn.execute(
                "select from pg_catalog.pg_namespace where oid = %s for key share", [schema]
            )
        conn.execute(sql.SQL("lock table {} in row exclusive mode").format(sql.SQL(table)))


def _captured(conn: Connection) -> list[Captured]:
    return [
        Captured(Trigger._make([*row[:4], tuple(row[4])]), *row[5:])
        for row in conn.execute(query("row_triggers")).fetchall()
    ]


def events(conn: Connection, samples: Sequence[Sample]) -> dict[Trigger, dict[str, Written]]:
    """The events that each trigger writes for its sample rows: of INSERT, UPDATE and DELETE."""
    found: dict[Trigger, dict[str, Written]] = {}
    for sample in samples:
        found[sample.trigger] = {}
        _taken_back(conn, functools.partial(_write, conn, sample, found[sample.trigger]))
    return found


def differences(
    before: Mapping[Trigger, Mapping[str, Written]], after: Mapping[Trigger, Mapping[str, Written]]
) -> list[str]:
    """Triggers that write different events than before, with the operations; no row values."""
    lines = []
    for trigger, were in before.items():
        other = [
            f"{operation} fails" if now is None else operation
            for operation, now in after[trigger].items()
            if now != were.get(operation)
        ]
        if other:
            lines.append(f"trigger {trigger.name} of {trigger.table}: {', '.join(other)}")
    return lines


def _write(conn: Connection, sample: Sample, found: dict[str, Written]) -> None:
    """Writes the rows to a table of the same structure, one statement per operation."""
    trigger, place = sample.trigger, sql.Identifier("pg_temp", "sample_table")
    conn.execute(
        sql.SQL("create temp table sample_table (like {} including generated)").format(
            sql.SQL(trigger.table)
        )
    )
    columns, key = [], []
    for name, generated, of_key in conn.execute(
        query("sample_columns"), {"table": trigger.table}
    ).fetchall():
        # The row of an empty table has no values.
        change = "alter table {} alter column {} drop not null"
        conn.execute(sql.SQL(change).format(place, sql.Identifier(name)))
        columns += [] if generated else [sql.Identifier(name)]
        key += [sql.Identifier(name)] if of_key else []
    if not columns:
        return
    names = sql.SQL(", ").join(columns)
    empty = sql.SQL("select from {} where num_nulls({}) > 0").format(
        sql.Identifier("pg_temp", sample.rows), sql.SQL(", ").join(key or columns)
    )
    if key and conn.execute(empty).fetchone() is None:
        change = "alter table {} add primary key ({})"
        conn.execute(sql.SQL(change).format(place, sql.SQL(", ").join(key)))
    copied = sql.SQL("insert into {} ({}) select {} from {}").format(
        place, names, names, sql.Identifier("pg_temp", sample.rows)
    )
    same = sql.SQL("update {} set {} = {}").format(place, columns[0], columns[0])
    gone = sql.SQL("delete from {}").format(place)

    def attempt(operation: str, statement: sql.Composed) -> None:
        if operation != "INSERT":
            conn.execute(copied)
        _attach(conn, trigger)
        mark = conn.execute(_LAST, [next(iter(trigger.args), None)]).fetchone()
        conn.execute(statement)
        written = sql.SQL(_WRITTEN).format(sql.SQL(mark[0] if mark else "pgq.event_template"))
        found[operation] = conn.execute(written, [mark[1] if mark else 0]).fetchall()

    for operation, statement in {"INSERT": copied, "UPDATE": same, "DELETE": gone}.items():
        found[operation] = None
        _taken_back(conn, functools.partial(attempt, operation, statement))


_LAST = (
    "select pgq.current_event_table(q.queue_name), pg_catalog.nextval(q.queue_event_seq)"
    " from pgq.queue as q where q.queue_name = %s"
)
_WRITTEN = (
    "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4 from {}"
    " where ev_id > %s and ev_txid = pg_catalog.txid_current() order by ev_id"
)


def _attach(conn: Connection, trigger: Trigger) -> None:
    conn.execute(
        sql.SQL(
            "create trigger {} {} insert or update or delete on {} for each row"
            " execute function pgq.{}({})"
        ).format(
            sql.Identifier(trigger.name),
            sql.SQL("before" if trigger.before else "after"),
            sql.Identifier("pg_temp", "sample_table"),
            sql.Identifier(trigger.function),
            sql.SQL(", ").join(map(sql.Literal, trigger.args)),
        )
    )
    # Expressions resolve in the path of the session, which is the one of other sessions here.
    conn.execute(
        "select pg_catalog.set_config('search_path', reset_val, true)"
        " from pg_catalog.pg_settings where name = 'search_path'"
    )


def _taken_back(conn: Connection, work: Callable[[], None]) -> None:
    """Runs statements and rolls them back, also after a server error."""
    try:
        with conn.transaction():
            work()
            raise _TakenBack
    except (_TakenBack, psycopg.DatabaseError):
        pass
