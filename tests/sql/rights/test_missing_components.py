"""Where a component is not installed, another role's schema with its name is not taken for it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.install import apply
from tests.fixtures.cluster import Database

#: Notes for whom it runs, outside of the transaction of the caller.
SPY = """
    create sequence public.calls;
    grant usage on sequence public.calls to public;
    create function public.spy() returns text language sql as
        $$ select pg_catalog.nextval('public.calls')::text $$;
"""
NODE = (
    SPY
    + """
    create schema pgq_node;
    create view pgq_node.node_info as
        select 'q'::text as queue_name, 'n'::text as node_name, public.spy() as node_type;
    create function pgq_node.maint_watermark(text) returns int language sql as 'select 0';
    create function pgq_node.maint_fence(text) returns int language sql as 'select 0';
"""
)
TABLES = (
    SPY
    + """
    create schema londiste;
    create view londiste.table_info as
        select public.spy() as queue_name, 'public.x'::text as table_name, 'x'::text as dest_table;
    create view londiste.seq_info as select public.spy() as queue_name, true as local;
    create function londiste.root_check_seqs(text) returns int language sql as 'select 0';
    create function londiste.periodic_maintenance() returns int language sql as 'select 0';
"""
)


@pytest.fixture
def owner(pgq_db: Database, database: Database) -> Iterator[str]:
    """A role that may create schemas in ``database``, and administers its queues."""
    role = f"dbo_{database.name}"
    database.execute(f"create role {role}; grant pgq_admin to {role}")
    database.execute(f"grant create on database {database.name} to {role}")
    database.execute(f"grant create on schema public to {role}")
    yield role
    database.execute(f"drop owned by {role} cascade; drop role {role}")


def _queue(database: Database, *components: str) -> None:
    apply.install(database.connect(), [*components])
    database.execute("select pgq.create_queue('q')")


def _as(database: Database, role: str, *statements: str) -> None:
    with database.connect() as conn:
        conn.execute(f"set session authorization {role}".encode())
        for statement in statements:
            conn.execute(statement.encode())


def _quiet(database: Database) -> bool:
    return not database.value("select is_called from public.calls")


def test_a_schema_of_another_role_is_no_node(database: Database, owner: str) -> None:
    _queue(database, "pgq")
    database.execute("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    _as(database, owner, NODE)
    with pytest.raises(psycopg.Error, match="Insert into queue disallowed"):
        _as(database, owner, "select pgq.insert_event('q', 't', 'd')")
    due = {name for name, _ in database.execute("select * from pgq.maint_operations()")}
    assert not {name for name in due if not name.startswith("pgq.")}
    _as(database, owner, "select pgq.drop_queue('q')")
    assert _quiet(database)


def test_a_schema_of_another_role_has_no_replicated_tables(database: Database, owner: str) -> None:
    _queue(database, "pgq", "pgq_node")
    for call in (
        "select pgq_node.register_location('q', 'n', 'dbname=x', false)",
        "select pgq_node.create_node('q', 'root', 'n', 'w', null, null, null)",
    ):
        database.execute(call)
    _as(database, owner, TABLES)
    _as(database, owner, "select pgq.insert_event('q', 'note', 'd', 'public.x', null, null, null)")
    due = {name for name, _ in database.execute("select * from pgq.maint_operations()")}
    assert "pgq_node.maint_watermark" in due
    assert not {name for name in due if name.startswith("londiste.")}
    assert _quiet(database)


def test_an_object_of_another_role_in_a_schema_that_is_not_is_no_part(
    database: Database, owner: str
) -> None:
    _queue(database, "pgq")
    database.execute(f"create schema londiste; grant usage, create on schema londiste to {owner}")
    _as(database, owner, TABLES.replace("create schema londiste;", ""))
    _as(database, owner, "select pgq.insert_event('q', 'note', 'd', 'public.x', null, null, null)")
    assert not database.value("select pgq._component_has('londiste.root_check_seqs(text)')")
    assert _quiet(database)
