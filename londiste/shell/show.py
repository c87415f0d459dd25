"""Results of the ``show`` statements of the queue shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import londiste
from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import StateError, UnknownNode, UnknownTable, did_you_mean
from londiste.install import ledger, source
from londiste.pgq import admin, batches, config, counting, queues
from londiste.replication import sqlapi as tables


@dataclass(frozen=True)
class Result:
    """A table, text lines, or both.

    columns -- empty when there is no table; end -- the session is over.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    lines: Sequence[str] = field(default=())
    end: bool = False


def show_version(conn: Connection) -> Result:
    rows: list[Sequence[object]] = [["londiste", londiste.__version__]]
    for schema in source.load():
        with conn.transaction():
            rows.append([f"schema {schema}", ledger.read(conn, schema).version])
    server = conn.info.parameter_status("server_version")
    return Result(("component", "version"), [*rows, ["PostgreSQL", server]])


def show_queue(conn: Connection, queue: str | None) -> Result:
    if queue is None or queue == "*":
        consumers = [each.queue_name for each in queues.get_consumer_info(conn)]
        return Result(
            ("queue", "consumers", "last_tick", "ticker_lag", "ev_per_sec", "ev_new"),
            [
                [
                    q.queue_name,
                    consumers.count(q.queue_name),
                    q.last_tick_id,
                    q.ticker_lag,
                    None if q.ev_per_sec is None else round(q.ev_per_sec, 1),
                    q.ev_new,
                ]
                for q in queues.get_queue_info(conn)
            ],
        )
    found = admin.find_queue(conn, queue)
    state = {
        "last_tick": found.last_tick_id,
        "ticker_lag": found.ticker_lag,
        "ev_per_sec": found.ev_per_sec,
        "ev_new": found.ev_new,
        **config.read(conn, queue)[queue],
    }
    return Result(("parameter", "value"), [[name, value] for name, value in state.items()])


def show_consumer(conn: Connection, consumer: str, queue: str | None) -> Result:
    if queue is not None:
        admin.find_queue(conn, queue)
    if queue is not None and consumer != "*":
        found = [admin.find_consumer(conn, queue, consumer)]
    else:
        found = [
            one
            for one in queues.get_consumer_info(conn, queue)
            if consumer in ("*", one.consumer_name)
        ]
    return Result(
        ("queue", "consumer", "lag", "last_seen", "last_tick", "batch", "pending_events"),
        [
            [
                one.queue_name,
                one.consumer_name,
                one.lag,
                one.last_seen,
                one.last_tick,
                one.current_batch,
                one.pending_events,
            ]
            for one in counting.pending(conn, found)
        ],
    )


def show_node(conn: Connection, queue: str, node: str | None) -> Result:
    local = nodes.get_node_info(conn, queue)
    members = nodes.get_queue_locations(conn, queue)
    if node not in (None, "*") and node not in {one.name for one in members}:
        raise UnknownNode(
            f"no node {node} of queue {queue}",
            hint=did_you_mean(
                str(node),
                [one.name for one in members],
                "nodes: " + ", ".join(one.name for one in members),
            ),
        )
    wanted = local.name if node is None else node
    rows = []
    for one in members:
        if wanted in ("*", one.name):
            is_local = one.name == local.name
            rows.append(
                [
                    one.name,
                    local.type if is_local else None,
                    local.provider if is_local else None,
                    local.last_tick if is_local else None,
                    local.paused if is_local else None,
                    one.location,
                    one.dead,
                ]
            )
    columns = ("node", "type", "provider", "last_tick", "paused", "location", "dead")
    return Result(columns, rows)


def show_batch(conn: Connection, number: int) -> Result:
    found = batches.get_batch_info(conn, number)
    if found is None:
        raise StateError(f"no batch {number} is open", hint="show consumer *")
    return Result(
        ("batch", "queue", "consumer", "prev_tick", "tick", "from", "to", "events"),
        [
            [
                found.id,
                found.queue,
                found.consumer,
                found.prev_tick_id,
                found.tick_id,
                found.prev_tick_time,
                found.tick_time,
                found.size_estimate,
            ]
        ],
    )


def show_table(conn: Connection, queues_of_nodes: Sequence[str], table: str) -> Result:
    name = TableName.parse(table)
    rows: list[Sequence[object]] = []
    for queue in queues_of_nodes:
        for one in tables.get_table_list(conn, queue):
            if name in (one.name, one.dest):
                rows.append(
                    [f"queue {queue}", one.state or ("-" if one.local else "not on this node")]
                )
                rows += [[f"attribute {key}", value] for key, value in one.attrs.items()]
    found = tuples(conn, "table_triggers_by_name", relation=name.quoted)
    rows += [[f"trigger {trigger}", text] for trigger, text in found]
    if not rows:
        exists = tuples(conn, "relation_name", relation=name.quoted)
        if not exists:
            raise UnknownTable(f"no table {name}", hint="londiste tables; londiste missing")
        rows = [["not replicated", f"londiste add table {name}"]]
    return Result(("of the table", "value"), rows)


def show_sequence(conn: Connection, queues_of_nodes: Sequence[str], sequence: str) -> Result:
    name = TableName.parse(sequence)
    rows: list[Sequence[object]] = [
        [queue, one.local, one.last_value]
        for queue in queues_of_nodes
        for one in tables.get_seq_list(conn, queue)
        if one.name == name
    ]
    if not rows:
        raise UnknownTable(f"no sequence {name} is replicated", hint="londiste seqs")
    return Result(("queue", "local", "published"), rows)


def list_tables(conn: Connection, queue: str) -> Result:
    nodes.get_node_info(conn, queue)
    rows = [
        [
            str(table.name),
            table.state,
            ", ".join(f"{key}={value}" for key, value in table.attrs.items()) or None,
            str(table.dest),
        ]
        for table in tables.get_table_list(conn, queue)
        if table.local
    ]
    return Result(("table", "state", "attributes", "here"), rows)


def list_sequences(conn: Connection, queue: str) -> Result:
    nodes.get_node_info(conn, queue)
    rows = [[str(q.name), q.local, q.last_value] for q in tables.get_seq_list(conn, queue)]
    return Result(("sequence", "local", "published"), rows)


def list_missing(conn: Connection, queue: str) -> Result:
    nodes.get_node_info(conn, queue)
    words = {"r": "table", "S": "sequence"}
    rows = [[words.get(m.kind, m.kind), m.name] for m in tables.local_show_missing(conn, queue)]
    return Result(("kind", "name"), rows)
