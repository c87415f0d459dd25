"""Triggers as the talks show them: ignored columns, conditions, a table as typed producer."""

from __future__ import annotations

import re

import pytest

from londiste.compat import skytools
from tests.fixtures.cluster import Database
from tests.support.skytools.running import ROOT

PAGE = (ROOT / "docs" / "howto" / "coming-from-skytools.md").read_text(encoding="utf-8")
SQL = re.findall(r"(?s)```sql\n(.*?)```", PAGE)


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute(
        "select pgq.create_queue('notifications'), pgq.create_queue('dstqueue');"
        "create table users (id int primary key, name text, password text, active bool)"
    )
    return pgq_db


def events(db: Database, queue: str) -> list[tuple[str, dict[str, str | None]]]:
    table = db.value("select pgq.current_event_table(%s)", queue)
    rows = db.execute(f"select ev_type, ev_data from {table} order by ev_id")
    return [(kind, skytools.db_urldecode(data)) for kind, data in rows]


def test_the_page_shows_three_triggers() -> None:
    assert len(SQL) == 3


def test_ignored_columns_are_in_no_event(db: Database) -> None:
    db.execute(SQL[0])
    db.execute("insert into users values (1, 'anna', 'secret', true)")
    assert events(db, "notifications") == [
        ("I:id", {"id": "1", "name": "anna", "active": "t"}),
    ]


def test_a_condition_chooses_the_rows(db: Database) -> None:
    db.execute(SQL[1])
    db.execute("insert into users values (1, 'anna', 's', true), (2, 'bert', 's', false)")
    assert [row["id"] for _, row in events(db, "notifications")] == ["1"]


def test_a_table_is_a_typed_producer_and_stays_empty(db: Database) -> None:
    db.execute(SQL[2])
    db.execute("insert into queue.some_event (field1, field2) values ('a', 1)")
    assert events(db, "dstqueue")[0][1] == {"field1": "a", "field2": "1"}
    assert db.value("select count(*) from queue.some_event") == 0
    with pytest.raises(Exception, match="invalid input syntax"):
        db.execute("insert into queue.some_event (field2) values ('not a number')")
    assert len(events(db, "dstqueue")) == 1
