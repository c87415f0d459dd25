"""Findings about one step of a set-up: a node that is created, tables that are added."""

from __future__ import annotations

from dataclasses import replace

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.checks.types import is_xml
from londiste.monitor.doctor.examine import run_checks, worst_first
from londiste.monitor.doctor.situation import Situation
from londiste.monitor.queues.model import Finding

#: Ids of findings about a node, before its tables are known.
NODE = frozenset(
    (
        "version",
        "standby",
        "read-only",
        "replica",
        "replication-role",
        "administration",
        "connections",
        "encoding",
        "clock",
    )
)

#: Ids of findings about tables of which ``add-table`` itself says nothing.
TABLE = frozenset(
    ("always", "rule", "deferrable", "policies", "enum", "type", "type-owner", "table-owner")
)


def node_findings(
    conn: Connection, dsn: str, provider: tuple[Connection, str] | None = None
) -> list[Finding]:
    """Findings about the database of a new node, and its provider.

    conn -- in autocommit.  provider -- session and connection string; None: the node is a root.
    """
    with translated(conn):
        here = collect.collect_server(conn, dsn)
        if provider is None:
            pair = Situation(here, names=("root", "target"))
        else:
            above = collect.collect_server(*provider)
            pair = Situation(above, here, names=("provider", "node"))
    return worst_first(one for one in run_checks(pair) if one.kind in NODE)


def table_findings(
    conn: Connection, provider: Connection | None, tables: list[TableName]
) -> list[Finding]:
    """Findings about tables that the database of ``conn`` adds; no provider: it is the root."""
    if not tables:
        return []
    here = collect.collect_tables(conn)
    above = here if provider is None else collect.collect_tables(provider)
    xml = any(t.name in tables and any(map(is_xml, t.columns)) for t in above.tables)
    if provider is not None and xml:
        here = replace(here, more=replace(here.more, xml=collect.has_xml(conn)))
        above = replace(above, more=replace(above.more, xml=collect.has_xml(provider)))
    pair = Situation(
        above,
        None if provider is None else here,
        names=("root" if provider is None else "provider", "node"),
        chosen=frozenset(tables),
    )
    return worst_first(one for one in run_checks(pair) if one.kind in TABLE)
