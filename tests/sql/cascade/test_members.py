"""Locations, subscribers, watermarks."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret


def events(db: Database, pattern: str) -> list[tuple[Any, ...]]:
    return db.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3 from pgq.event_template"
        f" where ev_type like '{pattern}' order by ev_id"
    )


def ticks(db: Database, count: int) -> None:
    for _ in range(count):
        db.execute("select pgq.force_tick('q')")
        db.execute("select pgq.ticker('q')")


def subscribe(db: Database, node: str = "n2", worker: str = "w2") -> tuple[Any, ...]:
    ret(db, "pgq_node.register_location", "q", node, f"dbname={node}", False)
    return ret(db, "pgq_node.register_subscriber", "q", node, worker, None)


def test_the_root_tells_everybody_of_a_changed_location_once(pgq_db: Database) -> None:
    make_root(pgq_db)
    for _ in range(2):
        assert ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=x", False)[0] == 200
    ret(pgq_db, "pgq_node.register_location", "q", "n2", None, True)
    assert events(pgq_db, "pgq.location%") == [
        ("pgq.location-info", "n2", "q", "dbname=x", "false"),
        ("pgq.location-info", "n2", "q", None, "true"),
    ]
    assert pgq_db.execute("select * from pgq_node.get_queue_locations('q')") == [
        ("n1", "dbname=n1", False),
        ("n2", "dbname=x", True),
    ]


def test_an_unknown_node_without_location_is_not_made(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.register_location", "q", "n9", None, True)[0] == 200
    assert pgq_db.value("select count(*) from pgq_node.node_location") == 1
    assert events(pgq_db, "pgq.location%") == []


def test_a_location_is_forgotten_and_the_news_is_sent_even_if_unknown(pgq_db: Database) -> None:
    make_root(pgq_db)
    subscribe(pgq_db)
    assert ret(pgq_db, "pgq_node.unregister_location", "q", "n2")[0] == 200
    assert ret(pgq_db, "pgq_node.unregister_location", "q", "n2")[0] == 301
    assert (
        events(pgq_db, "pgq.unregister%")
        == [("pgq.unregister-location", "n2", "q", None, None)] * 2
    )
    assert pgq_db.value("select count(*) from pgq_node.subscriber_info") == 0


def test_own_and_providers_location_stay(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    assert ret(pgq_db, "pgq_node.unregister_location", "q", "n2")[0] == 403
    assert ret(pgq_db, "pgq_node.unregister_location", "q", "n1")[0] == 403
    assert pgq_db.value("select count(*) from pgq_node.node_location") == 2


def test_a_subscriber_starts_at_the_global_watermark_and_pins_it(pgq_db: Database) -> None:
    make_root(pgq_db)
    ticks(pgq_db, 2)
    code, _, watermark = subscribe(pgq_db)
    assert (code, watermark) == (200, 1)
    assert pgq_db.execute(
        "select consumer_name, last_tick from pgq.get_consumer_info('q') order by 1"
    ) == [(".global_watermark", 1), (".n2.watermark", 1), ("w2", 1)]
    assert pgq_db.execute("select * from pgq_node.get_subscriber_info('q')") == [("n2", "w2", 1)]
    assert subscribe(pgq_db)[0] == 200


def test_a_subscriber_may_start_at_a_tick_of_its_choice(pgq_db: Database) -> None:
    make_root(pgq_db)
    ticks(pgq_db, 2)
    ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)
    assert ret(pgq_db, "pgq_node.register_subscriber", "q", "n2", "w2", 3)[0] == 200
    assert pgq_db.value("select last_tick from pgq.get_consumer_info('q', 'w2')") == 3
    assert pgq_db.execute("select * from pgq_node.get_subscriber_info('q')") == [("n2", "w2", 1)]


def test_nobody_subscribes_to_a_leaf_or_to_nothing(pgq_db: Database) -> None:
    assert ret(pgq_db, "pgq_node.register_subscriber", "q", "n3", "w3", None)[0] == 404
    make_leaf(pgq_db)
    assert ret(pgq_db, "pgq_node.register_subscriber", "q", "n1", "w3", None)[0] == 401


def test_a_subscriber_without_location_is_refused(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.register_subscriber", "q", "n9", "w9", None)[0] == 404
    assert pgq_db.value("select count(*) from pgq.consumer where co_name = 'w9'") == 0


def test_a_subscription_ends_once(pgq_db: Database) -> None:
    make_root(pgq_db)
    subscribe(pgq_db)
    assert ret(pgq_db, "pgq_node.unregister_subscriber", "q", "n2")[0] == 200
    assert ret(pgq_db, "pgq_node.unregister_subscriber", "q", "n2")[0] == 304
    assert pgq_db.execute("select consumer_name from pgq.get_consumer_info('q')") == [
        (".global_watermark",)
    ]


def test_a_reported_watermark_moves_forward_only(pgq_db: Database) -> None:
    make_root(pgq_db)
    subscribe(pgq_db)
    ticks(pgq_db, 3)
    report = "pgq_node.set_subscriber_watermark"
    assert ret(pgq_db, report, "q", "n2", 3)[0] == 200
    assert ret(pgq_db, report, "q", "n2", 3)[0] == 100
    assert ret(pgq_db, report, "q", "n2", 2)[0] == 405
    assert ret(pgq_db, report, "q", "n9", 3)[0] == 404
    assert pgq_db.execute("select node_watermark from pgq_node.get_subscriber_info('q')") == [(3,)]


def test_the_root_publishes_the_minimum_of_its_consumers(pgq_db: Database) -> None:
    make_root(pgq_db)
    subscribe(pgq_db)
    ticks(pgq_db, 3)
    ret(pgq_db, "pgq_node.set_subscriber_watermark", "q", "n2", 3)
    pgq_db.execute("select pgq.register_consumer_at('q', 'w2', 2)")
    assert ret(pgq_db, "pgq_node.set_global_watermark", "q", None)[0] == 200
    assert events(pgq_db, "pgq.global%") == [("pgq.global-watermark", "2", "q", None, None)]
    row = pgq_db.execute("select global_watermark from pgq_node.get_node_info('q')")
    assert row == [(2,)]
    state = pgq_db.execute("select last_tick_id from pgq_node.get_consumer_info('q')")
    assert state == [(2,)]
    # It neither goes back nor says the same twice.
    assert ret(pgq_db, "pgq_node.set_global_watermark", "q", 1)[0] == 200
    assert len(events(pgq_db, "pgq.global%")) == 1


def test_a_branch_takes_a_watermark_only_for_a_tick_it_has(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=5)
    move = "pgq_node.set_global_watermark"
    assert ret(pgq_db, move, "q", None)[0] == 500
    assert ret(pgq_db, move, "q", 6)[0] == 200
    position = "select last_tick from pgq.get_consumer_info('q', '.global_watermark')"
    assert pgq_db.value(position) == 5
    pgq_db.execute("select pgq.ticker('q', 6, now(), 10)")
    assert ret(pgq_db, move, "q", 6)[0] == 200
    assert pgq_db.value(position) == 6


def test_a_leaf_ignores_watermarks_and_nothing_has_none(pgq_db: Database) -> None:
    assert ret(pgq_db, "pgq_node.set_global_watermark", "q", 1)[0] == 404
    make_leaf(pgq_db)
    assert ret(pgq_db, "pgq_node.set_global_watermark", "q", 1)[0] == 100


def test_maintenance_publishes_a_watermark_that_is_five_minutes_old(pgq_db: Database) -> None:
    make_root(pgq_db)
    ticks(pgq_db, 1)
    assert pgq_db.value("select pgq_node.maint_watermark('q')") == 0
    assert events(pgq_db, "pgq.global%") == []
    pgq_db.execute("update pgq.tick set tick_time = tick_time - interval '6 minutes'")
    assert pgq_db.value("select pgq_node.maint_watermark('q')") == 0
    assert [row[1] for row in events(pgq_db, "pgq.global%")] == ["2"]


def test_a_reader_does_not_build_nodes_or_subscribe_them(pgq_db: Database) -> None:
    make_root(pgq_db)
    ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)
    with psycopg.connect(pgq_db.dsn, autocommit=True) as conn:
        conn.execute("set role pgq_reader")
        for call in (
            "pgq_node.register_subscriber('q', 'n2', 'w2', null)",
            "pgq_node.unregister_subscriber('q', 'n2')",
            "pgq_node.set_subscriber_since('q', 'n2', 1)",
            "pgq_node.drop_node('q', 'n2')",
            "pgq_node.set_consumer_paused('q', 'w1', true)",
            "pgq_node.get_worker_state('q')",
        ):
            try:
                conn.execute(f"select {call}")
            except psycopg.errors.InsufficientPrivilege:
                continue
            raise AssertionError(f"a reader may call {call}")
