"""Values of keys are not read as a domain of a table's owner, whose check would run."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from londiste.copy.chunking.key_ranges import split_by_key
from londiste.db import catalog
from londiste.db.names import TableName
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.fixtures.owners import OWNER, make_owner
from tests.integration.compare.test_compare import damage

PLAIN = "create table public.t (id int primary key, v text)"
#: Writes to a sequence, because a snapshot may be read only.
CHECKED = f"""
    create sequence public.as_another;
    create function public.evil(int) returns boolean language plpgsql as $t$
    begin
        if current_user <> '{OWNER}' then perform nextval('public.as_another'); end if;
        return true;
    end $t$;
    -- The planner of a statement calls it.
    create function public.early() returns boolean language plpgsql immutable as $t$
    begin
        return public.evil(0);
    end $t$;
    create domain public.checked as int check (public.evil(value));
    create table public.t (id public.checked primary key, v text, more public.checked[]);
    alter table public.t owner to {OWNER};
"""
QUIET = "select is_called from public.as_another"


def test_a_comparison_and_a_repair_run_no_check(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=PLAIN)
    make_owner(root.database)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=CHECKED)
    for node in (root, leaf):
        node.database.execute(
            "insert into public.t (id, v) select i, i from generate_series(1, 9) i"
        )
        line.add(node, "public.t", insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    damage(leaf, "delete from public.t where id = 3; update public.t set v = 'x' where id = 4")
    leaf.database.execute("alter sequence public.as_another restart")
    assert leaf.database.value(QUIET) is False
    assert line.here(leaf, "compare").code == 3
    assert leaf.database.value(QUIET) is False
    assert line.here(leaf, "repair", "--apply").code == 0
    assert leaf.database.value(QUIET) is False
    assert leaf.database.value("select count(*) from public.t where v = id::int::text") == 9
    # The owner puts a view in the place of the table.
    leaf.database.execute(
        "alter table public.t rename to kept; create view public.t as"
        " select id, v, more from public.kept where public.evil(id::int) and public.early();"
        f" alter view public.t owner to {OWNER}"
    )
    for words in (
        ["compare"],
        ["compare", "--where", "id > 3"],
        ["compare", "--continuous", "--once"],
        ["repair", "--apply"],
    ):
        done = line.here(leaf, *words)
        assert (done.code, "error: public.t is a view" in done.err) == (3, True), str(done)
        assert leaf.database.value(QUIET) is False


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("a", "integer"),
        ("b", "numeric(5,2)"),
        ("a[]", "integer[]"),
        ("c", "integer[]"),
        ("varchar(5)", "character varying(5)"),
        ("b[]", "numeric(5,2)[]"),
        ("text", "text"),
    ],
)
def test_the_plain_type_of_a_column(pgq_db: Database, kind: str, plain: str) -> None:
    pgq_db.execute(
        "set search_path = public; create domain a1 as int; create domain a as a1;"
        f" create domain b as numeric(5, 2); create domain c as a[]; create table t (v {kind})"
    )
    with pgq_db.connect() as conn:
        (column,) = catalog.columns(conn, TableName("public", "t"))
    assert column.read_as == plain


def test_ranges_of_a_copy_run_no_check(pgq_db: Database) -> None:
    make_owner(pgq_db)
    pgq_db.execute(CHECKED)
    pgq_db.execute("insert into public.t select i, 'x' from generate_series(1, 20000) i; analyze t")
    pgq_db.execute("alter sequence public.as_another restart")
    table = TableName("public", "t")
    with pgq_db.connect() as conn:
        info = catalog.info(conn, table)
        assert info is not None
        chunks = split_by_key(
            conn, info, catalog.columns(conn, table, info)[:1], chunk_bytes=100_000
        )
        assert len(chunks) > 2
        for chunk in chunks:
            conn.execute(
                f"select count(*) from public.t where {chunk.condition or 'true'}".encode()
            )
    assert pgq_db.value(QUIET) is False


#: A key whose columns have names that a query would give its own, and a cast of the owner.
CAST = f"""
    create sequence public.as_another;
    create type public.mood as enum ('sad', 'glad');
    create function public.evil(public.mood) returns text language plpgsql immutable as $t$
    begin
        perform nextval('public.as_another');
        return 'sad';
    end $t$;
    create cast (public.mood as text) with function public.evil(public.mood);
    create table public.t (n int, total public.mood, k1 int, primary key (n, total, k1));
    alter table public.t owner to {OWNER};
    insert into public.t select i, 'glad', i from generate_series(1, 20000) i;
    analyze public.t;
"""


def test_ranges_call_no_cast_and_a_key_may_have_any_names(pgq_db: Database) -> None:
    make_owner(pgq_db)
    pgq_db.execute(CAST)
    table = TableName("public", "t")
    with pgq_db.connect() as conn:
        info = catalog.info(conn, table)
        assert info is not None
        chunks = split_by_key(conn, info, catalog.columns(conn, table, info), chunk_bytes=100_000)
        counts = [
            pgq_db.value(f"select count(*) from public.t where {chunk.condition}")
            for chunk in chunks
        ]
    assert len(counts) > 2 and sum(counts) == 20000
    assert pgq_db.value(QUIET) is False
