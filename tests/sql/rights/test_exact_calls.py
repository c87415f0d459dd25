"""Every call of Londiste's functions matches one signature exactly.

Nobody but the owner can create one (``test_rights.py``).  This is the second lock: an overload of
each function, with each argument of each other type, fails when it is called, and everything that
runs with the rights of an owner is run beside them.  So is an operator of each pair of types for
which pg_catalog has none: it is in the path of who writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.cluster import Database, Server, create_database
from tests.support.suite.decoys import DECOYS as OPERATORS

DECOYS = """
do $$
declare
    f record;
    v_type text;
    v_args text;
    v_count int4 := 0;
begin
    for f in
        select p.proname, n.nspname, p.proargtypes::oid[] as args, p.pronargs as count
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('pgq', 'pgq_node', 'pgq_ext', 'pgq_coop', 'londiste')
            and p.pronargs > 0 and p.prokind = 'f'
            -- The type of a row is always a better fit than record, and no cast makes it one.
            and p.proargtypes::oid[] && '{record}'::regtype[]::oid[] is false
    loop
        foreach v_type in array '{bool,int2,int4,int8,numeric,float8,oid,regclass,name,varchar,text,
            text[],name[],timestamp,timestamptz,date,interval,json,jsonb,xid,anyelement}'::text[]
        loop
            for v_nr in 0 .. f.count - 1 loop
                select string_agg(case when a.nr - 1 = v_nr then v_type
                    else format_type(a.type, null) end, ', ' order by a.nr)
                into v_args
                from unnest(f.args) with ordinality as a (type, nr);
                if to_regprocedure(format('%I.%I(%s)', f.nspname, f.proname, v_args)) is null then
                    execute format('create function %I.%I(%s) returns int4 language plpgsql as %L',
                        f.nspname, f.proname, v_args,
                        format('begin raise exception %L; end', 'taken over: '
                            || f.nspname || '.' || f.proname || '(' || v_args || ')'));
                    v_count := v_count + 1;
                end if;
            end loop;
        end loop;
    end loop;
    if v_count < 5000 then
        raise exception 'only % decoys', v_count;
    end if;
end
$$;
"""

TABLES = {
    "plain": ("create table t (id int4 primary key, v text, n numeric)", ""),
    "backup": ("create table t (id int4 primary key, v text, n numeric)", "backup"),
    "filter": (
        "create table t (id int4 primary key, v text, n numeric)",
        "when=n > 0.0,ev_extra2=v,ev_extra3=id::text",
    ),
    "row": ("create table t (id int4 primary key, v text, n numeric)", "form=row"),
    "ignore": ("create table t (id int4 primary key, v text, n numeric)", "ignore=v"),
    "deferrable": (
        "create table t (id int4 primary key deferrable initially deferred, v text, n numeric)",
        "",
    ),
    "no-key": ("create table t (id int4, v text, n numeric)", "whole_row"),
    "texts": ("create table t (id varchar(20), v char(5), n float8, primary key (id, v))", ""),
    "partitioned": (
        "create table t (id int4 primary key, v text, n numeric) partition by range (id);"
        " create table t1 partition of t for values from (0) to (100000)",
        "",
    ),
}

CHANGES = [
    "insert into t values (1, 'a', 1.5)",
    "insert into t select i, 'b' || i::text, i from generate_series(2, 30) i",
    "update t set n = n + n where id::text in ('1', '2')",
    "update t set n = n + n",
    "update t set id = '40' where id::text = '3'",
    "delete from t where id::text = '5'",
    "delete from t",
    "truncate t",
]


@pytest.fixture(scope="module")
def template(cluster: Server) -> Iterator[Database]:
    """Thousands of decoys, which are made once."""
    made = create_database(cluster, pgq=True)
    made.execute("select pgq.create_queue('q'), pgq.register_consumer('q', 'c')")
    made.execute(DECOYS)
    made.execute(OPERATORS)
    yield made
    made.drop()


@pytest.fixture
def decoyed(template: Database) -> Iterator[Database]:
    made = Database(template.cluster, f"{template.name}_copy")
    template.clone(made.name)
    yield made
    made.drop()


@pytest.mark.parametrize("kind", TABLES)
def test_captures_call_what_they_mean(decoyed: Database, kind: str) -> None:
    create, options = TABLES[kind]
    words = options.split(",") if options else []
    with decoyed.connect() as conn:
        conn.execute("set search_path = public")
        conn.execute(create.encode())
        conn.execute("select londiste.create_capture('q', 'public.t', %s)", [words])
        for _ in range(2):
            for change in CHANGES:
                conn.execute(change.encode())
            # The second time the capture is stale.
            conn.execute("alter table t add column if not exists late text")
        conn.execute("select londiste.refresh_capture('q', 'public.t')")
        conn.execute("select londiste.drop_capture('q', 'public.t')")
    assert decoyed.value("select count(*) > 20 from pgq.event_template")


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_compatible_triggers_call_what_they_mean(decoyed: Database, trigger: str) -> None:
    with decoyed.connect() as conn:
        conn.execute("set search_path = public")
        conn.execute(TABLES["plain"][0].encode())
        conn.execute(
            "create trigger a after insert or update or delete on t for each row execute function"
            f" pgq.{trigger}('q', 'backup', 'when=n > 0.0', 'ev_extra3=v')".encode()
        )
        for change in CHANGES:
            if "id = '40'" not in change:
                conn.execute(change.encode())
    assert decoyed.value("select count(*) > 20 from pgq.event_template")


def test_the_queue_and_the_cascade_call_what_they_mean(decoyed: Database) -> None:
    with decoyed.connect() as conn:
        conn.execute("set search_path = public")
        for statement in (
            "select pgq.create_queue('app')",
            "select pgq.set_queue_config('app', 'ntables', '4')",
            "select pgq.register_consumer('app', 'd')",
            "select pgq.grant_produce('app', 'pgq_reader'::name)",
            "set role pgq_writer",
            "select pgq.insert_event('app', 't', 'd', 'x', null, null, null)",
            "select pgq.insert_event('app', 't', 'd')",
            "select pgq.insert_event_at('app', now(), 't', 'd')",
            "select pgq.insert_event_at('app', now() + interval '1 hour', 't', 'd')",
            "select pgq.insert_event_once('app', 'k', 't', 'd')",
            "select pgq.insert_events('app', '{a}', '{b}')",
            "set role pgq_admin",
            "select pgq.insert_event('app', 't', 'd')",
            "select pgq.force_tick('app'), pgq.ticker()",
            "select * from pgq.finish_and_next('app', 'd')",
            "select pgq.event_retry(sub_batch, 1::int8, 0) from pgq.subscription"
            " where sub_batch is not null",
            "select pgq.finish_batch(sub_batch) from pgq.subscription where sub_batch is not null",
            "select pgq.maint_retry_events()",
            "select * from pgq.maint_operations()",
            "select pgq.maint_rotate_tables_step1('app'), pgq.maint_rotate_tables_step2()",
            "select pgq.maint_positions()",
            "select * from pgq.get_consumer_info(), pgq.get_queue_info()",
            "select pgq_node.register_location('n', 'root', 'dbname=root', false)",
            "select pgq_node.create_node("
            "'n', 'root', 'root', 'w', null::text, null::int8, null::text)",
            "select pgq_node.register_location('n', 'leaf', 'dbname=leaf', false)",
            "select pgq_node.register_subscriber('n', 'leaf', 'leaf.w', null::int8)",
            "select pgq_node.set_global_watermark('n', 1::int8)",
            "select * from pgq_node.get_node_info('n')",
            "select pgq_node.unregister_subscriber('n', 'leaf')",
            "select pgq.unregister_consumer('app', 'd')",
            "select pgq.drop_queue('app', true)",
        ):
            conn.execute(statement.encode())
