"""What keeps changes of replicated tables from a node: the findings of its captures and tables."""

from __future__ import annotations

from dataclasses import replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import InstallError
from londiste.monitor.captures import collect, rules
from londiste.monitor.nodes.doubts import doubt
from londiste.monitor.queues.model import Finding, Severity
from londiste.replication import replicated_rows
from londiste.replication import sqlapi as tables

#: Kinds of ``sql/queries/table_doubts.sql`` about tables that lack rows or values; captures are
#: beside them.
_LACKING = frozenset(("missing", "rewritten", "table-replaced", "partition-detached"))


def find(conn: Connection, queue: str) -> list[Finding]:
    """The findings about rows that a node or those below lack, with remedies as read anywhere.

    They are those of ``check``, and are collected where ``status`` shows an error.  None for a node
    with the SQL of an earlier version.
    """
    try:
        return _find(conn, queue) if _is_suspected(conn, queue) else []
    except InstallError:
        return []


def _is_suspected(conn: Connection, queue: str) -> bool:
    """Whether the node has such a finding, without a look at each table."""
    return bool(
        tables.renamed_tables(conn, queue)
        or tuples(conn, "table_losses", queue=queue)
        or tables.rewritten_tables(conn, queue)
        or replicated_rows.silent(conn, queue)
    )


def _find(conn: Connection, queue: str) -> list[Finding]:
    node = nodes.get_node_info(conn, queue)
    root = node.type is NodeType.ROOT
    found = [
        one
        for one in rules.findings(collect.collect(conn, queue), queue)
        if one.severity is Severity.CRITICAL
    ]
    doubts = [
        one
        for one in tuples(conn, "table_doubts", queue=queue)
        # The capture of a root says that its table does not exist.
        if one[0] in _LACKING and not (root and one[0] == "missing")
    ]
    if node.type is not NodeType.LEAF:
        doubts += replicated_rows.silent(conn, queue)
    for kind, table, detail in doubts:
        severity, what, why, do = doubt(kind, table, detail, queue, node.name, root=root)
        found.append(Finding(severity, kind, what, why, do, queue))
    return [replace(one, do=_placed(one.do, node.name)) for one in found]


def _placed(do: str, node: str) -> str:
    """Pure: a remedy, which begins on its node or below, as it is read anywhere."""
    if do.startswith("on each node below: "):
        return do.replace("; then here: ", f"; then on node {node}: ")
    return f"{'with the settings of' if do.startswith('londiste ') else 'on node'} {node}: {do}"
