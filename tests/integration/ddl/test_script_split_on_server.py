"""Script splitting and lock prediction, verified by PostgreSQL."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from londiste.replication.ddl.locks import STRENGTH, UNKNOWN, foresee
from londiste.replication.ddl.split import split
from tests.fixtures.cluster import Database, Server, create_database

#: Pieces of text that a splitter may stumble over; each is an expression of type text.
EXPRESSIONS = [
    "'a;b'",
    "'it''s; $$ \"'",
    "E'a\\';\\\\'",
    "E'\\\\'",
    "'back\\'",
    "$$a;'b$$",
    "$x$ $$;$$ ' $x$",
    "$é$;$é$",
    "U&'\\0041;'",
    "U&'d!0061;' uescape '!'",
    "n'a;'",
    "b'01'::text",
    "'a'\n  ';b'",
    "(select ';' -- ';\n)",
    "'x' /* ; ' /* \" ; */ $$ */",
    "'y' || --;'\n 'z'",
    'case when true then \';\' else "q;""" end',
    "case 1 when 1 then 'one' end",
    "(array['a;', 'b'])[1]",
    "cast(1 as text)",
    "(1 +-- ;\n 2)::text",
    "(3 - -1)::text || ((-2) @ 1)::text".replace("((-2) @ 1)", "(@ -1)"),
    "(1.5e3 + .5 + 5.)::text",
    "(select string_agg(v, ';' order by i desc) from lateral (select i, v from log limit 3) s)",
    "format('%s%%', 1)",
    "(select \"end\" from (select ';' as end) as begin)",
    "to_json(a$b)::text",
]
#: Statements around expressions; %s takes one.  They write into the table log.
STATEMENTS = [
    "insert into log (v) values (%s)",
    "insert into log (v) select %s",
    "do $do$ begin insert into log (v) values ('; end'); perform 1; end; $do$",
    "do 'begin insert into log (v) values (''x;''); end'",
    "create or replace function f() returns text language sql begin atomic select 1;"
    " select case when true then %s else (case 1 when 2 then 'n' end) end; end",
    "create or replace function g() returns text language sql as $f$ select 1; select 'g;' $f$",
    "create or replace function h() returns text language plpgsql as $f$ begin begin"
    " return ';'; end; end $f$",
    "create or replace procedure p() begin atomic insert into log (v) values (%s); end",
    "call p()",
    "insert into log (v) values (f() || g() || h())",
    "create or replace rule r as on insert to watched do also"
    " (insert into log (v) values ('1;'); insert into log (v) values ('2'))",
    "insert into watched values (1)",
    'create table if not exists "t;x" (";" text default \';\', "Ü" int)',
    'insert into "t;x" (";") values (%s)',
    "comment on table log is '; -- /* '",
    "with x as (insert into log (v) values ('w') returning v) select v from x",
    "select 1; ; ;\n",
    "/* ; */ select 2 -- ;",
    "create table if not exists new_table (a$b int, é text check (é <> ';'))",
]
SETUP = (
    "create table log (i int generated always as identity, v text);"
    " create table watched (i int);"
    " create procedure p() language sql as 'insert into log (v) values (''p'')';"
    " create function f() returns text language sql as $$ select 'f' $$;"
    " create function g() returns text language sql as $$ select 'g' $$;"
    " create function h() returns text language sql as $$ select 'h' $$"
)


def make_script(rng: random.Random) -> str:
    statements = []
    for _ in range(rng.randint(1, 8)):
        statement = rng.choice(STATEMENTS)
        if "%s" in statement:
            expression = rng.choice(EXPRESSIONS)
            if "a$b" in expression or '"q;' in expression:
                expression = f'(select {expression} from (select 1 as a$b, \';\' as "q;""") q)'
            statement = statement.replace("%s", f"({expression})::text")
        statements.append(statement)
    between = [
        rng.choice([";", ";\n", " ; ", ";--;\n", ";/*;*/", "\n;\n", ";;"]) for _ in statements
    ]
    text = "".join(
        s + "\n" * s.endswith("-- ;") + b for s, b in zip(statements, between, strict=True)
    )
    return text if rng.random() < 0.5 else text.rstrip("; \n")


def outcome(conn: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Everything that a script may have made."""
    conn.execute("set search_path to public")
    return [
        row
        for query in (
            "select i, v from log order by i",
            "select relname, obj_description(oid, 'pg_class') from pg_class"
            " where relnamespace = 'public'::regnamespace order by 1",
            "select proname, pg_get_functiondef(oid) from pg_proc"
            " where pronamespace = 'public'::regnamespace order by 1",
            "select pg_get_ruledef(oid) from pg_rewrite where rulename = 'r'",
            "select attrelid::regclass::text, attname from pg_attribute"
            " where attrelid in (select oid from pg_class where relkind = 'r'"
            " and relnamespace = 'public'::regnamespace) and attnum > 0 order by 1, attnum",
        )
        for row in conn.execute(query).fetchall()  # type: ignore[call-overload]
    ]


def attempt(
    conn: psycopg.Connection[tuple[object, ...]],
    run: Callable[[psycopg.Connection[tuple[object, ...]]], None],
) -> tuple[str | None, list[tuple[object, ...]]]:
    """What a way to run a script comes to, and its error; rolled back."""
    conn.execute("set search_path to public")
    conn.execute(SETUP)  # type: ignore[arg-type]
    conn.execute("savepoint s")
    error = None
    try:
        run(conn)
    except psycopg.Error as failure:
        error = failure.sqlstate
        conn.execute("rollback to s")
    found = outcome(conn)
    conn.rollback()
    return error, found


def test_pieces_are_single_statements_and_do_together_what_the_script_does(
    database: Database,
) -> None:
    count = int(os.environ.get("LONDISTE_TEST_CASES", "150"))
    seed = int(os.environ.get("LONDISTE_TEST_SEED", "0")) or random.randrange(1 << 30)
    good = 0
    with psycopg.connect(database.dsn, prepare_threshold=None) as one:
        for number in range(seed, seed + count):
            script = make_script(random.Random(number))
            whole = attempt(one, lambda conn, s=script: conn.execute(s.encode()))  # type: ignore[misc]

            def in_pieces(conn: psycopg.Connection[tuple[object, ...]], text: str = script) -> None:
                for statement in split(text):
                    # The form of the protocol that refuses two statements.
                    conn.execute(statement.text.encode(), binary=True)

            pieces = attempt(one, in_pieces)
            assert pieces == whole, f"LONDISTE_TEST_SEED={number}: {script}"
            good += whole[0] is None
    assert good > count / 2


LOCKED = [
    "alter table {t} add column m int default 7",
    "alter table {t} add column m float default random()",
    "alter table {t} add column m int generated always as (id) stored",
    "alter table {t} add column m bigserial",
    "alter table {t} add column m int generated by default as identity, drop column v",
    "alter table {t} drop column v",
    "alter table {t} rename column v to w",
    "alter table {t} rename to t9",
    "alter table {t} alter column v set default 'x'",
    "alter table {t} alter v drop default",
    "alter table {t} alter v set not null",
    "alter table {t} alter v drop not null",
    "alter table {t} alter v set statistics 7",
    "alter table {t} alter v set storage external",
    "alter table {t} alter v set (n_distinct = 7)",
    "alter table {t} alter n set data type int8",
    "alter table {t} add constraint c check (id > 0)",
    "alter table {t} add constraint c check (id > 0) not valid",
    "alter table {t} add constraint c unique (v)",
    "alter table {t} add unique using index t_n",
    "alter table {t} add constraint c foreign key (n) references other",
    "alter table {t} add foreign key (n) references other not valid",
    "alter table {t} validate constraint later",
    "alter table {t} drop constraint later",
    "alter table {t} set (fillfactor = 50)",
    "alter table {t} reset (fillfactor)",
    "alter table {t} set unlogged",
    "alter table {t} set schema other_schema",
    "alter table {t} cluster on t_pkey",
    "alter table {t} disable trigger all",
    "alter table {t} enable row level security",
    "alter table {t} replica identity full",
    "alter table {t} inherit parent",
    "alter table {t} owner to current_user",
    "alter table parts attach partition part for values in (1)",
    "create index on {t} (v)",
    "create unique index i on {t} (v)",
    "create trigger g before insert on {t} for each row"
    " execute function suppress_redundant_updates_trigger()",
    "create rule r as on delete to {t} do instead nothing",
    "create policy p on {t} using (true)",
    "create statistics s on id, v from {t}",
    "create table n (i int references {t})",
    "drop table {t} cascade",
    "drop policy old on {t}",
    "truncate {t}",
    "insert into {t} (id) values (9)",
    "update {t} set v = 'x'",
    "update only {t} set v = 'x'",
    "delete from {t} where id = 1",
    "lock table {t}",
    "lock table {t} in share row exclusive mode",
    "comment on table {t} is 'x'",
    "analyze {t}",
    "cluster {t} using t_pkey",
    "reindex table {t}",
    "grant select on {t} to public",
]


@pytest.fixture(scope="module")
def tables(cluster: Server) -> Iterator[Database]:
    """Tables for statements that are rolled back."""
    made = create_database(cluster, pgq=False)
    made.execute(
        "create table other (id int primary key);"
        " create table parent (id int not null, v text, n int);"
        " create table t (id int primary key, v text, n int,"
        " constraint later check (n > 0) not valid);"
        " alter table t alter column id drop default;"
        " create unique index t_n on t (n); create schema other_schema;"
        " create policy old on t using (true);"
        " create table parts (id int) partition by list (id); create table part (id int);"
        " insert into t values (1, 'a', 1), (2, 'b', 2); insert into other values (1), (2);"
        " analyze t"
    )
    yield made
    made.drop()


@pytest.mark.parametrize("text", LOCKED)
def test_a_lock_that_is_foreseen_is_the_one_that_is_taken(tables: Database, text: str) -> None:
    with psycopg.connect(tables.dsn) as conn:
        conn.execute("set search_path to public")
        name = "parts" if " parts " in text else "t"
        oid = conn.execute("select %s::regclass::oid", [name]).fetchone()
        before = conn.execute("select relfilenode from pg_class where oid = %s", oid).fetchone()
        conn.commit()
        (statement,) = split(text.format(t="t"))
        effect = foresee(statement)
        assert effect.lock != UNKNOWN
        conn.execute("set search_path to public")
        conn.execute(sql.SQL(statement.text))  # type: ignore[arg-type]
        rows = conn.execute(
            "select mode from pg_locks where relation = %s and pid = pg_backend_pid() and granted",
            oid,
        ).fetchall()
        after = conn.execute("select relfilenode from pg_class where oid = %s", oid).fetchone()
        conn.rollback()
    modes = [_mode(mode) for (mode,) in rows]
    taken = max(modes, key=STRENGTH.index, default="none")
    # GRANT locks the catalog only, and looks the name up.
    assert effect.lock == taken or {effect.lock, taken} <= {"none", "ACCESS SHARE"}
    if after is not None:
        assert (before != after) == effect.rewrites.startswith(("yes", "when")), effect
    if effect.table:
        assert effect.table in {"t", "parts"}


def _mode(mode: str) -> str:
    """``AccessExclusiveLock`` as SQL writes it."""
    words = "".join(f" {c}" if c.isupper() else c for c in mode.removesuffix("Lock"))
    return words.strip().upper()
