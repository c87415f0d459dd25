"""Foreign keys that are restored call casts of a table's owner.

The rows of a partitioned table are read when its key is added, before PostgreSQL 18.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from londiste.replication.worker.fkey_validator import ForeignKeys
from tests.fixtures.cascade import CommandLine
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof
from tests.support.waiting import wait_for

CHILD, PARENT = TableName("shop", "child"), TableName("shop", "parent")

_PARENT = "create table {parent} (id int primary key); insert into {parent} values (1)"

#: A cast of the owner, called for each row that is compared with the parent.
_CHILD = """
    create type shop.e as enum ('x');
    create function shop.act() returns void language plpgsql as $e$
    begin
        insert into vault.proof values ('cast');
    exception when insufficient_privilege then
        null;
    end $e$;
    create function shop.number(shop.e) returns int language plpgsql immutable as
        'begin perform shop.act(); return 1; end';
    create cast (shop.e as int) with function shop.number(shop.e) as implicit;
    create table shop.child (id int primary key, p shop.e) partition by list (id);
    create table shop.child_1 partition of shop.child for values in (1);
    insert into shop.child values (1, 'x');
"""
_KEY = "alter table shop.child add constraint fk foreign key (p) references {parent} (id)"
_VALID = (
    "select convalidated from pg_catalog.pg_constraint where conname = 'fk' and conparentid = 0"
)

Restore = Callable[[Database, CommandLine], None]


def _by_command(leaf: Database, londiste: CommandLine) -> None:
    assert londiste(leaf, "fkeys", "--restore").code == 0


def _by_worker(leaf: Database, londiste: CommandLine) -> None:
    keys = ForeignKeys(leaf.dsn, "q", lock_timeout=10)
    with leaf.connect(autocommit=True, replica=True) as conn:
        keys.look_after(conn, tables.get_table_list(conn, "q"))
    wait_for(lambda: not keys.busy, what="the keys to be validated")
    keys.close()


def _by_function(leaf: Database, londiste: CommandLine) -> None:
    assert leaf.value("select londiste.restore_table_fkey('shop.child', 'fk')") == ""


def _by_removal(leaf: Database, londiste: CommandLine) -> None:
    for statement in [
        row[0] for row in leaf.execute("select statement from londiste.release_tables('q')")
    ]:
        as_owner(leaf, statement)


WAYS = pytest.mark.parametrize("restore", [_by_command, _by_worker, _by_function, _by_removal])


def _taken_off(leaf: Database, parent: str) -> None:
    """A leaf with both tables; a copy has dropped the key between them."""
    make_scene(leaf)
    as_owner(leaf, _CHILD)
    with leaf.connect() as conn:
        conn.execute(_PARENT.format(parent=parent).encode())
        if parent.startswith("shop"):
            conn.execute(f"alter table {parent} owner to {OWNER}".encode())
        conn.execute(_KEY.format(parent=parent).encode())
    make_leaf(leaf)
    with leaf.connect() as conn:
        for table in (CHILD, TableName.parse(parent)):
            tables.global_add_table(conn, "q", table)
            tables.add_table(conn, "q", table)
        conn.execute("update londiste.table_info set merge_state = 'ok'")
        assert tables.drop_table_fkey(conn, CHILD, "fk") == 1
    leaf.execute("truncate vault.proof")


@WAYS
def test_the_rows_of_a_partitioned_table_are_read_as_its_owner(
    pgq_db16: Database, londiste: CommandLine, restore: Restore
) -> None:
    _taken_off(pgq_db16, "shop.parent")
    restore(pgq_db16, londiste)
    assert pgq_db16.value(_VALID) is True
    assert pgq_db16.value("select count(*) from londiste.pending_fkeys") == 0
    assert proof(pgq_db16) == []


@WAYS
def test_a_plain_table_is_validated_as_its_owner(
    pgq_db: Database, londiste: CommandLine, restore: Restore
) -> None:
    """As before, on every release; a key of the server's own version."""
    _taken_off(pgq_db, "shop.parent")
    restore(pgq_db, londiste)
    assert pgq_db.value(_VALID) is True
    assert proof(pgq_db) == []


def test_an_owner_without_rights_on_the_other_table_is_named(
    pgq_db16: Database, londiste: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    leaf = pgq_db16
    _taken_off(leaf, "public.parent")
    answer = londiste(leaf, "fkeys", "--restore")
    assert answer.code == 2
    assert (
        f"table shop.child: its owner {OWNER} lacks REFERENCES on table public.parent" in answer.err
    )
    hint = answer.err.split("as an administrator of ")[1].split(": ", 1)[1].strip()
    assert hint == f'grant references on "public"."parent" to {OWNER}'
    with caplog.at_level(logging.WARNING):
        _by_worker(leaf, londiste)
    assert "table shop.child: foreign key fk not restored yet: " in caplog.text
    assert hint in caplog.text
    assert proof(leaf) == []
    leaf.execute(hint)
    with caplog.at_level(logging.INFO):
        _by_worker(leaf, londiste)
    assert "table shop.child: foreign key fk restored" in caplog.text
    assert leaf.value(_VALID) is True
