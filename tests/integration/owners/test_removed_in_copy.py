"""``remove-table`` during a copy deletes the copied rows with the rights of the table's owner."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, ret
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

_FIRES = """
    create function shop.fires() returns trigger language plpgsql as $f$
    begin
        begin
            insert into vault.proof values (tg_op);
        exception when insufficient_privilege then
            insert into shop.seen values (current_user);
        end;
        return old;
    end $f$;
    create trigger a before truncate on shop.t for each statement execute function shop.fires();
    create trigger b before delete on shop.t for each row execute function shop.fires();
    alter table shop.t enable always trigger a;
    alter table shop.t enable always trigger b;
"""


@pytest.mark.parametrize("attrs", [None, "skip_truncate=1"], ids=["truncated", "deleted"])
def test_triggers_of_the_owner_have_no_other_rights(pgq_db: Database, attrs: str | None) -> None:
    make_scene(pgq_db)
    make_leaf(pgq_db)
    t = TableName("shop", "t")
    with pgq_db.connect() as conn:
        tables.global_add_table(conn, "q", t)
        tables.add_table(conn, "q", t)
        conn.execute("update londiste.table_info set table_attrs = %s", [attrs])
        tables.local_set_table_state(conn, "q", t, None, "in-copy")
    pgq_db.execute(
        """
        begin;
        set local session_replication_role = replica;
        select londiste.copy_chunk_start('q', 'shop.t', londiste.copy_start('q', 'shop.t'), 0);
        insert into shop.t values (1, 'a');
        commit;
        """
    )
    as_owner(pgq_db, _FIRES)
    assert ret(pgq_db, "londiste.local_remove_table", "q", "shop.t")[0] == 200
    assert pgq_db.value("select count(*) from shop.t") == 0
    assert proof(pgq_db) == []
    assert pgq_db.execute("select distinct who from shop.seen") == [(OWNER,)]
