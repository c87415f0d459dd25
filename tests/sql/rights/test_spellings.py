"""Provider and subscriber read the name of a table in an event alike, in every spelling."""

from __future__ import annotations

from londiste.db.names import TableName
from londiste.replication.apply.routing import Route, RoutingTable
from londiste.replication.tablesync.states import By
from tests.fixtures.cluster import Database

REPLICATED = ("public.t", "public.T", "public.a b", "app.t", "app.t.u", "public.public")
SPELLINGS = (
    *REPLICATED,
    *("t", "T", "a b", "public", "app", "u", "app.T", "PUBLIC.t", "public.public.t", "t.u"),
    *("", ".", ".t", "t.", "public.", "..t", " t", "t ", "public .t", "public. t", '"t"', "t\n"),
    *('"public".t', 'public."t"', "pg_temp.t", "app.t.", "public.t.u", "ｔ", "public．t"),
)


def test_a_name_is_refused_exactly_if_a_subscriber_would_apply_it(pgq_db: Database) -> None:
    names = [TableName.parse(name) for name in REPLICATED]
    routing = RoutingTable(By.MAIN, {name: Route(name, name, None) for name in names})
    with pgq_db.connect() as conn:
        conn.execute(
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null)"
        )
        for name in REPLICATED:
            conn.execute(
                "insert into londiste.table_info (queue_name, table_name, local)"
                " values ('q', %s, true)",
                [name],
            )
        for name in SPELLINGS:
            found = conn.execute("select pgq._is_replicated('q', %s)", [name]).fetchone()
            assert found == (routing.find(name) is not None,), name
