"""Objects that a copy drops from a table always exist or are stored."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from londiste.copy.chunking.blocks import split
from londiste.copy.prepare import drop_foreign_keys, find, prepare
from londiste.copy.restore import restore
from londiste.copy.sqlapi import attempts
from londiste.db.connection import Connection, keep_role
from londiste.db.names import TableName
from londiste.engine.tasks import task_name
from londiste.errors import EventError, LockTimeout, Superseded
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf

TABLE = TableName("public", "t")

STRUCTURE = """
create table public.t (
    id int8 not null,
    code text,
    during int4range,
    parent int8,
    constraint "t Pkey" primary key (id) include (code) with (fillfactor = 70),
    constraint t_code unique nulls not distinct (code) deferrable initially deferred,
    constraint t_apart exclude using gist (during with &&) where (id > 5),
    constraint t_checked check (id > 0),
    constraint t_parent foreign key (parent) references public.t (id)
);
create index "t; lower %s" on public.t (lower(code) text_pattern_ops) where code <> ';' || E'\\n';
create unique index t_ident on public.t (id desc) with (fillfactor = 60);
create index t_brin on public.t using brin (id) with (pages_per_range = 16);
alter index public."t; lower %s" alter column 1 set statistics 77;
alter table public.t replica identity using index t_ident;
alter table public.t cluster on t_ident;
comment on index public.t_brin is 'it''s \\ a comment; 100%';
comment on constraint t_code on public.t is 'unique';
create table public.child (id int8, t int8 references public.t (id));
insert into public.t values (100, 'old', null, null);
"""

STRUCTURE_OF = """
select array_agg(x order by x) from (
    select pg_get_indexdef(i.indexrelid) || i.indisreplident || i.indisclustered
        || coalesce(obj_description(i.indexrelid, 'pg_class'), '')
        || coalesce((select string_agg(attstattarget::text, ',') from pg_attribute a
                     where a.attrelid = i.indexrelid and a.attstattarget >= 0), '')
    from pg_index i where i.indrelid = 'public.t'::regclass
    union all
    select conname || pg_get_constraintdef(oid) || coalesce(obj_description(oid), '')
    from pg_constraint where conrelid = 'public.t'::regclass and contype <> 'f'
) as s (x)
"""


@pytest.fixture
def leaf(pgq_db: Database) -> Database:
    """A leaf with a table that waits for its copy."""
    server = pgq_db.value("show server_version_num")
    text = STRUCTURE if int(server) >= 150000 else STRUCTURE.replace("nulls not distinct", "")
    pgq_db.execute(text)
    make_leaf(pgq_db)
    with pgq_db.connect() as conn:
        tables.global_add_table(conn, "q", TABLE)
        tables.add_table(conn, "q", TABLE)
        tables.local_set_table_state(conn, "q", TABLE, None, "in-copy")
    return pgq_db


def structure(db: Database) -> list[str]:
    found = db.value(STRUCTURE_OF)
    assert isinstance(found, list)
    return found


def registered(conn: Connection) -> ReplicatedTable:
    (table,) = tables.get_table_list(conn, "q")
    return table


def ready(db: Database) -> tuple[Connection, int]:
    """The table after ``prepare``; the number of the attempt."""
    conn = db.connect(replica=True)
    chunks = split(TABLE, pages=1, total_bytes=8192, chunk_bytes=1 << 20)
    return conn, prepare(conn, "q", registered(conn), chunks)


def test_prepare_drops_all_objects_and_restore_creates_them(leaf: Database) -> None:
    before = structure(leaf)
    conn, _ = ready(leaf)
    assert leaf.value("select count(*) from public.t") == 0
    assert leaf.value("select count(*) from pg_index where indrelid = 'public.t'::regclass") == 0
    assert [c for c in structure(leaf) if "NOT NULL" not in c] == ["t_checkedCHECK ((id > 0))"]
    assert leaf.value(
        "select array_agg(fkey_name order by fkey_name) from londiste.pending_fkeys"
    ) == [
        "child_t_fkey",
        "t_parent",
    ]
    assert restore(conn, "q", registered(conn))
    assert structure(leaf) == before
    assert registered(conn).dropped_ddl is None


def test_restoring_twice_does_nothing_the_second_time(leaf: Database) -> None:
    conn, _ = ready(leaf)
    assert restore(conn, "q", registered(conn))
    assert not restore(conn, "q", registered(conn))


def test_restored_table_is_analyzed(leaf: Database) -> None:
    conn, _ = ready(leaf)
    write(leaf, "insert into public.t select i, i::text from generate_series(1, 200) i")
    restore(conn, "q", registered(conn))
    assert leaf.value("select reltuples from pg_class where oid = 'public.t'::regclass") == 200


@pytest.mark.parametrize(
    "step",
    [
        "copy_start",
        "lock table",
        "drop index",
        "drop constraint",
        "local_set_table_struct",
        "truncate only",
    ],
)
def test_killed_prepare_leaves_the_table_unchanged(leaf: Database, step: str) -> None:
    before = structure(leaf)
    conn = dying(leaf, step)
    with pytest.raises(Exception, match="killed in front of it"):
        prepare(conn, "q", registered(conn), ())
    assert structure(leaf) == before
    assert leaf.value("select count(*) from public.t") == 1
    with leaf.connect() as again:
        assert registered(again).dropped_ddl is None


@pytest.mark.parametrize("step", ["lock table", "create", "local_set_table_struct"])
def test_killed_restore_can_be_repeated(leaf: Database, step: str) -> None:
    before = structure(leaf)
    ready(leaf)
    conn = dying(leaf, step)
    with pytest.raises(Exception, match="killed in front of it"):
        restore(conn, "q", registered(conn))
    with leaf.connect(replica=True) as again:
        assert registered(again).dropped_ddl
        assert restore(again, "q", registered(again))
    assert structure(leaf) == before


def test_second_attempt_keeps_the_ddl_stored_by_the_first(leaf: Database) -> None:
    before = structure(leaf)
    _, first = ready(leaf)
    leaf.execute("create index t_new on public.t (parent)")
    conn, second = ready(leaf)
    assert second > first
    restore(conn, "q", registered(conn))
    assert set(structure(leaf)) > set(before)
    assert "t_new" in str(structure(leaf))


def test_new_attempt_waits_for_tasks_of_the_previous_one(leaf: Database) -> None:
    _, attempt = ready(leaf)
    task = leaf.connect(autocommit=False, name="not ours, so it is not ended")
    answer = task.execute(
        "select londiste.copy_chunk_start('q', 'public.t', %s, 0)", [attempt]
    ).fetchone()
    assert answer == ("copy",)
    impatient = leaf.connect(replica=True, lock_timeout_ms=50)
    with pytest.raises(LockTimeout):
        prepare(impatient, "q", registered(impatient), ())
    # A request to stop needs no task to end.
    assert attempts.copy_stop(impatient, "q", TABLE)
    task.rollback()
    assert prepare(impatient, "q", registered(impatient), ()) > attempt


def test_abandoning_ends_tasks_that_run(leaf: Database) -> None:
    conn, attempt = ready(leaf)
    task = leaf.connect(autocommit=False, replica=True, name=task_name("q", str(TABLE)))
    keep_role(task)
    task.execute("select londiste.copy_chunk_start('q', 'public.t', %s, 0)", [attempt])
    task.execute("insert into public.t (id) values (1)")
    attempts.abandon(conn, "q", TABLE, attempt)
    with pytest.raises(psycopg.OperationalError):
        task.execute("select 1")
    assert leaf.value("select count(*) from public.t") == 0
    assert leaf.value("select count(*) from londiste.copy_attempt") == 0


def test_a_table_that_is_not_to_be_copied_any_more_is_left_alone(leaf: Database) -> None:
    conn = leaf.connect(replica=True)
    table = registered(conn)
    tables.local_set_table_state(conn, "q", TABLE, None, None)
    before = structure(leaf)
    with pytest.raises(Superseded):
        prepare(conn, "q", table, ())
    assert structure(leaf) == before
    assert leaf.value("select count(*) from public.t") == 1


def test_skip_truncate_keeps_the_rows(leaf: Database) -> None:
    with leaf.connect() as conn:
        tables.local_set_table_attrs(conn, "q", TABLE, "skip_truncate=1")
    conn, _ = ready(leaf)
    assert leaf.value("select count(*) from public.t") == 1
    assert "skip_truncate" in registered(conn).attrs


@pytest.fixture
def keeping(leaf: Database) -> Database:
    """The same with rows that shall stay; one chunk of a copy has come, and nothing after it."""
    with leaf.connect() as conn:
        tables.local_set_table_attrs(conn, "q", TABLE, "copy_mode=snapshot&skip_truncate=1")
    _, attempt = ready(leaf)
    _chunk(leaf, attempt, 0, "(1, 'a'), (2, 'b')")
    return leaf


def _chunk(db: Database, attempt: int, number: int, rows: str) -> None:
    with db.connect(autocommit=False, replica=True) as task:
        keep_role(task)
        task.execute("select londiste.copy_chunk_start('q', 'public.t', %s, %s)", [attempt, number])
        task.execute(f"insert into public.t (id, code) values {rows}".encode())
        call = "select londiste.copy_chunk_end('q', 'public.t', %s, %s, 2, 8)"
        task.execute(call, [attempt, number])
        task.commit()


def _ids(db: Database) -> list[int]:
    return [row[0] for row in db.execute("select id from public.t order by id")]


@pytest.mark.parametrize("given_up", [False, True])
def test_restarted_copy_without_truncate_deletes_only_its_own_rows(
    keeping: Database, given_up: bool
) -> None:
    write(keeping, "insert into public.t (id, code) values (55, 'new')")
    number = keeping.value("select attempt from londiste.copy_attempt")
    if given_up:
        attempts.abandon(keeping.connect(), "q", TABLE, number)
        assert keeping.value("select count(*) from londiste.copy_attempt") == 0
    else:
        _chunk(keeping, number, 1, "(3, 'c')")
    conn, again = ready(keeping)
    assert _ids(keeping) == [55, 100]
    _chunk(keeping, again, 0, "(1, 'a'), (2, 'b')")
    assert restore(conn, "q", registered(conn))
    assert _ids(keeping) == [1, 2, 55, 100]


def test_removing_a_table_in_the_middle_of_its_copy_leaves_the_rows_that_shall_stay(
    keeping: Database,
) -> None:
    before = structure(keeping)
    write(keeping, "insert into public.t (id, code) values (55, 'new')")
    keeping.execute("select londiste.local_remove_table('q', 'public.t')")
    assert _ids(keeping) == [55, 100]
    assert len(structure(keeping)) > len(before)
    assert keeping.value("select count(*) from londiste.copy_attempt") == 0
    assert keeping.value("select count(*) from londiste.copy_chunk") == 0


def test_a_key_that_a_view_needs_stays(leaf: Database) -> None:
    leaf.execute("create view public.v as select id, code from public.t group by id")
    before = structure(leaf)
    conn, _ = ready(leaf)
    assert '"t Pkey"' in "".join(structure(leaf))
    restore(conn, "q", registered(conn))
    assert structure(leaf) == before


def test_restore_names_duplicates_and_continues_after_their_removal(leaf: Database) -> None:
    before = structure(leaf)
    conn, _ = ready(leaf)
    write(leaf, "insert into public.t (id, code) values (7, 'a'), (7, 'b')")
    with pytest.raises(EventError) as caught:
        restore(conn, "q", registered(conn))
    assert caught.value.detail == "Key (id)=(…) is duplicated."
    select = caught.value.hint.partition("which this statement finds: ")[2].partition(";")[0]
    assert leaf.execute(select) == [(7, 2)]
    assert "set session_replication_role = replica" in caught.value.hint
    assert registered(conn).dropped_ddl
    write(leaf, "delete from public.t where ctid in (select min(ctid) from public.t)")
    assert restore(conn, "q", registered(conn))
    assert structure(leaf) == before


def test_foreign_keys_are_dropped_once(leaf: Database) -> None:
    conn = leaf.connect(replica=True)
    table = registered(conn)
    assert drop_foreign_keys(conn, table) == 2
    assert drop_foreign_keys(conn, table) == 0


def test_a_removed_table_is_not_found(leaf: Database) -> None:
    conn = leaf.connect()
    table = registered(conn)
    assert find(conn, "q", table) == table
    tables.local_remove_table(conn, "q", TABLE)
    assert find(conn, "q", table) is None


UNQUALIFIED = (
    "ALTER TABLE ONLY t ADD CONSTRAINT t_key PRIMARY KEY (id);"
    " CREATE INDEX i ON t USING btree (code)"
)


def test_statements_that_were_stored_without_schemas_are_run(leaf: Database) -> None:
    conn, _ = ready(leaf)
    tables.local_set_table_struct(conn, "q", TABLE, UNQUALIFIED)
    assert restore(conn, "q", registered(conn))
    assert conn.execute("show search_path").fetchone() == ("pg_catalog, pg_temp",)
    leaf.execute("drop index i; alter table t drop constraint t_key")
    tables.local_set_table_struct(conn, "q", TABLE, UNQUALIFIED)
    tables.local_remove_table(conn, "q", TABLE)
    indexes = "select count(*) from pg_index where indrelid = 'public.t'::regclass"
    assert leaf.value(indexes) == 2


def write(db: Database, statement: str) -> None:
    """Changes rows as replication does; others are refused on a leaf."""
    with db.connect(replica=True) as conn, conn.transaction():
        conn.execute(statement.encode())


def dying(db: Database, step: str) -> Connection:
    """A session that ends in front of the first statement that holds a text."""
    conn = db.connect(replica=True)

    class Dying(psycopg.Cursor[Any]):
        def execute(self, query: Any, *args: Any, **more: Any) -> Any:
            text = query.decode() if isinstance(query, bytes) else query
            shown = text if isinstance(text, str) else text.as_string(None)
            if step in shown.replace('"', "").lower():
                conn.close()
                raise psycopg.OperationalError("killed in front of it")
            return super().execute(query, *args, **more)

    conn.cursor_factory = Dying
    return conn
