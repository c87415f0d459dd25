"""``remove-table``: on the root for the whole cascade, elsewhere for one node.

The rows stay, except those of an unfinished copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cascade.switching import release
from londiste.db.connection import Connection
from londiste.db.ddl import restoring
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import renamed_tables
from londiste.replication import sqlapi as tables
from londiste.replication.commands import filter_checks, fkeys
from londiste.replication.patterns import (
    Pattern,
    Selected,
    require_names,
    select,
    settled,
    unknown_table,
)
from londiste.replication.tablesync.cancel import StopCopy, copy_consumer, leftovers, without_work


def plan(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[Pattern],
    *,
    every: bool = False,
    force: bool = False,
    followed: Callable[[TableName], bool] = lambda _: False,
    keep: Sequence[TableName] = (),
) -> CommandPlan:
    """Plans removing tables from the node at ``dsn``.  Changes nothing.

    every -- all tables of the node, instead of patterns.
    Names that are not replicated here need no change.

    followed -- tables that the worker adds automatically; only the root may remove them.
    force -- unknown names are ignored, too.
    keep -- sequences of the tables that stay replicated.
    Raises UnknownTable, BadOption, StateError (a branch filters a table for nodes below; the table
    has the capture of one that stays).
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = {t.name: t for t in tables.get_table_list(local, queue)}
    mine = [name for name, table in known.items() if table.local]

    unknown = unknown_table(f"replicated on node {node.name}", mine, detail="nothing was removed")
    require_names("table", patterns, every)
    if every:
        picked = Selected(tuple(mine))
    else:
        others = [name for name in known if name not in mine]
        picked = settled(select(patterns, mine, others, unknown, force=force), mine)
    steps: list[Step] = []
    everywhere = node.type is NodeType.ROOT
    again = [str(name) for name in picked.chosen if not everywhere and followed(name)]
    if again:
        raise BadOption(
            f"node {node.name} adds automatically: {', '.join(again)}",
            detail="its worker would add them again at once; nothing was removed",
            hint="add it to auto_add_exclude in the node's settings, reload the worker (-r),"
            " then repeat the command",
        )
    renamed_tables.require_own_captures(local, queue, known, picked.chosen)
    for name in picked.chosen:
        if name in mine:
            filter_checks.refuse_rows_below(
                sites,
                dsn,
                node,
                name,
                filter_checks.rules_of(known[name]),
                "without its filter, that node would get rows and values that the branch excluded",
            )
        copying = known[name].state not in (None, "ok")
        if copying:
            steps.append(StopCopy(node.name, dsn, queue, name))
        dest = known[name].dest
        steps.append(RemoveTable(node.name, dsn, queue, name, everywhere, dest, tuple(keep)))
        if copying:
            steps += leftovers(sites, dsn, node, copy_consumer(node.worker, name))
    off = fkeys.left_off(local, queue, [known[name].dest for name in picked.chosen])
    return CommandPlan(tuple(steps), picked.already, notes=off)


@dataclass(frozen=True)
class RemoveTable(NodeStep):
    """Removes one table from replication."""

    table: TableName
    everywhere: bool
    dest: TableName
    keep: tuple[TableName, ...] = ()

    def describe(self) -> str:
        where = " and from every other node" if self.everywhere else ""
        return f"{self.node}: remove table {self.table} here{where}"

    def done(self, sites: Connections) -> bool:
        known = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return known is None or not known.local

    def run(self, sites: Connections) -> None:
        with restoring(), sites.at_length():
            without_work(
                sites, self.dsn, self.dest, functools.partial(self._remove, sites.lock_timeout)
            )

    def _remove(self, lock_timeout: float, conn: Connection) -> None:
        release.lock_tables(conn, self.queue, lock_timeout, self.table)
        tables.local_remove_table(conn, self.queue, self.table, self.keep)
