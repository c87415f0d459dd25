"""Code that PostgreSQL runs as the owner of a table has no rights of the session around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from londiste.db.connection import Connection
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, create_database
from tests.support.waiting import wait_for

#: What the owner of a table tries, in a session of a superuser.
TRIED = {
    "move": "pgq.register_consumer_at('app', 'theirs', 1)",
    "end": "pgq.unregister_consumer('app', 'theirs')",
    "finish": "pgq.finish_batch(pgq.next_batch('app', 'theirs'))",
    "register": "pgq.register_consumer('app', 'forged')",
    "report": "pgq.report_daemon('worker', 'q', 'root.w', '', 'h', 1, '4', 1, 9, 1, 0, 0, false)",
    "created": "londiste.record_created('q', array['pg_class'::regclass::oid],"
    " array['public.theirs'::regclass::oid])",
    "log": "londiste.log_action('q', 'x', 'x', 'x', 'x')",
}

#: How the server comes to run it; the first command makes what the owner needs.
RUN = {
    "analyze": ("create index on mine.t (mine.f(id))", "analyze mine.t"),
    "reindex": ("create index i on mine.t (mine.f(id))", "reindex index mine.i"),
    "create index": ("select", "create index on mine.t (mine.f(id))"),
    "cluster": (
        "create index i on mine.t (id); create index on mine.t (mine.f(id))",
        "cluster mine.t using i",
    ),
    "vacuum full": ("create index on mine.t (mine.f(id))", "vacuum full mine.t"),
    "refresh": (
        "create materialized view mine.v as select mine.f(id) from mine.t with no data",
        "refresh materialized view mine.v",
    ),
    "foreign key": (
        "create table mine.c (id int4 references public.p on delete cascade);"
        " insert into mine.c values (1);"
        " create function mine.fired() returns trigger language plpgsql as"
        " $$ begin perform mine.f(1); return old; end $$;"
        " create trigger fires before delete on mine.c for each row execute function mine.fired()",
        "delete from public.p",
    ),
    "key of a partitioned table": (
        "create table mine.c (id int4 references public.p on update cascade)"
        " partition by range (id);"
        " create table mine.c1 partition of mine.c (check (mine.f(id) > 0)) default;"
        " insert into mine.c values (1)",
        "update public.p set id = 2",
    ),
}


@pytest.fixture
def admin(pgq_db: Database) -> Iterator[Connection]:
    """A superuser's session; a role that may read queues owns schema mine."""
    owner = f"owner_{pgq_db.name}"
    with pgq_db.connect() as conn:
        _make(conn, owner)
        yield conn
        conn.execute(f"drop owned by {owner} cascade; drop role {owner}".encode())


def _make(conn: Connection, owner: str) -> None:
    conn.execute(
        (
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null);"
            " select pgq.create_queue('app'), pgq.register_consumer('app', 'theirs');"
            " select pgq.insert_event('app', 't', 'd'), pgq.force_tick('app');"
            " select pgq.ticker('app');"
            " create table public.theirs (id int4);"
            " create table public.p (id int4 primary key); insert into public.p values (1);"
            f" create role {owner} in role pgq_reader;"
            f" grant references on public.p to {owner};"
            f" create schema mine authorization {owner}"
        ).encode()
    )


def _bait(database: Database, owner: str, tries: str, more: str) -> None:
    """As the owner: table mine.t, and function mine.f, which notes the tries that are refused."""
    call = f"""
        begin
            perform {tries};
            insert into mine.seen values ('done', current_user);
        exception when insufficient_privilege then
            insert into mine.seen values (sqlerrm, current_user);
        end;"""
    with database.connect() as conn:
        conn.execute(f"set session authorization {owner}")
        conn.execute(
            f"""
            create table mine.seen (what text, who name);
            create table mine.t (id int4);
            insert into mine.t values (1);
            create function mine.tries() returns void language plpgsql as $$
            begin {call} end $$;
            create function mine.f(i int4) returns int4 language plpgsql immutable as $$
            begin
                if session_user <> '{owner}' then perform mine.tries(); end if;
                return i;
            end $$;
            {more}
            """.encode()
        )


def _facts(admin: Connection) -> list[tuple[object, ...]]:
    """What the tries would change."""
    return [
        tuple(admin.execute(query.encode()).fetchall())
        for query in (
            "select consumer_name, last_tick, current_batch from pgq.get_consumer_info()",
            "select count(*) from pgq.daemon",
            "select count(*) from londiste.created_object",
            "select count(*) from londiste.operator_log",
        )
    ]


@pytest.mark.parametrize("run", RUN)
def test_code_that_the_server_runs_does_not_act_for_the_session(
    pgq_db: Database, admin: Connection, run: str
) -> None:
    _refused(pgq_db, admin, run, "end")


@pytest.mark.parametrize("tried", TRIED)
def test_no_function_takes_code_of_an_index_for_the_session(
    pgq_db: Database, admin: Connection, tried: str
) -> None:
    admin.execute(f"grant londiste_writer to owner_{pgq_db.name}")
    _refused(pgq_db, admin, "analyze", tried)


def _refused(pgq_db: Database, admin: Connection, run: str, tried: str) -> None:
    owner = f"owner_{pgq_db.name}"
    first, command = RUN[run]
    _bait(pgq_db, owner, TRIED[tried], first)
    before = _facts(admin)
    admin.execute(command.encode())
    seen = admin.execute("select distinct what, who from mine.seen").fetchall()
    role = admin.execute("select current_user").fetchone()
    assert role
    assert seen == [(f"code of a table does not act for role {role[0]}", owner)]
    assert _facts(admin) == before


def test_a_superuser_may_call_the_functions_in_code_of_its_own(
    pgq_db: Database, admin: Connection
) -> None:
    owner = f"owner_{pgq_db.name}"
    _bait(pgq_db, owner, TRIED["end"], "select")
    admin.execute("listen anything")
    with admin.transaction():
        admin.execute("update mine.t set id = mine.f(1)")
    assert admin.execute("select what from mine.seen").fetchall() == [("done",)]
    assert admin.execute("select pg_listening_channels()").fetchall() == [("anything",)]


def test_autovacuum_is_no_administrator(new_cluster: Callable[..., Cluster]) -> None:
    server = new_cluster(settings={"autovacuum_naptime": "1s"})
    database = create_database(server, pgq=True)
    with database.connect() as admin:
        _make(admin, "baiter")
        before = _facts(admin)
        _bait(
            database,
            "baiter",
            TRIED["end"],
            "create index on mine.t (mine.f(id));"
            " alter table mine.t set (autovacuum_analyze_threshold = 1,"
            " autovacuum_analyze_scale_factor = 0);"
            " insert into mine.t select generate_series(1, 300)",
        )

        def tried() -> list[tuple[object, ...]]:
            return admin.execute("select distinct what, who from mine.seen").fetchall()

        wait_for(tried, what="ANALYZE by autovacuum")
        assert [who for _, who in tried()] == ["baiter"]
        assert str(tried()[0][0]).startswith("code of a table does not act for role ")
        assert _facts(admin) == before


def test_a_session_that_listens_may_prepare_its_transaction(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('app'); select pgq.register_consumer('app', 'c')")
    conn.execute("listen something")
    conn.execute("begin")
    conn.execute("select pgq.next_batch('app', 'c')")
    conn.execute("prepare transaction 'of a listener'")
    conn.execute("rollback prepared 'of a listener'")
