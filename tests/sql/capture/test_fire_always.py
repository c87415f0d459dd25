"""A capture that also fires for replicated rows stays one when it is recreated."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import writer
from tests.support.suite.slow import pairs

Session = psycopg.Connection[tuple[object, ...]]

TABLES = """
create table plain (id int4 primary key, v text, at timestamptz not null default now());
create table late (id int4 primary key deferrable);
create table parts (id int4 primary key) partition by range (id);
create table part partition of parts for values from (0) to (10);
"""
#: Whether all triggers that write events of rows, and of TRUNCATE, fire for replicated rows, too.
MODES = """
    select bool_and(tgenabled = 'A') filter (where tgtype & 32 = 0),
        bool_and(tgenabled = 'A') filter (where tgtype & 32 > 0)
    from pg_trigger
    where tgname ~ '^_londiste_q' and tgname <> '_londiste_q_no_partition' and tgrelid in (
        select 'T'::regclass union select relid from pg_partition_tree('T'))
"""


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(TABLES)
        yield conn


def modes(app: Session, table: str) -> tuple[object, ...] | None:
    return app.execute(MODES.replace("'T'", f"'{table}'")).fetchone()


@pytest.mark.parametrize(("table", "recreated"), pairs(["plain", "late", "parts"], [
    "select londiste.change_form('q', 'T', 'row')",
    "alter table T add extra int; select londiste.refresh_capture('q', 'T')",
    "alter table T add extra int; select londiste.refresh_captures()",
    "select londiste.create_trigger('q', 'T', '{tgflags=L}', 'T', 'root')",
    "select londiste.create_trigger('q', 'T', '{tgflags=L}', 'T', 'root');"
    " select londiste.create_trigger('q', 'T', '{tgflags=C}', 'T', 'root')",
]))  # fmt: skip
def test_a_capture_of_replicated_rows_stays_one_when_it_is_recreated(
    app: Session, table: str, recreated: str
) -> None:
    for kinds in (["truncate"], ["rows", "truncate"]):
        app.execute("select londiste.create_capture('q', %s)", [table])
        app.execute("select londiste.fire_always('q', %s, %s)", [table, kinds])
        before = modes(app, table)
        assert before == ("rows" in kinds, True)
        app.execute(re.sub(r"\bT\b", table, recreated))
        assert modes(app, table) == before
        app.execute(f"alter table {table} drop column if exists extra")
    # A leaf refuses what applications write, and nothing else.
    app.execute("select londiste.create_capture('q', %s, '{deny}')", [table])
    assert modes(app, table) == (False, False)


def test_a_partition_that_is_new_fires_as_its_table(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'parts')")
    app.execute("select londiste.fire_always('q', 'parts')")
    app.execute("create table next partition of parts for values from (10) to (20)")
    app.execute("select londiste._renew_captures()")
    assert app.execute(
        "select distinct tgenabled::text from pg_trigger where tgrelid = 'next'::regclass"
    ).fetchall() == [("A",)]
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute("select londiste.fire_always('q', 'plain')")
    app.execute("select londiste.create_partition('plain', 'plain_2', '', 'at', now(), 'month')")
    assert modes(app, "plain_2") == (True, True)
