"""``pause`` and ``resume``: request it from the worker of a node and wait for the answer."""

from __future__ import annotations

from londiste.cascade import daemons
from londiste.cascade import sqlapi as nodes
from londiste.daemon.waiting import wait_until
from londiste.db.connection import Connection
from londiste.errors import StateError, TransientError


def set_paused(
    conn: Connection, queue: str, consumer: str, paused: bool, *, timeout: float
) -> bool:
    """Sets the flag and waits for the acknowledgement; returns False if it was set already.

    conn -- in autocommit, on the database of the consumer.
    timeout -- seconds; 0 does not wait.

    Raises StateError when another session resets the flag during the wait.  Raises TransientError
    when the worker does not answer; the flag stays, so a worker that starts later obeys it.
    """
    changed = nodes.set_consumer_paused(conn, queue, consumer, paused)
    word = "pause" if paused else "resume"
    node = ""

    def answered() -> bool:
        nonlocal node
        state = nodes.get_consumer_state(conn, queue, consumer)
        if state.paused is not paused:
            raise StateError(
                f"{word} of {consumer} was cancelled",
                detail="another session has reset the flag",
                hint="londiste status shows which workers are paused",
            )
        node = state.node
        return state.uptodate

    if timeout > 0 and not wait_until(answered, timeout):
        start = "start it: londiste -c FILE worker"
        found = daemons.find(conn, queue)
        worker = daemons.running(found, "worker", name=consumer, start=start)
        raise TransientError(
            f"worker {consumer} of node {node} did not answer within {timeout:g} s",
            detail=f"the request to {word} is stored; the worker obeys it when it runs",
            hint=f"{worker.do}; or use --timeout 0, which does not wait",
        )
    return changed
