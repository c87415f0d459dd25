"""Positions and flags of cascaded consumers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, ret


@pytest.fixture
def leaf(pgq_db: Database) -> Database:
    make_leaf(pgq_db, tick=5)
    return pgq_db


def state(db: Database, consumer: str = "w2") -> dict[str, Any]:
    with psycopg.connect(db.dsn, row_factory=psycopg.rows.dict_row) as conn:
        row = conn.execute(
            "select * from pgq_node.get_consumer_state('q', %s)", [consumer]
        ).fetchone()
        assert row is not None
        return row


def test_the_state_of_a_worker_is_told(leaf: Database) -> None:
    found = state(leaf)
    assert found == {
        "ret_code": 100,
        "ret_note": "Ok",
        "node_type": "leaf",
        "node_name": "n2",
        "completed_tick": 5,
        "provider_node": "n1",
        "provider_location": "dbname=n1",
        "paused": False,
        "uptodate": False,
        "cur_error": None,
    }
    assert state(leaf, "nobody")["ret_code"] == 404
    assert ret(leaf, "pgq_node.get_consumer_state", "nothing", "w2")[0] == 404


def test_a_position_moves_only_from_where_it_is(leaf: Database) -> None:
    move = "pgq_node.move_consumer_completed"
    assert ret(leaf, move, "q", "w2", 5, 6)[0] == 200
    code, note = ret(leaf, move, "q", "w2", 5, 6)
    assert code == 409
    assert "6" in note
    assert ret(leaf, move, "q", "nobody", 5, 6)[0] == 404
    assert state(leaf)["completed_tick"] == 6


def test_of_two_transactions_that_move_a_position_one_fails(leaf: Database) -> None:
    move = "select ret_code from pgq_node.move_consumer_completed('q', 'w2', 5, 6)"
    with psycopg.connect(leaf.dsn) as one, psycopg.connect(leaf.dsn) as other:
        assert one.execute(move).fetchone() == (200,)
        with other.pipeline():
            waiting = other.execute(move)
            one.commit()
            assert waiting.fetchone() == (409,)


def test_completing_and_moving_forget_the_error(leaf: Database) -> None:
    for forget in (
        ("pgq_node.set_consumer_completed", "q", "w2", 6),
        ("pgq_node.move_consumer_completed", "q", "w2", 6, 7),
    ):
        assert ret(leaf, "pgq_node.set_consumer_error", "q", "w2", "broken")[0] == 100
        assert state(leaf)["cur_error"] == "broken"
        assert ret(leaf, *forget)[0] < 300
        assert state(leaf)["cur_error"] is None
    assert ret(leaf, "pgq_node.set_consumer_completed", "q", "nobody", 6)[0] == 404
    assert ret(leaf, "pgq_node.set_consumer_error", "q", "nobody", "x")[0] == 101


def test_pausing_asks_for_an_acknowledgement(leaf: Database) -> None:
    ret(leaf, "pgq_node.set_consumer_uptodate", "q", "w2", True)
    assert ret(leaf, "pgq_node.set_consumer_paused", "q", "w2", True)[0] == 200
    assert (state(leaf)["paused"], state(leaf)["uptodate"]) == (True, False)
    ret(leaf, "pgq_node.set_consumer_uptodate", "q", "w2", True)
    assert ret(leaf, "pgq_node.set_consumer_paused", "q", "w2", True)[0] == 201
    assert state(leaf)["uptodate"] is True
    assert ret(leaf, "pgq_node.set_consumer_paused", "q", "nobody", True)[0] == 404
    assert ret(leaf, "pgq_node.set_consumer_uptodate", "q", "nobody", True)[0] == 404


def test_another_consumer_can_have_a_position_here(leaf: Database) -> None:
    register = "pgq_node.register_consumer"
    assert ret(leaf, register, "q", "c", "n1", 3)[0] == 200
    assert ret(leaf, register, "q", "c", "n2", 4)[0] == 201
    assert state(leaf, "c")["completed_tick"] == 4
    assert state(leaf, "c")["provider_node"] == "n2"
    assert ret(leaf, register, "q", "c", "n9", 4)[0] == 404
    assert ret(leaf, register, "nothing", "c", "n1", 4)[0] == 404
    names = "select consumer_name from pgq_node.get_consumer_info('q')"
    assert leaf.execute(names) == [("c",), ("w2",)]
    assert ret(leaf, "pgq_node.unregister_consumer", "q", "c")[0] == 200
    assert ret(leaf, "pgq_node.unregister_consumer", "nothing", "c")[0] == 404
    assert leaf.execute(names) == [("w2",)]


def test_a_new_provider_has_to_be_acknowledged(leaf: Database) -> None:
    change = "pgq_node.change_consumer_provider"
    ret(leaf, "pgq_node.set_consumer_uptodate", "q", "w2", True)
    assert ret(leaf, change, "q", "w2", "n9")[0] == 404
    assert ret(leaf, change, "q", "nobody", "n1")[0] == 404
    assert state(leaf)["uptodate"] is True
    assert ret(leaf, change, "q", "w2", "n2")[0] == 200
    assert (state(leaf)["provider_node"], state(leaf)["uptodate"]) == ("n2", False)


def test_the_lowest_hold_counts_until_it_expires_or_is_cleared(leaf: Database) -> None:
    hold, clear = "pgq_node.set_consumer_hold", "pgq_node.clear_consumer_hold"
    held = "select tick_id from pgq_node.get_consumer_hold('q', 'w2')"
    assert leaf.execute(held) == [(None,)]
    assert ret(leaf, hold, "q", "w2", 8, 60, "one")[0] == 200
    assert ret(leaf, hold, "q", "w2", 7, 60, "two")[0] == 200
    assert ret(leaf, hold, "q", "w2", 6, -1, "late")[0] == 200
    assert leaf.value(held) == 7
    assert ret(leaf, clear, "q", "w2", "two")[0] == 200
    assert ret(leaf, clear, "q", "w2", "two")[0] == 301
    assert leaf.value(held) == 8
    assert ret(leaf, clear, "q", "w2", None)[0] == 200
    assert leaf.value(held) is None


def test_a_tick_that_is_passed_cannot_be_held(leaf: Database) -> None:
    hold = "pgq_node.set_consumer_hold"
    assert ret(leaf, hold, "q", "w2", 5, 60, "x")[0] == 200
    assert ret(leaf, hold, "q", "w2", 4, 60, "x")[0] == 405
    assert ret(leaf, hold, "q", "nobody", 9, 60, "x")[0] == 404
