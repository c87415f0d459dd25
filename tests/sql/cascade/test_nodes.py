"""Creating, describing and dropping nodes."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret
from tests.support.queue_steps import refused


def info(db: Database, queue: str = "q") -> dict[str, Any]:
    with psycopg.connect(db.dsn, row_factory=psycopg.rows.dict_row) as conn:
        row = conn.execute("select * from pgq_node.get_node_info(%s)", [queue]).fetchone()
        assert row is not None
        return row


def test_a_root_has_a_queue_and_its_worker_reads_from_itself(pgq_db: Database) -> None:
    make_root(pgq_db)
    found = info(pgq_db)
    assert found["ret_code"] == 100
    assert (found["node_type"], found["node_name"], found["provider_node"]) == ("root", "n1", "n1")
    assert found["global_watermark"] == found["local_watermark"] == found["worker_last_tick"] == 1
    assert found["worker_name"] == "w1"
    assert found["provider_location"] == "dbname=n1"
    assert found["combined_queue"] is None
    assert pgq_db.value("select count(*) from pgq.get_consumer_info('q', '.global_watermark')") == 1
    assert pgq_db.value("select pgq_node.is_root_node('q')") is True
    assert pgq_db.value("select pgq_node.is_leaf_node('q')") is False


def test_an_unknown_queue_has_a_row_of_nulls(pgq_db: Database) -> None:
    found = info(pgq_db, "nothing")
    assert found.pop("ret_code") == 404
    assert "nothing" in found.pop("ret_note")
    assert set(found.values()) == {None}
    state = ret(pgq_db, "pgq_node.get_worker_state", "nothing")
    assert state[0] == 404


@pytest.mark.parametrize("kind", ["root", "leaf"])
def test_the_type_of_an_unknown_queue_is_an_error(pgq_db: Database, kind: str) -> None:
    with pytest.raises(psycopg.Error, match="queue does not exist: nothing") as caught:
        pgq_db.execute(f"select pgq_node.is_{kind}_node('nothing')")
    assert caught.value.sqlstate == "LD001"
    assert caught.value.diag.message_hint


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("root", "n1", "w1", "n2", None, None), 401),
        (("root", "n1", "w1", None, 1, None), 401),
        (("root", "n1", "w1", None, None, "other"), 401),
        (("branch", "n1", "w1", None, 1, None), 401),
        (("branch", "n1", "w1", "n2", None, None), 401),
        (("branch", "n1", "w1", "n2", 1, "other"), 401),
        (("leaf", "n1", "w1", None, 1, None), 401),
        (("leaf", "n1", "w1", "n2", 1, "other"), 401),
        (("twig", "n1", "w1", "n2", 1, None), 401),
        ((None, "n1", "w1", "n2", 1, None), 401),
        (("root", "n1", None, None, None, None), 401),
        (("root", "n9", "w1", None, None, None), 404),
        (("leaf", "n1", "w1", "n9", 1, None), 404),
    ],
)
def test_arguments_that_do_not_fit_the_type_leave_nothing_behind(
    pgq_db: Database, args: tuple[Any, ...], code: int
) -> None:
    for name in ("n1", "n2"):
        ret(pgq_db, "pgq_node.register_location", "q", name, f"dbname={name}", False)
    assert ret(pgq_db, "pgq_node.create_node", "q", *args)[0] == code
    assert pgq_db.value("select count(*) from pgq_node.node_info") == 0
    assert pgq_db.value("select count(*) from pgq.queue") == 0


def test_a_database_is_one_node_per_queue(pgq_db: Database) -> None:
    make_root(pgq_db)
    answer = ret(pgq_db, "pgq_node.create_node", "q", "root", "n1", "w1", None, None, None)
    assert answer == (401, "Node already initialized")


def test_a_branch_starts_at_the_watermark_and_takes_no_writes(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=7)
    found = info(pgq_db)
    assert found["node_type"] == "branch"
    assert found["global_watermark"] == found["local_watermark"] == found["worker_last_tick"] == 7
    state = ret(pgq_db, "pgq_node.get_worker_state", "q")
    assert state[0] == 100
    assert pgq_db.execute("select queue_external_ticker, queue_disable_insert from pgq.queue") == [
        (True, True)
    ]
    with pytest.raises(psycopg.Error, match="Insert into queue disallowed"):
        pgq_db.execute("select pgq.insert_event('q', 'x', 'y')")


def test_a_branch_needs_a_database_without_the_queue(pgq_db: Database) -> None:
    pgq_db.execute("select pgq.create_queue('q')")
    for name in ("n1", "n2"):
        ret(pgq_db, "pgq_node.register_location", "q", name, f"dbname={name}", False)
    answer = ret(pgq_db, "pgq_node.create_node", "q", "branch", "n2", "w2", "n1", 1, None)
    assert answer == (401, "Queue already exists: q")


def test_a_leaf_has_no_queue_and_its_watermark_is_its_position(pgq_db: Database) -> None:
    make_leaf(pgq_db, tick=5)
    found = info(pgq_db)
    assert found["local_watermark"] == found["worker_last_tick"] == 5
    assert found["global_watermark"] is None
    assert pgq_db.value("select count(*) from pgq.queue") == 0
    assert pgq_db.value("select pgq_node.is_leaf_node('q')") is True


def test_the_local_watermark_is_that_of_the_slowest_consumer(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("select pgq.register_consumer('q', 'slow')")
    for _ in range(2):
        pgq_db.execute("select pgq.force_tick('q')")
        pgq_db.execute("select pgq.ticker('q')")
    pgq_db.execute("select pgq.register_consumer('q', 'fast')")
    found = info(pgq_db)
    assert (found["local_watermark"], found["worker_last_tick"]) == (1, 3)
    pgq_db.execute("select pgq.unregister_consumer('q', 'slow')")
    assert info(pgq_db)["local_watermark"] == 3


def test_dropping_the_local_node_takes_its_queue_along(pgq_db: Database) -> None:
    make_root(pgq_db)
    ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)
    ret(pgq_db, "pgq_node.register_subscriber", "q", "n2", "w2", None)
    assert ret(pgq_db, "pgq_node.drop_node", "q", "n1")[0] == 200
    for table in ("node_info", "local_state", "subscriber_info", "node_location"):
        assert pgq_db.value(f"select count(*) from pgq_node.{table}") == 0
    assert pgq_db.value("select count(*) from pgq.queue") == 0


@pytest.mark.parametrize("force", [False, True])
def test_the_queue_of_a_node_is_dropped_with_the_node_only(pgq_db: Database, force: bool) -> None:
    make_root(pgq_db)
    with refused("LD100", "queue q belongs to node n1 of a cascade"):
        pgq_db.execute("select pgq.drop_queue('q', %s)", force)


def test_dropping_another_node_ends_its_subscription(pgq_db: Database) -> None:
    make_root(pgq_db)
    ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)
    ret(pgq_db, "pgq_node.register_subscriber", "q", "n2", "w2", None)
    assert ret(pgq_db, "pgq_node.drop_node", "q", "n2")[0] == 200
    assert pgq_db.execute("select consumer_name from pgq.get_consumer_info('q')") == [
        (".global_watermark",)
    ]
    assert pgq_db.execute("select node_name from pgq_node.get_queue_locations('q')") == [("n1",)]


def test_the_provider_cannot_be_dropped(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    assert ret(pgq_db, "pgq_node.drop_node", "q", "n1")[0] == 405
    assert info(pgq_db)["provider_node"] == "n1"


def test_attributes_are_stored(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.set_node_attrs", "q", "a=1")[0] == 200
    assert info(pgq_db)["node_attrs"] == "a=1"
    assert ret(pgq_db, "pgq_node.set_node_attrs", "nothing", "a=1")[0] == 404


def test_the_version_is_told(pgq_db: Database) -> None:
    assert str(pgq_db.value("select pgq_node.version()"))[0] >= "3"
    assert pgq_db.value("select pgq_node.upgrade_schema()") == 0


def test_the_first_tick_of_a_new_branch_gets_the_time_that_it_has_at_its_provider(
    pgq_db: Database,
) -> None:
    make_branch(pgq_db, tick=7)
    noon = "2026-01-02 12:00:00+00"
    assert ret(pgq_db, "pgq_node.set_start_tick", "q", noon)[0] == 200
    assert pgq_db.value("select tick_time = %s from pgq.tick where tick_id = 7", noon) is True
    pgq_db.execute("select pgq.ticker('q', 8, now(), 1)")
    assert ret(pgq_db, "pgq_node.set_start_tick", "q", noon)[0] == 404
    assert ret(pgq_db, "pgq_node.set_start_tick", "other", noon)[0] == 404
