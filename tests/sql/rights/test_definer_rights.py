"""SECURITY DEFINER functions cannot be subverted by their caller, in every schema."""

from __future__ import annotations

from tests.fixtures.cluster import Database

SCHEMAS = ["pgq", "pgq_node", "pgq_coop", "pgq_ext", "londiste"]


def test_every_definer_function_pins_its_search_path(pgq_db: Database) -> None:
    loose = pgq_db.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = any(%s::regnamespace[]) and prosecdef"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)",
        SCHEMAS,
    )
    assert loose == []
    assert pgq_db.value("select count(*) > 20 from pg_proc where prosecdef")


def test_a_generated_capture_function_belongs_to_nobody_else(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key)")
    pgq_db.execute("select pgq.create_queue('q'); select londiste.create_capture('q', 'public.t')")
    found = pgq_db.execute(
        "select p.prosecdef, has_function_privilege('public', p.oid, 'execute')"
        " from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
        " where t.tgrelid = 'public.t'::regclass and not t.tgisinternal"
    )
    assert set(found) == {(True, False)}


HOSTILE = """
create schema evil;
create domain evil.text as pg_catalog.text check (false);
create domain evil.int8 as pg_catalog.int8 check (false);
create function evil.taken() returns bool language plpgsql as
    $$ begin raise exception 'taken over'; end $$;
do $$
declare
    o record;
begin
    for o in
        select p.oprname, format_type(p.oprleft, null) as l, format_type(p.oprright, null) as r
        from pg_operator as p
        where p.oprname in ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '||')
            and p.oprnamespace = 'pg_catalog'::regnamespace
            and p.oprleft = any ('{text,int2,int4,int8,bool,oid,numeric}'::regtype[])
            and p.oprright = p.oprleft
    loop
        execute format('create or replace function evil.op(%s, %s) returns bool language sql'
            || ' as %L', o.l, o.r, 'select evil.taken()');
        execute format('create operator evil.%s (leftarg = %s, rightarg = %s, function = evil.op)',
            o.oprname, o.l, o.r);
    end loop;
    for o in
        select p.proname, pg_get_function_identity_arguments(p.oid) as args,
            format_type(p.prorettype, null) as result
        from pg_proc as p
        where p.pronamespace = 'pg_catalog'::regnamespace
            and p.provariadic = 0
            and p.proname in ('current_setting', 'set_config', 'now', 'nextval',
                'txid_current', 'pg_trigger_depth', 'has_column_privilege',
                'length', 'has_table_privilege', 'num_nulls')
    loop
        execute format('create function evil.%I(%s) returns %s language sql as %L',
            o.proname, o.args, o.result,
            format('select evil.taken(); select cast(null as %s)', o.result));
    end loop;
end
$$;
"""


def test_a_writers_search_path_cannot_lead_a_generated_capture_function_astray(
    pgq_db: Database,
) -> None:
    pgq_db.execute(
        "create table t (id int8, name text, price numeric, v int4, primary key (id, name));"
        "create table n (id numeric primary key, v varchar);"
        "create table small (id int4 primary key, ok bool);"
        "select pgq.create_queue('q');"
        "select londiste.create_capture('q', 't'), londiste.create_capture('q', 'n', '{backup}'),"
        " londiste.create_capture('q', 'small');"
    )
    pgq_db.execute(HOSTILE)
    assert pgq_db.value(
        "select count(*) > 2 from pg_proc where starts_with(proname, '_capture_q')"
        " and prorettype = 'trigger'::regtype and proconfig is null"
    )
    with pgq_db.connect() as conn:
        conn.execute("set search_path = evil, pg_catalog, public")
        conn.execute("insert into public.t values (1, 'a', 1.5, 2), (2, 'b', null, null)")
        conn.execute("insert into public.n values (1, 'x')")
        conn.execute("insert into public.small values (1, true)")
        for table, other in (("t", "v = 3"), ("n", "v = 'y'"), ("small", "ok = false")):
            conn.execute(f"update public.{table} set {other}")
            conn.execute(f"update public.{table} set id = 100")
            conn.execute(f"delete from public.{table}")
            conn.execute(f"truncate public.{table}")
    assert pgq_db.value("select count(*) from pgq.event_template") > 10


def test_no_definer_function_that_changes_state_is_open_to_everybody(pgq_db: Database) -> None:
    opened = pgq_db.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = any(%s::regnamespace[]) and prosecdef and provolatile = 'v'"
        " and has_function_privilege('public', oid, 'execute')",
        SCHEMAS,
    )
    allowed = {"pgq.get_consumer_info()", "pgq.get_consumer_info(text)"}
    allowed.add("pgq.get_consumer_info(text,text)")
    assert {name for (name,) in opened} <= allowed
