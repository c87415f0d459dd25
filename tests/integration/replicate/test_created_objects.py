"""What ``replicate`` records of created objects, and what ``--drop-tables`` makes of the record."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
import pytest

from londiste.cascade.commands.endpoint import Endpoint, endpoint
from londiste.orchestration.connections import Connections
from londiste.replicate import created
from londiste.replicate.created import Created, Recorded, drop_statements, droppable, recorded
from tests.fixtures.cluster import Database

PLAIN = "create table {0} (id serial)"
PARTITIONED = (
    "create table {0} (id serial, d int, primary key (id, d)) partition by range (d);"
    "create table {0}_1 partition of {0} for values from (1) to (5)"
)
TABLES = ("kept", "renamed", "again", "given", "filled")


@dataclass(frozen=True)
class Creates:
    """A step that creates tables while another session creates one, too."""

    database: Database
    names: tuple[str, ...]
    schema: str = "public"
    statement: str = PLAIN

    def describe(self) -> str:
        return "creates"

    def done(self, sites: Connections) -> bool:
        return False

    def run(self, sites: Connections) -> None:
        self.database.execute("create table theirs (id int)")
        conn = sites.at(self.database.dsn)
        conn.execute(f"create schema if not exists {self.schema}".encode())
        for name in self.names:
            conn.execute(self.statement.format(f"{self.schema}.{name}").encode())


def made(
    database: Database,
    sites: Connections,
    *names: str,
    schema: str = "public",
    statement: str = PLAIN,
) -> Endpoint:
    """A node with created tables; ``theirs`` is another session's."""
    database.execute(
        "select pgq_node.register_location('q', 'n', 'dbname=n', false);"
        " select pgq_node.create_node('q', 'root', 'n', 'w', null, null, null)"
    )
    side = endpoint("n", database.dsn, "w")
    Recorded(Creates(database, names, schema, statement), side, "q").run(sites)
    return side


def test_what_others_create_meanwhile_is_not_recorded(pgq_db: Database) -> None:
    with Connections(name="test") as sites:
        side = made(pgq_db, sites, "ours")
        (one,) = recorded(sites.at(side.dsn), ["q"])
        assert (one.object, one.now, one.same_owner) == (
            ("table", "public.ours"),
            "public.ours",
            True,
        )


def test_tables_that_are_not_those_of_the_record_are_kept_with_the_reason(
    pgq_db: Database,
) -> None:
    with Connections(name="test") as sites:
        side = made(pgq_db, sites, *TABLES)
        conn = sites.at(side.dsn)
        early, _ = created.planned(conn, side, ["q"])
        pgq_db.execute(
            "create role other_owner; alter table given owner to other_owner;"
            "alter table renamed rename to moved; drop table again, filled;"
            "create table again (id int); create table filled (id int);"
            "insert into again values (1); insert into filled values (1)"
        )
        try:
            step, kept = created.planned(conn, side, ["q"])
            assert step is not None and step.found == (("table", "public.kept"),)
            assert kept == {
                ("table", "public.again"): "it was dropped and created again since",
                ("table", "public.filled"): "it was dropped and created again since",
                ("table", "public.renamed"): "it was renamed to public.moved",
                ("table", "public.given"): "it belongs to other_owner now",
            }
            # What was planned before that drops no more.
            assert early is not None and len(early.found) == len(TABLES)
            early.run(sites)
            assert early.done(sites) and step.done(sites)
            left = (
                "select string_agg(relname, ' ' order by relname) from pg_class where relkind = 'r'"
            )
            assert pgq_db.value(f"{left} and relnamespace = 'public'::regnamespace") == (
                "again filled given moved theirs"
            )
            # The record goes with the node.
            pgq_db.execute("delete from pgq_node.local_state; delete from pgq_node.node_info")
            assert recorded(conn, ["q"]) == []
        finally:
            pgq_db.execute("drop owned by other_owner; drop role other_owner")


@pytest.mark.parametrize("statement", [PLAIN, PARTITIONED])
def test_a_schema_that_contains_what_stays_is_kept(pgq_db: Database, statement: str) -> None:
    with Connections(name="test") as sites:
        side = made(pgq_db, sites, "gone", "own", schema='"A.p"', statement=statement)
        conn = sites.at(side.dsn)
        pgq_db.execute('alter table "A.p".own rename to mine')
        step, kept = created.planned(conn, side, ["q"])
        assert step is not None and step.found == (("table", '"A.p".gone'),)
        assert kept == {
            ("table", '"A.p".own'): 'it was renamed to "A.p".mine',
            ("schema", '"A.p"'): 'it contains table "A.p".mine',
        }
        step.run(sites)
        assert step.done(sites)
        pgq_db.execute('drop table "A.p".mine; create table "A.p".late ()')
        _, kept = created.planned(conn, side, ["q"])
        assert kept == {("schema", '"A.p"'): 'it contains table "A.p".late'}
        pgq_db.execute('drop table "A.p".late')
        step, kept = created.planned(conn, side, ["q"])
        assert step is not None and step.found == (("schema", '"A.p"'),) and not kept
        # What gets into it after the plan stays, too.
        pgq_db.execute('create table "A.p".late ()')
        step.run(sites)
        pgq_db.execute('drop table "A.p".late')
        assert not step.done(sites)
        step.run(sites)
        assert step.done(sites)
        assert pgq_db.value("select count(*) from pg_namespace where nspname = 'A.p'") == 0


def test_an_administrator_of_queues_records_no_table_of_others(pgq_db: Database) -> None:
    pgq_db.execute(
        "create role forger; grant londiste_writer to forger; create table treasure (id int)"
    )
    try:
        with Connections(name="test") as sites:
            made(pgq_db, sites, "ours")
            conn = pgq_db.connect()
            conn.execute("set role forger")
            for statement in (
                "insert into londiste.created_object values ('q', 'pg_class'::regclass,"
                " 'public.treasure'::regclass, 'table', 'public.treasure', 10, 'forger')",
                "update londiste.created_object set object_id = 'public.treasure'::regclass",
                "delete from londiste.created_object",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(statement.encode())
                conn.rollback()
                conn.execute("set role forger")
            row = conn.execute(
                "select londiste.record_created('q', array['pg_class'::regclass::oid,"
                " 'pg_namespace'::regclass], array['public.treasure'::regclass::oid,"
                " 'public'::regnamespace])"
            ).fetchone()
            assert row == (0,)
            conn.commit()
            assert [one.name for one in recorded(sites.at(pgq_db.dsn), ["q"])] == ["public.ours"]
    finally:
        pgq_db.execute("drop owned by forger; drop role forger")


def test_a_name_is_no_sql_and_no_other_kind_is_dropped() -> None:
    odd = 'public."mine; drop table public.other"'
    found = [Created("table", odd, odd), Created("view", "v", "v"), Created("table", "gone", None)]
    drop, kept = droppable(found, ())
    assert drop_statements(drop) == [f"drop table if exists {odd}"] and not kept
