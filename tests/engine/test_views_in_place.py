"""A view that takes the name of a table is not read: its functions would run as the reader."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from londiste.db.bulk_catalog import known
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.sessions.view_guard import reading, refuse_views
from londiste.engine.base import Engine
from londiste.errors import LondisteError, StateError
from londiste.replication.commands import existing_rows, fkeys
from londiste.tools.dispatch import first_copy
from tests.engine.conftest import Pair
from tests.fixtures.cluster import Database

TABLE = TableName("public", "t")
CREATE = """
    create table public.t (id int primary key, v text);
    insert into public.t values (1, 'a');
    create sequence public.calls;
    create function public.evil() returns text language sql as
        $$ select nextval('public.calls')::text $$;
"""
SWAP = """
    alter table public.t rename to kept;
    create view public.t as select id, public.evil() as v from public.kept
"""
QUIET = "select not is_called from public.calls"
SETTING = "restrict_nonsystem_relation_kind"


def copied(carrier: Engine, pair: Pair, **more: Any) -> object:
    """Reads a table that is a view by then, in a snapshot of each chunk."""
    spec = replace(pair.spec(TABLE), snapshot="", filenode=None, **more)
    pair.source.execute(SWAP)
    return list(carrier.copy(spec, 1))


@pytest.mark.parametrize(
    "read",
    [
        copied,
        lambda carrier, pair: copied(carrier, pair, where="id > 0"),
        lambda carrier, pair: (
            pair.source.execute(SWAP) or list(carrier.checksum([pair.compare("source", TABLE)], 1))
        ),
    ],
    ids=["copy", "copy with a condition", "compare"],
)
def test_a_view_in_the_place_of_a_table_is_not_read(
    local_engine: Engine, pair: Pair, read: Callable[[Engine, Pair], object]
) -> None:
    pair.source.execute(CREATE)
    pair.target.execute("create table public.t (id int primary key, v text)")
    with pytest.raises(LondisteError, match=r"public\.t is a view"):
        read(local_engine, pair)
    assert pair.source.value(QUIET)
    assert pair.target.value("select count(*) from public.t") == 0


def test_a_table_that_is_replaced_before_the_read_is_not_read(database: Database) -> None:
    database.execute(CREATE)
    with database.connect() as conn:
        if conn.execute("select current_setting(%s, true)", [SETTING]).fetchone() == (None,):
            pytest.skip("older minor release")
        with pytest.raises(psycopg.Error, match="is restricted"), conn.transaction():
            refuse_views(conn, TABLE)
            database.execute(SWAP)
            conn.execute("select * from public.t")
    assert database.value(QUIET)


def test_only_a_condition_may_read_views(database: Database) -> None:
    """And where it may, the table itself stays what it is."""
    database.execute(f"{CREATE}; create view public.seen as select 1 as id")
    where = "id in (select id from public.seen)"
    asked = f"select count(*) from public.t where {where}".encode()
    with database.connect() as conn, conn.transaction():
        with reading(conn, TABLE, conditions=["", where]):
            assert conn.execute(asked).fetchone() == (1,)
            with database.connect() as other:
                other.execute("set lock_timeout = '10ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute("alter table public.t rename to kept")
        # Behind it the session reads what it could.
        refuse_views(conn, TABLE)
        refuse_views(conn, TABLE, conditions=[where])
        assert conn.execute(asked).fetchone() == (1,)
    database.execute(SWAP)
    with database.connect() as conn:
        for conditions in ([], [where]):
            with pytest.raises(StateError, match=r"public\.t is a view"), conn.transaction():
                refuse_views(conn, TABLE, conditions=conditions)


def _first_copy(conn: Connection) -> object:
    read: Any = first_copy.SourceSnapshot(*[None] * 6)  # type: ignore[arg-type]
    table = first_copy.SourceTable(TABLE, False, ("id", "v"), ("id",))
    return list(replace(read, conn=conn).rows(table))


@pytest.mark.parametrize(
    "read",
    [
        lambda conn: existing_rows._rows(conn, known(conn, [TABLE])[TABLE], tree=False),
        lambda conn: fkeys._number(conn, "select * from public.t"),
        _first_copy,
    ],
    ids=["add-table", "fkeys", "dispatch"],
)
def test_rows_that_are_counted_or_copied_are_those_of_no_view(
    database: Database, read: Callable[[Connection], object]
) -> None:
    database.execute(f"{CREATE}; {SWAP} where public.evil() is not null")
    with database.connect() as conn, contextlib.suppress(LondisteError), conn.transaction():
        read(conn)
    assert database.value(QUIET)
