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
from londiste.replication import sqlapi as tables

#: Kinds of ``sql/queries/table_doubts.sql`` about tables that lack rows; captures are beside them.
_LACKING = frozenset(("missing", "table-replaced", "partition-detached"))


def find(conn: Connection, queue: str) -> list[Finding]:
    """The critical findings of a node, with remedies as they are read anywhere.

    They are those of ``check``, and are collected where ``status`` shows an error.  None for a node
    with the SQL of an earlier version.
    """
    try:
        if not tables.renamed_tables(conn, queue) and not tuples(conn, "table_losses", queue=queue):
            return []
        return _find(conn, queue)
    except InstallError:
        return []


def _find(conn: Connection, queue: str) -> list[Finding]:
    node = nodes.get_node_info(conn, queue)
    root = node.type is NodeType.ROOT
    found = rules.findings(collect.collect(conn, queue), queue)
    for kind, table, detail in tuples(conn, "table_doubts", queue=queue):
        # The capture of a root says that its table does not exist.
        if kind in _LACKING and not (root and kind == "missing"):
            severity, what, why, do = doubt(kind, table, detail, queue, node.name, root=root)
            found.append(Finding(severity, kind, what, why, do, queue))
    return [
        replace(one, do=_placed(one.do, node.name))
        for one in found
        if one.severity is Severity.CRITICAL
    ]


def _placed(do: str, node: str) -> str:
    """Pure: a remedy, which begins on its node, as it is read anywhere."""
    return f"{'with the settings of' if do.startswith('londiste ') else 'on node'} {node}: {do}"
