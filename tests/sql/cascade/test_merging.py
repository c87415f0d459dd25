"""A combined queue reports the positions of its parts, with each batch and on request."""

from __future__ import annotations

from typing import Any

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret


def part(db: Database, queue: str, tick: int) -> None:
    make_leaf(db, queue, tick=tick)
    db.execute("update pgq_node.node_info set combined_queue = 'q' where queue_name = %s", queue)


def said(db: Database) -> list[tuple[Any, ...]]:
    return db.execute(
        "select ev_extra1, ev_data from pgq.event_1 where ev_type = 'pgq.tick-id' order by ev_id"
    )


def position(db: Database, queue: str) -> object:
    return db.value("select last_tick_id from pgq_node.local_state where queue_name = %s", queue)


def close(db: Database) -> int:
    args = ("q", None, "switchover", "n1", "n2", "somebody", "n1", False)
    token = ret(db, "pgq_node.begin_operation", *args)[2]
    answer = ret(db, "pgq_node.close_root", "q", token)
    assert answer[0] == 200
    return int(answer[2])


def test_a_part_writes_its_tick_only_into_an_open_root(pgq_db: Database) -> None:
    make_root(pgq_db)
    part(pgq_db, "p", 7)
    assert ret(pgq_db, "pgq_node.insert_part_tick", "q", "p", 8)[0] == 200
    assert said(pgq_db) == [("p", "8")]
    assert ret(pgq_db, "pgq_node.insert_part_tick", "nothing", "p", 8)[0] == 404
    close(pgq_db)
    pgq_db.execute("alter role current_user set session_replication_role = replica")
    try:
        assert ret(pgq_db, "pgq_node.insert_part_tick", "q", "p", 9)[0] == 405
    finally:
        pgq_db.execute("alter role current_user reset session_replication_role")
    assert said(pgq_db) == [("p", "8")]


def test_positions_are_said_when_asked_on_a_root_alone(pgq_db: Database) -> None:
    assert ret(pgq_db, "pgq_node.announce_parts", "q")[0] == 404
    make_root(pgq_db)
    part(pgq_db, "p1", 7)
    part(pgq_db, "p2", 12)
    assert ret(pgq_db, "pgq_node.announce_parts", "q")[:2] == (200, "Ticks of 2 parts written")
    assert said(pgq_db) == [("p1", "7"), ("p2", "12")]


def test_on_a_branch_the_queue_moves_its_parts(pgq_db: Database) -> None:
    make_branch(pgq_db, "q")
    part(pgq_db, "p", 7)
    assert ret(pgq_db, "pgq_node.announce_parts", "q")[0] == 301
    assert ret(pgq_db, "pgq_node.set_partition_watermark", "q", "p", 9)[0] == 200
    assert position(pgq_db, "p") == 9
    assert ret(pgq_db, "pgq_node.set_partition_watermark", "q", "other", 9)[0] == 201


def test_a_queue_that_others_merge_into_is_not_dropped(pgq_db: Database) -> None:
    make_root(pgq_db)
    part(pgq_db, "p", 7)
    assert ret(pgq_db, "pgq_node.drop_node", "q", "n1")[0] == 405
    assert ret(pgq_db, "pgq_node.drop_node", "p", "n2")[0] == 200
    assert ret(pgq_db, "pgq_node.drop_node", "q", "n1")[0] == 200
