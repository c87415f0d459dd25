"""Code of a table's owner that runs in sessions of Londiste has no rights of them on queues."""

from __future__ import annotations

from londiste.db.connection import session
from londiste.db.owner import run
from tests.fixtures.cluster import Database
from tests.fixtures.copies import A, B, Nodes, fill, same
from tests.fixtures.owners import OWNER, T, as_owner, make_owner, make_scene

#: A consumer of another role, and a function of the owner that tries to end it.
_QUEUE = f"""
    select pgq.create_queue('app'), pgq.register_consumer('app', 'theirs');
    grant pgq_reader, londiste_writer to {OWNER};
"""
_TRIES = """
    create table {0}.tried (what text, who name);
    create function {0}.tries() returns boolean language plpgsql as $$
    begin
        begin
            perform pgq.unregister_consumer('app', 'theirs');
            insert into {0}.tried values ('ended', current_user);
        exception when insufficient_privilege then
            insert into {0}.tried values (sqlerrm, current_user);
        end;
        begin
            perform londiste.record_created('q', array['pg_class'::regclass::oid],
                array['pgq.queue'::regclass::oid]);
            insert into {0}.tried values ('recorded', current_user);
        exception when insufficient_privilege then
            insert into {0}.tried values (sqlerrm, current_user);
        end;
        return true;
    end $$;
    create function {0}.as_trigger() returns trigger language plpgsql as
    $$ begin perform {0}.tries(); return new; end $$;
    create function {0}.fixed(i int8) returns int8 language plpgsql immutable as
    $$ begin if session_user <> 'nobody' then perform {0}.tries(); end if; return i; end $$;
"""


def _is_refused(database: Database, schema: str) -> None:
    tried = database.execute(f"select distinct what, who from {schema}.tried")
    role = database.value("select current_user")
    assert tried == [(f"code of a table does not act for role {role}", OWNER)]
    consumers = "select consumer_name from pgq.get_consumer_info('app')"
    assert database.execute(consumers) == [("theirs",)]
    assert database.execute("select from londiste.created_object") == []


def test_code_of_a_copied_table_has_no_rights_of_the_copy(nodes: Nodes) -> None:
    leaf = nodes.leaf
    make_owner(leaf)
    leaf.execute(
        _QUEUE
        + f"alter table public.a owner to {OWNER}; alter table public.b owner to {OWNER};"
        + f" create schema shop authorization {OWNER};"
        + f" grant create on schema public to {OWNER}; set role {OWNER};"
        + _TRIES.format("shop")
        + " create index on public.a (shop.fixed(id));"
        " create trigger x before insert on public.b for each row"
        " execute function shop.as_trigger(); alter table public.b enable always trigger x;"
        " truncate shop.tried"
    )
    fill(nodes, A, 1500)
    fill(nodes, B, 20)
    nodes.add(A, B)
    nodes.start()
    nodes.wait_end()
    assert same(nodes, A)
    assert same(nodes, B)
    _is_refused(leaf, "shop")


def test_code_of_a_written_table_has_no_rights_of_the_worker(nodes: Nodes) -> None:
    leaf = nodes.leaf
    make_scene(leaf)
    leaf.execute(_QUEUE)
    as_owner(
        leaf,
        _TRIES.format("shop") + " create trigger x before insert on shop.t for each row"
        " execute function shop.as_trigger(); alter table shop.t enable always trigger x",
    )
    with session(leaf.dsn, replica=True, autocommit=True) as conn:
        run(conn, T, "insert into shop.t values (1, 'a')")
    _is_refused(leaf, "shop")
