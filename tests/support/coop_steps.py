"""Small steps for tests of cooperative consumers."""

from __future__ import annotations

from typing import Any

import psycopg

from londiste.db.connection import Connection
from tests.support.queue_steps import insert, tick, value


def workers(conn: Connection, *names: str, queue: str = "q", consumer: str = "c") -> None:
    """Registers workers."""
    for name in names:
        conn.execute("select pgq_coop.register_subconsumer(%s, %s, %s)", [queue, consumer, name])


def batches(conn: Connection, *datas: str) -> None:
    """One batch per text."""
    for data in datas:
        insert(conn, data)
        tick(conn)


def take(conn: Connection, worker: str, dead: str | None = None) -> int | None:
    """Opens the worker's next batch of consumer c; its id."""
    batch = value(conn, "select pgq_coop.next_batch('q', 'c', %s, %s)", worker, dead)
    return None if batch is None else int(batch)


def must_take(conn: Connection, worker: str, dead: str | None = None) -> int:
    """As ``take`` for a batch that must be there."""
    batch = take(conn, worker, dead)
    assert batch is not None
    return batch


def finish(conn: Connection, batch: int) -> int:
    """Finishes a worker's batch."""
    return int(value(conn, "select pgq_coop.finish_batch(%s)", batch))


def subscription(conn: Connection, name: str) -> tuple[Any, ...] | None:
    """sub_last_tick, sub_batch, sub_next_tick of a consumer of queue q."""
    return conn.execute(
        "select sub_last_tick, sub_batch, sub_next_tick from pgq.subscription"
        " join pgq.consumer on co_id = sub_consumer where co_name = %s",
        [name],
    ).fetchone()


def silent_since(conn: Connection, worker: str, interval: str) -> None:
    """The worker gave no sign of life for that long."""
    done = conn.execute(
        "update pgq.subscription set sub_active = clock_timestamp() - %s::interval"
        " where sub_consumer = (select co_id from pgq.consumer where co_name = %s)",
        [interval, f"c.{worker}"],
    )
    assert done.rowcount == 1


class Warnings(list[str]):
    """The warnings of a session, as texts."""

    def __init__(self, conn: Connection) -> None:
        super().__init__()
        conn.add_notice_handler(self._note)

    def _note(self, diag: psycopg.errors.Diagnostic) -> None:
        if diag.severity_nonlocalized == "WARNING":
            self.append(diag.message_primary or "")
