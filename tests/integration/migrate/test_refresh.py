"""The refresh of materialized views at a switch."""

from __future__ import annotations

from londiste.migrate.databases import Side
from londiste.migrate.switching import Refresh, refreshed
from londiste.monitor.doctor import collect
from londiste.orchestration.connections import Connections
from tests.fixtures.cluster import Database


def test_a_refresh_keeps_the_session_with_the_lock_of_the_switch(database: Database) -> None:
    database.execute(
        "create schema app; create table app.t as select 1 as a;"
        " create materialized view app.m as select a from app.t with no data;"
        f' alter database "{database.name}" set search_path = app'
    )
    dsn = database.dsn
    warned: list[str] = []
    with Connections(name="test") as sites:
        sites.alone(dsn, "new", "q")
        session = sites.kept(dsn)
        assert session is not None
        names = session.execute("show search_path").fetchall()
        Refresh(Side("new", dsn, dsn, "migrate_new"), ("app.m",), warned.append).run(sites)
        assert sites.kept(dsn) is session
        assert session.execute("show search_path").fetchall() == names
    assert not warned and database.value("select a from app.m") == 1
    database.execute("create materialized view app.empty as select from app.m with no data")
    with database.connect() as conn:
        assert collect.materialized_views(conn) == {"app.m": True, "app.empty": False}


def test_a_view_with_no_data_in_both_databases_stays_so() -> None:
    new = {"m": False, "empty": False, "only_here": False}
    assert refreshed({"m": True, "empty": False}, new) == ("m", "only_here")
    # Back: one that could not be refreshed in the new database, and one that it has filled.
    assert refreshed({"m": False, "empty": True}, {"m": True, "empty": False}) == ("m", "empty")
