"""Code of a table's owner cannot replace a statement that the worker has prepared."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.sql_files import sql_root
from londiste.handlers.applyfn import CallFunction
from londiste.handlers.event_actions import At
from londiste.pgq.types import Event
from tests.fixtures.cluster import Database
from tests.fixtures.owners import T, as_owner, make_scene, proof

_NOW = datetime(2026, 6, 1, tzinfo=UTC)
#: The first name that the driver gives.
_TAKES = """
    alter table shop.t add at timestamptz;
    create function shop.steals() returns int language plpgsql as
        'begin insert into vault.proof values (current_user); return 1; end';
    create function shop.takes() returns trigger language plpgsql as $t$
    begin
        deallocate _pg3_0;
        prepare _pg3_0 as select shop.steals() as one;
        return new;
    end $t$;
    create trigger x before insert on shop.t for each row execute function shop.takes();
    alter table shop.t enable always trigger x
"""
_ASK = "select 1 as one"


def _merge(conn: Connection) -> None:
    image = json.dumps({"id": 1, "v": "a", "at": str(_NOW)})
    header = json.dumps({"op": "INSERT", "table": list(T), "pkey": ["id"]})
    event = Event(1, _NOW, 1, None, header, image, str(T), None, None, None)
    work = CallFunction("londiste.merge_on_time", json.dumps({"timefield": "at"}))
    work.work(At(conn, "q", 1, _NOW, T, lambda changes: None), [event])


def test_a_merge_by_time_uses_no_prepared_statement_afterwards(pgq_db: Database) -> None:
    make_scene(pgq_db)
    as_owner(pgq_db, _TAKES)
    with pgq_db.connect(replica=True) as conn:
        for _ in range(7):
            conn.execute(_ASK)
        assert conn.execute("select name from pg_prepared_statements").fetchall() == [("_pg3_0",)]
        _merge(conn)
        assert conn.execute(_ASK).fetchone() == (1,)
    assert pgq_db.value("select count(*) from shop.t") == 1
    assert proof(pgq_db) == []


def test_every_function_that_runs_code_of_an_owner_is_known() -> None:
    texts = {
        f"londiste.{path.stem}": path.read_text()
        for path in (sql_root() / "londiste" / "functions").rglob("*.sql")
    }
    found, more = set[str](), {"londiste._run_as_owner"}
    while more:
        found |= more
        calls = re.compile("|".join(map(re.escape, more)) + r"\b")
        more = {name for name, text in texts.items() if calls.search(text)} - found
    # The trigger names one of them in a hint.
    found.discard("londiste.table_info_trigger")
    assert {name for name in found if "._" not in name} == call.RUN_CODE
