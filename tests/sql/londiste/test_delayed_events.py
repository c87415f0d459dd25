"""Delayed events that name a table are refused with it: subscribers could not apply them."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root, ret

ADD = "londiste.local_add_table"
LATER = "select pgq.insert_event_at('q', now() + interval '1 hour', %s, 'x', %s)"


@pytest.fixture
def root(pgq_db: Database) -> Database:
    make_root(pgq_db)
    pgq_db.execute("create table public.t (id int4 primary key)")
    pgq_db.execute("create table public.u (id int4 primary key)")
    return pgq_db


@pytest.mark.parametrize("role", ["londiste_writer", None])
@pytest.mark.parametrize("name", ["public.t", "t"])
def test_the_table_is_added_when_they_are_cancelled(
    root: Database, name: str, role: str | None
) -> None:
    with root.connect() as conn:
        conn.execute("alter table public.t owner to londiste_writer")
        conn.execute("set role pgq_writer")
        conn.execute(LATER, ["note", name])
        conn.execute(LATER, ["note", "public.other"])
        conn.execute(LATER, ["note", None])
        conn.execute(f"set role {role or 'none'}".encode())
        add = b"select ret_code, ret_note from londiste.local_add_table('q', 'public.t')"
        code, note = conn.execute(add).fetchone() or (0, "")
        assert code == 405
        what, _, statement = note.partition(": ")
        assert what == ("Queue has 1 delayed events that name the table and would stop subscribers")
        assert conn.execute("select from londiste.table_info").fetchall() == []
        assert ret(root, ADD, "q", "public.u")[0] == 200
        # The statement of the note cancels that event only.
        conn.execute(statement.encode())
        assert conn.execute("select count(*) from pgq.delayed_event_list('q')").fetchone() == (2,)
        assert conn.execute(add).fetchone() == (200, "Table added: public.t")


def test_delayed_changes_of_an_administrator_keep_no_table(root: Database) -> None:
    root.execute(LATER, "I:id", "public.t")
    assert ret(root, ADD, "q", "public.t")[0] == 200
