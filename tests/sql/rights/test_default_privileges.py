"""Default privileges of the installing role give nobody a right on Londiste's objects.

``alter default privileges grant insert on tables to app`` is for the tables of an application.
With it on ``pgq.control_event`` the role could have scripts executed on all subscribers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.install import apply, default_rights
from londiste.install.script import script
from tests.fixtures.cluster import Database
from tests.fixtures.sources import psql
from tests.sql.rights.test_rights import SCHEMAS, closed, declared, effective, lines

RELEASE = Path(__file__).parents[2] / "upgrade" / "frozen" / "4.0.0"

_HELD = """
    select format('%%s %%s', what, a.privilege_type)
    from (
        select n.nspname::text, n.nspacl from pg_namespace n where n.nspname = any (%s)
        union all
        select c.oid::regclass::text, c.relacl from pg_class c
        where c.relnamespace::regnamespace::text = any (%s)
        union all
        select c.oid::regclass || '.' || a.attname, a.attacl
        from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace::regnamespace::text = any (%s)
        union all
        select p.oid::regprocedure::text, p.proacl from pg_proc p
        where p.pronamespace::regnamespace::text = any (%s)
    ) as o (what, acl), aclexplode(o.acl) a
    where a.grantee = %s::regrole
    order by 1
"""


@pytest.fixture
def app(pgq_db: Database, database: Database) -> Iterator[str]:
    """A role for ``database``, which has no SQL; that of pgq_db has made the group roles."""
    role = f"app_{database.name}"
    database.execute(f"create role {role}")
    yield role
    for one in (pgq_db, database):
        one.execute(f"drop owned by {role} cascade")
    database.execute(f"drop role {role}")


def give(database: Database, role: str, where: str = "") -> None:
    """All rights on what the installing role creates from now on."""
    for grantee in (role, "public", "pgq_reader"):
        for kind in ("tables", "sequences", "functions", *([] if where else ["schemas"])):
            database.execute(
                f"alter default privileges {where} grant all on {kind} to {grantee}"
                + (" with grant option" if grantee == role else "")
            )


def held(database: Database, role: str) -> list[str]:
    schemas = [*SCHEMAS, "londiste_apply"]
    return [line for (line,) in database.execute(_HELD, *[schemas] * 4, role)]


def test_a_new_database_has_the_declared_rights(database: Database, app: str) -> None:
    give(database, app)
    conn = database.connect()
    apply.install(conn)
    assert lines(effective(conn, app)) == lines(closed(declared()))
    assert apply.install(conn) == []


def test_objects_that_are_created_later_have_the_declared_rights(
    pgq_db: Database, app: str
) -> None:
    give(pgq_db, app)
    try:
        with pgq_db.connect() as conn:
            for statement in (
                "create role owner_" + pgq_db.name,
                "create schema mine authorization owner_" + pgq_db.name,
                "create table mine.t (id int primary key)",
                "alter table mine.t owner to owner_" + pgq_db.name,
                "select pgq_node.register_location('q', 'root', 'dbname=root', false)",
                "select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null)",
                "select pgq.create_queue('app'), pgq.set_queue_config('app', 'ntables', '4')",
                "select pgq_ext.make_sink_stage('s', gen_random_uuid())",
                "select londiste.apply_stage_events('q', n)"
                " from londiste.apply_start('q', 1, 2, 3, 4, 'local') as n",
                "select londiste.create_capture('q', 'mine.t')",
                f"select londiste._owner_function('owner_{pgq_db.name}'::regrole)",
            ):
                conn.execute(statement.encode())
        assert held(pgq_db, app) == []
        # Neither has everybody a right to write.
        with pgq_db.connect(autocommit=False) as conn:
            found = effective(conn, app)
            conn.rollback()
        extra = set(lines(found)) - set(lines(closed(declared())))
        assert [one for one in extra if one.endswith("public") and "\tselect\t" not in one] == []
    finally:
        pgq_db.execute(f"drop owned by owner_{pgq_db.name} cascade")
        pgq_db.execute(f"drop role owner_{pgq_db.name}")


def test_an_upgrade_keeps_grants_of_an_administrator_and_adds_none(
    database: Database, app: str
) -> None:
    apply.install(database.connect(), root=RELEASE)
    granted = (
        ("insert", "pgq.retry_queue"),
        ("execute", "function pgq.drop_queue(text, boolean)"),
        ("usage", "schema pgq"),
    )
    for right, what in granted:
        database.execute(f"grant {right} on {what} to {app}")
    before = held(database, app)
    give(database, app)
    give(database, app, "in schema pgq")
    done = psql(database, script())
    assert (done.returncode, done.stderr) == (0, "")
    assert held(database, app) == before
    (found,) = default_rights.find(database.connect())
    assert found.what == (
        f"role {app} can write to 1 internal table and call 1 function of administrators"
    )
    for right, what in granted:
        database.execute(f"revoke {right} on {what} from {app}")
    assert lines(effective(database.connect(), app)) == lines(closed(declared()))


def test_rights_of_an_earlier_release_are_reported_with_what_revokes_them(
    pgq_db: Database, app: str
) -> None:
    assert default_rights.find(pgq_db.connect()) == ()
    for schema in SCHEMAS:
        for grantee in (app, "public"):
            pgq_db.execute(f"grant insert, delete on all tables in schema {schema} to {grantee}")
        pgq_db.execute(f"grant all on all sequences in schema {schema} to {app}")
        pgq_db.execute(f"grant execute on all functions in schema {schema} to {app}")
    found = {one.role: one for one in default_rights.find(pgq_db.connect())}
    assert found.keys() == {app, "public"}
    assert found["public"].relations > 40 and found["public"].routines == 0
    assert found[app].relations > 50 and found[app].routines > 100
    for one in found.values():
        pgq_db.execute(one.remedy)
    assert default_rights.find(pgq_db.connect()) == ()


def test_rights_on_columns_are_reported_with_what_revokes_them(pgq_db: Database, app: str) -> None:
    pgq_db.execute(f"grant update (queue_ticker_paused), select (queue_name) on pgq.queue to {app}")
    found = default_rights.find(pgq_db.connect())
    assert [(one.role, one.relations) for one in found] == [(app, 1)]
    pgq_db.execute(found[0].remedy)
    assert default_rights.find(pgq_db.connect()) == ()
    assert not pgq_db.value(
        "select has_any_column_privilege(%s, 'pgq.queue', 'insert, update')", app
    )


NODE = (
    "select pgq_node.register_location('q', 'root', 'dbname=root', false)",
    "select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null)",
)


def test_rights_that_are_no_administrators_are_not_reported(pgq_db: Database, app: str) -> None:
    for statement in (
        f"select pgq.create_queue('app'), pgq.grant_produce('app', '{app}')",
        f"grant select on all tables in schema pgq to {app}",
        f"grant execute on function pgq.next_batch(text, text) to {app}",
        f"create table t (id int primary key); alter table t owner to {app}",
        *NODE,
        "select londiste.create_capture('q', 't')",
        # A function that captures gives no way to scripts.
        "alter table t owner to postgres",
    ):
        pgq_db.execute(statement)
    assert default_rights.find(pgq_db.connect()) == ()


#: Rights that no producer has, on tables and sequences of a node and of another queue.
TOO_MUCH = [
    ("insert", "{node}_0"),
    ("insert", "{node}"),
    ("usage", "sequence {node}_id_seq"),
    ("update", "sequence {node}_id_seq"),
    ("usage", "sequence {other}_way"),
    ("delete", "{other}_0"),
    ("insert (ev_id, ev_data)", "{node}_0"),
    ("insert (ev_id)", "{node}"),
    ("update (ev_data)", "{other}_0"),
]


def test_a_right_on_events_that_no_producer_has_is_reported_and_revoked_alone(
    pgq_db: Database, app: str
) -> None:
    pgq_db.execute(f"select pgq.create_queue('app'), pgq.grant_produce('app', '{app}')")
    for statement in NODE:
        pgq_db.execute(statement)
    before = held(pgq_db, app)
    tables = pgq_db.execute("select queue_name, queue_data_pfx from pgq.queue order by queue_id")
    for right, what in TOO_MUCH:
        place = what.format(other=tables[0][1], node=tables[1][1])
        pgq_db.execute(f"grant {right} on {place} to {app} with grant option")
        pgq_db.execute(f"set role {app}; grant {right} on {place} to pgq_reader; reset role")
        found = default_rights.find(pgq_db.connect())[0]
        # A right on columns ends with that on the table.
        revoke = f"revoke {right.partition(' (')[0]} on {place} from {app} cascade"
        assert found.remedy == revoke, (right, what)
        # A node revokes it by itself, with each change of its event tables.
        pgq_db.execute("select pgq.grant_perms('q')" if "{node}" in what else found.remedy)
        assert held(pgq_db, app) == before, (right, what)
        assert default_rights.find(pgq_db.connect()) == (), (right, what)
        pgq_db.execute(f"grant {right} on {place} to {app}")
        pgq_db.execute(default_rights.find(pgq_db.connect())[0].remedy)
        assert held(pgq_db, app) == before, (right, what)
        assert default_rights.find(pgq_db.connect()) == (), (right, what)


def test_an_upgrade_takes_the_right_to_write_into_a_node(pgq_db: Database, app: str) -> None:
    pgq_db.execute(f"select pgq.create_queue('app'), pgq.grant_produce('app', '{app}')")
    for statement in NODE:
        pgq_db.execute(statement)
    before = held(pgq_db, app)
    pgq_db.execute(f"grant insert on pgq.event_2, pgq.event_2_0 to {app}")
    pgq_db.execute(
        "update pgq_node.installed_file set sha256 = '' where path = 'triggers/_mark_queue.sql'"
    )
    apply.install(pgq_db.connect())
    assert held(pgq_db, app) == before
