"""What the catalog knows of columns that have values in rows older than themselves."""

from __future__ import annotations

from londiste.db import catalog
from londiste.db.names import TableName
from tests.fixtures.cluster import Database


def filled(database: Database, name: str) -> set[str]:
    with database.connect() as conn:
        table = TableName("public", name)
        return set(catalog.filled(conn, catalog.require(conn, table).oid))


def test_a_first_default_is_known_after_it_was_dropped(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, v text default 'there from the start')")
    pgq_db.execute("insert into t values (1)")
    pgq_db.execute("alter table t add column plain int, add column d int default 5")
    pgq_db.execute("alter table t alter d drop default")
    assert filled(pgq_db, "t") == {"d"}
    pgq_db.execute("alter table t drop column d")
    assert filled(pgq_db, "t") == set()


def test_partitions_know_it_for_their_table(pgq_db: Database) -> None:
    pgq_db.execute("create table p (id int primary key, v text) partition by range (id)")
    low = "create table low partition of p for values from (0) to (9)"
    pgq_db.execute(f"{low} partition by list (id)")
    pgq_db.execute("create table one partition of low for values in (1)")
    pgq_db.execute("insert into p values (1, 'a')")
    pgq_db.execute("alter table p add column d int default 5")
    pgq_db.execute("alter table p alter d drop default")
    assert filled(pgq_db, "p") == {"d"}
