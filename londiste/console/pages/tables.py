"""Page Tables: state, size, rules and last verification of the tables of all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from londiste.console.facts import Fact, NodeFacts
from londiste.console.pages import common
from londiste.console.pages.common import Page, Request
from londiste.handlers.table_rules import ON_ERROR, resolution
from londiste.monitor.status import NodeStatus
from londiste.replication.model import ReplicatedTable


@dataclass(frozen=True)
class TableRow:
    """A table of a node.

    state -- ok only while the node applies changes; else as ``londiste tables`` shows it.
    rows, bytes -- estimates of the server, of its last VACUUM or ANALYZE.
    handler, filter, on_error -- its rules.
    verified_at -- since when all its ranges have been compared by the audit; differing -- rows.
    here -- its name in the database of the node.
    """

    node: str
    table: str
    state: str
    rows: int | None
    bytes: int | None
    handler: str | None
    filter: str | None
    on_error: str | None
    verified_at: datetime | None
    differing: int | None
    here: str


@dataclass(frozen=True)
class StateRow:
    """How many tables of a node are in a state."""

    node: str
    state: str
    tables: int


@dataclass(frozen=True, kw_only=True)
class TablesPage(Page):
    """Replicated tables; those that match the words of the query string ``node`` and ``find``."""

    root: str | None = None
    states: tuple[StateRow, ...] = ()
    tables: tuple[TableRow, ...] = ()


def build(request: Request) -> TablesPage:
    """The values of the page."""
    head = common.head(request, "londiste tables", Fact.TABLES, Fact.AUDIT)
    snapshot = request.view.snapshot
    if snapshot is None:
        return TablesPage(**head)
    wanted, find = request.query.get("node", ""), request.query.get("find", "").lower()
    every = [
        row
        for node in snapshot.status.nodes
        if node.name in snapshot.nodes and wanted in ("", node.name)
        for row in _rows(node, snapshot.nodes[node.name])
    ]
    states = Counter((row.node, row.state) for row in every)
    return TablesPage(
        **head,
        root=common.root(request),
        states=tuple(StateRow(node, state, n) for (node, state), n in states.items()),
        tables=tuple(row for row in every if find in row.table.lower() or find == row.state),
    )


def _rows(node: NodeStatus, facts: NodeFacts) -> Iterator[TableRow]:
    coverage = {} if facts.slow is None else {one.table: one for one in facts.slow.audit}
    for table in facts.tables:
        size = None if facts.slow is None else facts.slow.estimates.get(table.dest)
        seen = coverage.get(str(table.name))
        whole = seen is not None and seen.compared == seen.ranges
        yield TableRow(
            node=node.name,
            table=str(table.name),
            state=_state(table, node),
            rows=None if size is None else size.rows,
            bytes=None if size is None else size.bytes,
            handler=table.attrs.get("handler"),
            filter=table.attrs.get("where"),
            on_error=resolution(table.attrs[ON_ERROR]) if ON_ERROR in table.attrs else None,
            verified_at=seen.oldest if seen is not None and whole else None,
            differing=None if seen is None else seen.differing,
            here=str(table.dest),
        )


def _state(table: ReplicatedTable, node: NodeStatus) -> str:
    if table.state is None:
        return "waits for its copy"
    return node.table_state if table.state == "ok" else table.state
