"""Messages of the cascade: followed by the nodes they concern; unknown ones stop the queue."""

from __future__ import annotations

import logging

import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.changes.types import SystemEvent
from londiste.errors import EventError
from londiste.replication import sqlapi as tables
from londiste.replication.apply.control_messages import SystemEvents
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf


def event(kind: str, data: str | None, *extra: str | None) -> SystemEvent:
    filled = [*extra, None, None, None][:3]
    return SystemEvent(7, 1, kind, data, *filled)


def test_locations_come_and_go(pgq_db: Database, caplog: pytest.LogCaptureFixture) -> None:
    make_leaf(pgq_db)
    conn = pgq_db.connect()
    system = SystemEvents(conn, "q", NodeType.LEAF)
    system.follow(event("pgq.location-info", "n9", "q", "dbname=n9", "false"))
    system.follow(event("pgq.location-info", "n9", "q", None, "true"))
    known = {m.name: (m.location, m.dead) for m in nodes.get_queue_locations(conn, "q")}
    assert known["n9"] == ("dbname=n9", True)
    for _ in range(2):
        # drop-node and rename-node delete it on each node, before the event arrives.
        system.follow(event("pgq.unregister-location", "n9", "q"))
    assert "n9" not in {m.name for m in nodes.get_queue_locations(conn, "q")}
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_an_earlier_node_with_the_name_of_this_one_or_its_provider_is_passed_over(
    pgq_db: Database, name: str
) -> None:
    make_leaf(pgq_db)
    conn = pgq_db.connect()
    with conn.transaction():
        SystemEvents(conn, "q", NodeType.LEAF).follow(event("pgq.unregister-location", name, "q"))
    assert name in {m.name for m in nodes.get_queue_locations(conn, "q")}


def test_tables_and_sequences_become_known_and_are_forgotten(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    conn = pgq_db.connect()
    system = SystemEvents(conn, "q", NodeType.LEAF)
    system.follow(event("londiste.add-table", "public.t"))
    system.follow(event("londiste.add-table", "public.t"))
    system.follow(event("londiste.update-seq", "30000", "public.s"))
    assert [str(t.name) for t in tables.get_table_list(conn, "q")] == ["public.t"]
    assert [s.last_value for s in tables.get_seq_list(conn, "q")] == [30000]
    for _ in range(2):
        system.follow(event("londiste.remove-table", "public.t"))
        system.follow(event("londiste.remove-seq", "public.s"))
    assert tables.get_table_list(conn, "q") == []
    assert tables.get_seq_list(conn, "q") == []


def test_a_leaf_ignores_the_global_watermark_and_a_branch_keeps_it(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=5)
    conn = pgq_db.connect()
    SystemEvents(conn, "q", NodeType.LEAF).follow(event("pgq.global-watermark", "5", "q"))
    SystemEvents(conn, "q", NodeType.BRANCH).follow(event("pgq.global-watermark", "5", "q"))
    assert nodes.get_node_info(conn, "q").global_watermark == 5


@pytest.mark.parametrize(
    "wrong",
    [
        event("pgq.something", "1", "q"),
        event("pgq.location-info", "n9", "other", "dbname=n9", "false"),
        event("pgq.location-info", None, "q", "dbname=n9", "false"),
        event("pgq.tick-id", "1", "q"),
        event("pgq.tick-id", "1", None),
        event("pgq.global-watermark", "x", "q"),
        event("londiste.something", "1"),
        event("londiste.add-table", ""),
        event("londiste.update-seq", "1", None),
        event("londiste.update-seq", "x", "public.s"),
    ],
    ids=lambda e: f"{e.type} {e.data} {e.extra1}",
)
def test_what_is_not_understood_stops_the_queue(pgq_db: Database, wrong: SystemEvent) -> None:
    make_branch(pgq_db)
    with pytest.raises(EventError, match="event 7: cannot process type") as caught:
        SystemEvents(pgq_db.connect(), "q", NodeType.BRANCH).follow(wrong)
    assert caught.value.hint
