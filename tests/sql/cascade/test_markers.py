"""The marker of a subscriber is removed with it, also during a concurrent report."""

from __future__ import annotations

import threading

import psycopg

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import QUEUE, Nodes
from tests.support.waiting import wait_for

WAITING = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


def test_a_watermark_that_is_reported_late_leaves_no_marker_behind(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    tick = root.tick()
    marker = "select count(*) from pgq.get_consumer_info('q', '.branch.watermark')"
    assert root.db.value(marker) == 1
    answers: dict[str, object] = {}

    def call(name: str, statement: str, *args: object) -> threading.Thread:
        def run() -> None:
            answers[name] = root.db.value(statement, *args)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with psycopg.connect(root.dsn) as busy:
        busy.execute("select from pgq.queue for update")
        late = call(
            "late",
            "select ret_code from pgq_node.set_subscriber_watermark(%s, 'branch', %s)",
            QUEUE,
            tick,
        )
        wait_for(lambda: root.db.value(WAITING) == 1, what="the report that waits")
        gone = call(
            "gone", "select ret_code from pgq_node.unregister_subscriber(%s, 'branch')", QUEUE
        )
        wait_for(
            lambda: root.db.value(WAITING) == 2 or not gone.is_alive(), what="the end, or its wait"
        )
    for thread in (late, gone):
        thread.join(60)
    assert answers == {"late": 200, "gone": 200}
    assert root.db.value(marker) == 0, f"a marker that nobody moves, of {branch.name}"
