"""Facts about the tables and sequences of one node or of all nodes of a cascade."""

from __future__ import annotations

from collections.abc import Callable

from londiste.cascade import daemons
from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching import operation_log
from londiste.db.connection import Connection
from londiste.db.queries import fetch, tuples
from londiste.db.relation import shapes
from londiste.errors import LondisteError
from londiste.monitor.node_errors import copies_paused, has_queue, is_lost, unregistered
from londiste.monitor.nodes.rules import NodeFacts
from londiste.monitor.nodes.table_facts import TableFacts
from londiste.orchestration.connections import Connections
from londiste.replication import replicated_rows, replication_role
from londiste.replication import sqlapi as tables
from londiste.replication.commands import fkeys, merged_tables
from londiste.replication.model import COPY_BELOW


def collect(conn: Connection, queue: str) -> NodeFacts:
    """The facts of the node of ``conn``.  Raises UnknownNode."""
    node = nodes.get_node_info(conn, queue)
    known = tables.get_table_list(conn, queue)
    found = shapes(conn, [t.dest for t in known if t.local])
    table_keys = merged_tables.keys(conn, queue, [t.dest for t in known if t.local])
    errors = {c.name: c.cur_error or "" for c in nodes.get_consumer_info(conn, queue)}
    under_way = operation_log.find(conn, queue)
    doubts = [
        *tuples(conn, "table_doubts", queue=queue),
        *tuples(conn, "partition_names", queue=queue),
        *(
            (kind, table, "\0".join(more))
            for kind, table, *more in tuples(conn, "unreplicated_sequences", queue=queue)
        ),
        *tuples(conn, "sequence_doubts", queue=queue),
        *replicated_rows.silent(conn, queue),
        *(
            ("type-owner", row["table_name"], "\n".join((row["type"], row["owner"], row["remedy"])))
            for row in fetch(conn, "types_of_others", tables=[t.quoted for t in found])
        ),
        *(
            ("table-owner", one.pop("table_name"), "\n".join(one.values()))
            for one in fetch(conn, "owners_without_set", tables=[t.quoted for t in found])
        ),
    ]
    keys = []
    for key in fkeys.collect(conn, queue):
        judged = fkeys.judge(key)
        if judged.state not in {"active", "not enforced"}:
            do = judged.do or "wait until that is done: londiste fkeys"
            keys.append((f"{key.name} of {key.from_table}", judged.state, judged.why, do))
    return NodeFacts(
        node.name,
        node.type.value,
        {
            str(t.name): TableFacts(
                t.local,
                t.state,
                errors.get(f"{node.worker}.copy.{t.name}", ""),
                {c.name: c.type_name for c in found[t.dest].columns} if t.dest in found else {},
                t.is_whole,
                COPY_BELOW in t.attrs,
                t.named_columns,
                t.known_rules,
                {c.name: c.base_type for c in found[t.dest].columns if c.base_type is not None}
                if t.dest in found
                else {},
                table_keys.get(t.dest, ()) if t.local else (),
                t.dest.quoted,
            )
            for t in known
        },
        {str(s.name): s.last_value if s.local else None for s in tables.get_seq_list(conn, queue)},
        tuple((kind, table, detail) for kind, table, detail in doubts),
        tuple(sorted(keys)),
        tuple(tables.get_follow_errors(conn, queue)),
        (
            *(
                (name, text.splitlines()[0])
                for name, text in sorted(errors.items())
                # Of a copy: its table has a finding.
                if text and not name.startswith(f"{node.worker}.copy.")
            ),
            *unregistered(conn, queue, node, has_queue=has_queue(conn, queue, node)),
        ),
        node.paused,
        None if under_way is None else (under_way.describe(), under_way.command(node.name)),
        daemons.worker(
            conn,
            queue,
            daemons.find(conn, queue),
            name=node.worker,
            start=daemons.start_worker(node.name),
        ),
        copies_paused(conn, queue, missing=[]),
        replication_role.find(conn),
        is_lost(conn, queue, node),
    )


def everywhere(
    sites: Connections,
    dsn: str,
    queue: str,
    visit: Callable[[Connection, str], None] = lambda conn, node: None,
) -> tuple[list[tuple[NodeFacts, str]], list[tuple[str, LondisteError]]]:
    """The nodes that answer, each with the name of its provider, and the others with their error.

    visit -- called with each node that answers, too.
    """
    local = sites.at(dsn)
    found, silent = [], []
    own = nodes.get_node_info(local, queue).name
    for member in nodes.get_queue_locations(local, queue):
        if member.dead:
            continue
        try:
            conn = sites.at(
                dsn if member.name == own else sites.reach(member.location, member.name)
            )
            provider = nodes.get_node_info(conn, queue).provider
            found.append((collect(conn, queue), provider))
            visit(conn, member.name)
        except LondisteError as error:
            silent.append((member.name, error))
    return found, silent
