"""Typed wrappers of the SQL functions of schema ``pgq_node`` that Londiste calls.

Database errors and return codes of 400 and above are raised as ``londiste.errors``.  No function
commits; on a connection that is not in autocommit the caller decides.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from londiste.cascade.model import (
    CascadedConsumer,
    ConsumerState,
    Hold,
    Member,
    NodeInfo,
    NodeType,
    Subscriber,
    WorkerState,
)
from londiste.db import call
from londiste.db.connection import Connection, describe_dsn
from londiste.db.queries import has_function
from londiste.errors import CombinedClosed, UnknownConsumer, UnknownNode
from londiste.pgq.types import Batch

#: ret_code of pgq_node.unregister_location.
_LOCATION_NOT_FOUND = 301

# -- nodes --------------------------------------------------------------------


def create_node(
    conn: Connection,
    queue: str,
    node_type: NodeType,
    node: str,
    worker: str,
    *,
    provider: str | None = None,
    global_watermark: int | None = None,
    combined_queue: str | None = None,
) -> None:
    """Creates a node.  Raises StateError when there is one, or when the arguments conflict."""
    call.ret(
        conn,
        "pgq_node.create_node",
        queue,
        node_type.value,
        node,
        worker,
        provider,
        global_watermark,
        combined_queue,
    )


def set_start_tick(conn: Connection, queue: str, tick_time: datetime) -> None:
    """Gives the first tick of a new branch the time of that tick at its provider."""
    call.ret(conn, "pgq_node.set_start_tick", queue, tick_time)


def drop_node(conn: Connection, queue: str, node: str) -> None:
    """Forgets a node; on the node itself drops its queue.  StateError: it is the provider."""
    call.ret(conn, "pgq_node.drop_node", queue, node)


def find_node_info(conn: Connection, queue: str) -> NodeInfo | None:
    """The node that the database is in the queue; None when it is none."""
    row = call.row(conn, "pgq_node.get_node_info", queue)
    if row["node_type"] is None:
        return None
    return NodeInfo(
        queue=queue,
        type=NodeType(row["node_type"]),
        name=row["node_name"],
        provider=row["provider_node"],
        provider_location=row["provider_location"],
        worker=row["worker_name"],
        paused=row["worker_paused"],
        uptodate=row["worker_uptodate"],
        last_tick=row["worker_last_tick"],
        local_watermark=row["local_watermark"],
        global_watermark=row["global_watermark"],
        combined_queue=row["combined_queue"],
        combined_type=_type(row["combined_type"]),
        attrs=row["node_attrs"],
        target_for=tuple(row["target_for"] or ()),
    )


def get_node_info(conn: Connection, queue: str) -> NodeInfo:
    """The node that the database is in the queue.  Raises UnknownNode when it is none."""
    info = find_node_info(conn, queue)
    if info is None:
        raise _no_node(conn, queue)
    return info


def get_worker_state(conn: Connection, queue: str) -> WorkerState:
    """What a worker needs before its next batch.  Raises UnknownNode."""
    return _worker_state(conn, queue, call.row(conn, "pgq_node.get_worker_state", queue))


def looked(
    conn: Connection, queue: str, state: dict[str, Any], hold: dict[str, Any]
) -> tuple[WorkerState, Hold | None]:
    """Rows of ``get_worker_state`` and ``get_consumer_hold`` that came along with others.

    Raises UnknownNode.
    """
    return _worker_state(conn, queue, state), _hold(hold)


def _worker_state(conn: Connection, queue: str, row: dict[str, Any]) -> WorkerState:
    if row["ret_code"] >= 400:
        raise _no_node(conn, queue, detail=row["ret_note"])
    return WorkerState(
        queue=queue,
        type=NodeType(row["node_type"]),
        name=row["node_name"],
        worker=row["worker_name"],
        completed_tick=row["completed_tick"],
        provider=row["provider_node"],
        provider_location=row["provider_location"],
        paused=row["paused"],
        uptodate=row["uptodate"],
        cur_error=row["cur_error"],
        global_watermark=row["global_watermark"],
        local_watermark=row["local_watermark"],
        queue_top=row["local_queue_top"],
        combined_queue=row["combined_queue"],
        combined_type=_type(row["combined_type"]),
    )


def set_node_attrs(conn: Connection, queue: str, attrs: str | None) -> None:
    """Replaces the attributes of the local node (url-encoded)."""
    call.ret(conn, "pgq_node.set_node_attrs", queue, attrs)


def is_root_node(conn: Connection, queue: str) -> bool:
    """Raises UnknownQueue when the database is no node of it."""
    return bool(call.value(conn, "pgq_node.is_root_node", queue))


# -- locations ----------------------------------------------------------------


def register_location(
    conn: Connection, queue: str, node: str, location: str | None, *, dead: bool = False
) -> None:
    """Stores the location of a node; None keeps the known one.  The root informs all nodes."""
    call.ret(conn, "pgq_node.register_location", queue, node, location, dead)


def unregister_location(conn: Connection, queue: str, node: str) -> None:
    """Forgets a node's location and subscription.  StateError: own or provider's location."""
    call.ret(conn, "pgq_node.unregister_location", queue, node)


def follow_unregister_location(conn: Connection, queue: str, node: str, event: int) -> None:
    """The same as an event asks for it, but for a subscriber that was made after the event.

    A location that the command has deleted here already is no warning.
    """
    function = "pgq_node.unregister_location"
    answer = call.row(conn, function, queue, node, event)
    if answer["ret_code"] != _LOCATION_NOT_FOUND:
        call.answered(function, answer)


def get_queue_locations(conn: Connection, queue: str) -> list[Member]:
    """The nodes of a queue that the database knows, by name."""
    return call.records(conn, Member, "pgq_node.get_queue_locations", queue)


def was_dropped(conn: Connection, queue: str, node: str, location: str) -> bool:
    """Whether the node there was dropped while it was marked as failed; False for earlier SQL."""
    known = has_function(conn, "pgq_node.was_dropped(text,text,text)")
    return known and bool(call.value(conn, "pgq_node.was_dropped", queue, node, location))


# -- subscribers --------------------------------------------------------------


def register_subscriber(
    conn: Connection, queue: str, node: str, worker: str, tick: int | None = None
) -> int:
    """Subscribes a node, from ``tick`` or the global watermark on; returns the latter."""
    answer = call.ret(conn, "pgq_node.register_subscriber", queue, node, worker, tick)
    return int(answer.row["global_watermark"])


def set_subscriber_since(conn: Connection, queue: str, node: str, event: int) -> None:
    """Notes that a subscriber was made after this event of the root."""
    call.ret(conn, "pgq_node.set_subscriber_since", queue, node, event)


def unregister_subscriber(conn: Connection, queue: str, node: str) -> None:
    """Ends a subscription; logs a warning if there is none."""
    call.ret(conn, "pgq_node.unregister_subscriber", queue, node)


def get_subscriber_info(conn: Connection, queue: str) -> list[Subscriber]:
    """The nodes that read from this one."""
    return call.records(conn, Subscriber, "pgq_node.get_subscriber_info", queue)


# -- consumers ----------------------------------------------------------------


def register_consumer(
    conn: Connection, queue: str, consumer: str, provider: str, tick: int
) -> None:
    """Registers the position of a cascaded consumer; moves an existing one."""
    call.ret(conn, "pgq_node.register_consumer", queue, consumer, provider, tick)


def unregister_consumer(conn: Connection, queue: str, consumer: str) -> None:
    """Removes its position, if there is one."""
    call.ret(conn, "pgq_node.unregister_consumer", queue, consumer)


def change_consumer_provider(conn: Connection, queue: str, consumer: str, provider: str) -> None:
    """Requests a consumer to read from another node; it acknowledges with ``uptodate``."""
    call.ret(conn, "pgq_node.change_consumer_provider", queue, consumer, provider)


def set_consumer_uptodate(conn: Connection, queue: str, consumer: str, uptodate: bool) -> None:
    """The consumer has seen the last change of its provider and pause flag."""
    call.ret(conn, "pgq_node.set_consumer_uptodate", queue, consumer, uptodate)


def set_consumer_paused(conn: Connection, queue: str, consumer: str, paused: bool) -> bool:
    """Requests a consumer to pause or resume; False when that is requested already."""
    answer = call.ret(conn, "pgq_node.set_consumer_paused", queue, consumer, paused)
    return answer.code == 200


def set_consumer_completed(conn: Connection, queue: str, consumer: str, tick: int) -> None:
    """Sets the position unconditionally."""
    call.ret(conn, "pgq_node.set_consumer_completed", queue, consumer, tick)


def move_consumer_completed(
    conn: Connection, queue: str, consumer: str, batch: Batch
) -> Callable[[], None]:
    """Moves the position past the batch, only from its beginning; inside the caller's pipeline.

    Notes the tick by which the queue is known again, too.

    The returned function is called after the pipeline and raises Superseded on any other position.
    """
    function = "pgq_node.move_consumer_completed"
    rows = call.later(
        conn, function, queue, consumer, batch.prev_tick_id, batch.tick_id, batch.tick_time
    )

    def check() -> None:
        call.answered(function, rows()[0])

    return check


def set_consumer_error(conn: Connection, queue: str, consumer: str, message: str | None) -> None:
    """Stores an error message for status; None clears it.  An unknown consumer is ignored."""
    call.ret(conn, "pgq_node.set_consumer_error", queue, consumer, message)


def get_consumer_state(conn: Connection, queue: str, consumer: str) -> ConsumerState:
    """Position and flags.  Raises UnknownConsumer."""
    row = call.row(conn, "pgq_node.get_consumer_state", queue, consumer)
    if row["ret_code"] >= 400:
        raise UnknownConsumer(
            f"consumer {consumer} of queue {queue} has no position"
            f" in {describe_dsn(conn.info.dsn)}",
            detail=row["ret_note"],
            hint="londiste node-info shows the worker of the node; compare job_name with it",
        )
    return ConsumerState(
        consumer=consumer,
        node=row["node_name"],
        node_type=NodeType(row["node_type"]),
        completed_tick=row["completed_tick"],
        provider=row["provider_node"],
        provider_location=row["provider_location"],
        paused=row["paused"],
        uptodate=row["uptodate"],
        cur_error=row["cur_error"],
    )


def get_consumer_info(conn: Connection, queue: str) -> list[CascadedConsumer]:
    """All cascaded consumers of the node."""
    return call.records(conn, CascadedConsumer, "pgq_node.get_consumer_info", queue)


def set_consumer_hold(
    conn: Connection, queue: str, consumer: str, tick: int, seconds: int, holder: str
) -> None:
    """Requests the consumer to pause at ``tick``.  Raises StateError when it has passed it."""
    call.ret(conn, "pgq_node.set_consumer_hold", queue, consumer, tick, seconds, holder)


def clear_consumer_hold(
    conn: Connection, queue: str, consumer: str, holder: str | None = None
) -> None:
    """Withdraws a holder's request, or (None) all requests, if there are any."""
    call.row(conn, "pgq_node.clear_consumer_hold", queue, consumer, holder)


def _hold(row: dict[str, Any]) -> Hold | None:
    """The lowest tick at which the consumer has to pause; None when it may run."""
    return None if row["tick_id"] is None else Hold(row["tick_id"])


# -- watermarks ---------------------------------------------------------------


def set_subscriber_watermark(conn: Connection, queue: str, node: str, tick: int) -> None:
    """Reports to a provider the tick that ``node`` and all nodes below have finished."""
    call.ret(conn, "pgq_node.set_subscriber_watermark", queue, node, tick)


def set_global_watermark(conn: Connection, queue: str, tick: int | None) -> None:
    """Moves the global watermark; None on the root: to the minimum of its subscribers."""
    call.ret(conn, "pgq_node.set_global_watermark", queue, tick)


def insert_part_tick(conn: Connection, combined: str, part: str, tick: int) -> Callable[[], None]:
    """Writes the position of a part into the combined queue, inside the caller's pipeline.

    The returned function is called after the pipeline.  It raises CombinedClosed when the combined
    queue is no root here that takes events: the transaction must be rolled back then.
    """
    rows = call.later(conn, "pgq_node.insert_part_tick", combined, part, tick)

    def check() -> None:
        if rows()[0]["ret_code"] >= 400:
            raise CombinedClosed(
                f"combined queue {combined} takes no events in {describe_dsn(conn.info.dsn)}",
                detail=f"queue {part} merges into it and waits",
                hint="if the combined root is being changed: wait for that command, or repeat it;"
                f" otherwise, with the settings of queue {combined}: londiste status shows which"
                " node is its root",
            )

    return check


def announce_parts(conn: Connection, combined: str) -> None:
    """Writes the position of each part into a combined queue.  Raises UnknownNode; logs a
    warning when the node is no root."""
    call.ret(conn, "pgq_node.announce_parts", combined)


def set_partition_watermark(conn: Connection, combined: str, part: str, tick: int) -> None:
    """Where the combined queue is a branch: sets the part's position to ``tick``."""
    call.ret(conn, "pgq_node.set_partition_watermark", combined, part, tick)


def _type(text: Any) -> NodeType | None:
    return None if text is None else NodeType(text)


def _no_node(conn: Connection, queue: str, detail: str = "") -> UnknownNode:
    return UnknownNode(
        f"{describe_dsn(conn.info.dsn)} is not a node of queue {queue}",
        detail=detail,
        hint="create it: londiste create-root NAME, or londiste create-leaf NAME --provider DSN"
        " (create-branch, to forward events); or correct queue_name or db in the settings",
    )
