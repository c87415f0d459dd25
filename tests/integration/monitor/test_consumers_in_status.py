"""Streams, lakes and sinks are seen where all consumers are, and not lost with a node unasked."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from londiste.db.connection import Connection
from londiste.engine.spark.stream.driver import Driver
from londiste.engine.spark.stream.options import Options
from londiste.errors import StateError
from londiste.install import remove
from londiste.pgq import batches, queues, spark_epochs
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes


def stream(node: Node, name: str) -> None:
    """What a query does first."""
    driver = Driver(Options(dsn=node.dsn, queue=QUEUE, consumer=name))
    driver.initial()
    driver.close()


def sink(conn: Connection, name: str, target: str, query: str = "q1", epoch: int = 7) -> None:
    """What the sink of a query, or of a job, leaves."""
    with conn.transaction():
        spark_epochs.lock_sink(conn, name, target)
        spark_epochs.set_sink_epoch(conn, name, query, epoch, 3)


def test_status_and_the_list_of_consumers_show_streams_and_sinks(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    nodes_of.below(root, "leaf")
    stream(root, "orders_to_lake")
    with root.connect() as conn:
        batches.register_consumer(conn, QUEUE, "mailer")
        sink(conn, "alarms", f"queue {QUEUE}")
        sink(conn, "totals", "table public.totals")
        sink(conn, "elsewhere", "queue other")
        sink(conn, "a job", f"queue {QUEUE}", query="", epoch=0)
    last = root.tick()
    root.db.execute("update pgq.tick set tick_time = now() - interval '90 s' where tick_id = 1")
    (top, below) = (
        next(n for n in londiste(root.db, "status", "--json").json["nodes"] if n["name"] == name)
        for name in ("root", "leaf")
    )
    seen = {one["consumer"]: one for one in top["consumers"]}
    assert {name: one["kind"] for name, one in seen.items()} == {
        "orders_to_lake": "stream",
        "mailer": "consumer",
        "alarms": "sink",
        "totals": "sink",
    }
    behind = seen["orders_to_lake"]
    assert behind["last_tick"] < last
    assert 90 <= behind["lag"] < 300
    assert 0 <= behind["last_seen"] < 200
    assert (seen["alarms"]["epoch"], seen["totals"]["queue"]) == (7, None)
    assert 0 <= seen["alarms"]["last_seen"] < 200
    assert below["consumers"] == []
    shown = londiste(root.db, "status").out
    assert "Stream orders_to_lake: Lag: 1m" in shown
    assert "Consumer mailer: Lag: 1m" in shown
    assert "Sink totals: Epoch 7 into table public.totals, seen " in shown
    assert len(londiste(root.db, "status", "--compact").out.splitlines()) == 2

    rows = londiste(root.db, "queue", "consumers", "--json").json["consumers"]
    kinds = {row["consumer"]: row["kind"] for row in rows}
    assert kinds == {
        **{name: one["kind"] for name, one in seen.items()},
        "elsewhere": "sink",
        "w_leaf": "node",
        ".leaf.watermark": "watermark",
        ".global_watermark": "watermark",
    }
    of_queue = londiste(root.db, "queue", "consumers", QUEUE, "--json").json["consumers"]
    assert {row["consumer"] for row in of_queue} == set(kinds) - {"totals", "elsewhere"}
    (one,) = londiste(root.db, "queue", "consumers", QUEUE, "alarms", "--json").json["consumers"]
    assert (one["epoch"], one["target"], one["lag"]) == (7, f"queue {QUEUE}", None)


def test_many_consumers_are_not_all_in_the_tree(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    with root.connect() as conn:
        for number in range(13):
            batches.register_consumer(conn, QUEUE, f"c{number}")
    shown = londiste(root.db, "status").out
    assert shown.count("Consumer c") == 10
    assert "3 more: londiste queue consumers" in shown


def test_a_node_does_not_take_positions_of_queries_with_it_unasked(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    stream(branch, "orders_to_lake")
    with branch.connect() as conn:
        sink(conn, "alarms", f"queue {QUEUE}")
        sink(conn, "totals", "table public.totals")
    refused = londiste(root.db, "drop-node", "branch")
    assert refused.code == StateError("").exit_code
    assert "stream orders_to_lake is at tick" in refused.err
    assert "Spark sink alarms has written into the queue up to epoch 7" in refused.err
    assert "totals" not in refused.err
    assert "--drop-consumers" in refused.err
    with branch.connect() as conn:
        assert queues.get_consumer_info(conn, QUEUE, "orders_to_lake")
    assert londiste(root.db, "drop-node", "branch", "--drop-consumers").code == 0
    with branch.connect() as conn:
        assert queues.get_queue_info(conn, QUEUE) == []
        assert [one.sink for one in spark_epochs.get_sinks(conn)] == ["totals"]


def test_a_queue_is_not_dropped_under_its_sinks_unasked(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    with root.connect() as conn:
        queues.create_queue(conn, "alarms")
        sink(conn, "s", "queue alarms")
    refused = londiste(root.db, "queue", "drop", "alarms")
    assert "sink s of Spark writes into queue alarms, up to epoch 7" in refused.err
    assert londiste(root.db, "queue", "drop", "alarms", "--drop-consumers").code == 0
    with root.connect() as conn:
        assert spark_epochs.get_sinks(conn) == []


def test_what_sinks_have_noted_is_not_uninstalled_unasked(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    with root.connect() as conn:
        sink(conn, "alarms", "queue q")
        sink(conn, "monday", "queue q", query="", epoch=0)
    conn = root.db.connect()
    with pytest.raises(StateError) as caught:
        remove.uninstall(conn, ["pgq_ext"])
    assert "sink alarms of Spark, which writes to queue q, has its epoch 7" in str(caught.value)
    assert "finished jobs of Spark are recorded here: 1 (monday)" in caught.value.detail
    assert remove.uninstall(conn, ["pgq_ext"], force=True)
