"""``resync``: resets the state of tables so that the worker copies them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import merged_tables
from londiste.replication.model import ReplicatedTable, with_copy_mode
from londiste.replication.model import copy_mode as mode_of
from londiste.replication.patterns import Selected, require_names, select, unknown_table
from londiste.replication.tablesync import copied_rows, copy_source, missing_partitions
from londiste.replication.tablesync.cancel import reset_copy, terminate_work


def plan(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    *,
    every: bool = False,
    copy_mode: str = "",
    copy_node: str = "",
) -> CommandPlan:
    """Plans copying tables of the node at ``dsn`` again.  Changes nothing.

    copy_mode -- auto, snapshot or resumable, from now on; empty leaves it as it is.
    copy_node -- copy from this node from now on, ``?`` from the nearest node upstream that has the
        rows; empty leaves it as it is.

    Raises StateError on a root, which has no provider; UnknownTable, BadOption.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.type is NodeType.ROOT:
        raise StateError(
            f"node {node.name} is the root: it has no provider to copy from",
            hint="run it on the node whose tables should be copied again",
        )
    mine = {t.name: t for t in tables.get_table_list(local, queue) if t.local}
    _require_applied(node)

    unknown = unknown_table(f"replicated on node {node.name}", mine)
    require_names("table", patterns, every)
    waiting = [
        name
        for name, table in mine.items()
        if table.state is None
        and copy_mode in {"", mode_of(table)}
        and copy_node in {"", table.attrs.get(copy_source.ATTR, "")}
    ]
    others = [name for name in mine if name not in waiting]
    picked = Selected(tuple(others)) if every else select(patterns, others, waiting, unknown)
    if every:
        picked = Selected(tuple(name for name in picked.chosen if mine[name].wants.stored))
    _require_alone(local, node, [mine[name] for name in picked.chosen])
    for name in picked.chosen:
        if not mine[name].wants.stored:
            raise StateError(
                f"table {name} has handler {mine[name].attrs.get('handler')}",
                detail="with this handler replication does not change its rows, so nothing is"
                " copied",
                hint=f"londiste change-handler {argument(name)}",
            )
        copied_rows.require_known(local, queue, mine[name])
        rules = mine[name].wants
        source = copy_source.require_rows(sites.at, sites.reach, node, mine[name], rules, copy_node)
        if source is not None:
            missing_partitions.require(
                sites.at(source.dsn), source.table, local, mine[name], "then repeat the command"
            )
    steps: list[Step] = [
        Resync(node.name, dsn, queue, name, copy_mode, copy_node, mine[name].dest)
        for name in picked.chosen
    ]
    return CommandPlan(tuple(steps), picked.already)


def _require_applied(node: NodeInfo) -> None:
    """Refuses a leaf whose rows come through the combined queue."""
    if node.combined_queue is not None and node.combined_type is NodeType.BRANCH:
        raise StateError(
            f"queue {node.queue}: its rows reach this node through queue {node.combined_queue}",
            detail="nothing was changed",
            hint=f"with the settings of queue {node.combined_queue}: londiste resync TABLE",
        )


def _require_alone(local: Connection, node: NodeInfo, chosen: Sequence[ReplicatedTable]) -> None:
    """Refuses tables whose rows subscribers of the combined queue have."""
    combined = merged_tables.forwarded(local, node)
    hint = None if combined is None else merged_tables.order(local, node, chosen, lost=False)
    if hint is not None:
        raise StateError(
            f"queue {node.queue}: copied rows are not events of queue {combined}",
            detail=f"the subscribers of {combined} would not get them; nothing was changed",
            hint=hint,
        )


@dataclass(frozen=True)
class Resync(NodeStep):
    """Copies one table again; a running copy is cancelled."""

    table: TableName
    copy_mode: str
    copy_node: str
    dest: TableName

    def describe(self) -> str:
        way = f" (copy_mode={self.copy_mode})" if self.copy_mode else ""
        if self.copy_node:
            way += (
                " from the nearest node that has it"
                if self.copy_node == copy_source.ANY
                else (f" from node {self.copy_node}")
            )
        return f"{self.node}: copy table {self.table} again{way}"

    def done(self, sites: Connections) -> bool:
        known = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return (
            known is not None
            and known.state is None
            and self.copy_mode in {"", mode_of(known)}
            and self.copy_node in {"", known.attrs.get(copy_source.ATTR, "")}
        )

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            reset_copy(conn, self.queue, self.table, self._attrs)
        # Indexes and keys in progress belong to the old rows.
        terminate_work(sites.at(self.dsn), self.dest)

    def _attrs(self, now: ReplicatedTable) -> dict[str, str]:
        attrs = with_copy_mode(now.attrs, self.copy_mode or mode_of(now))
        return copy_source.with_copy_node(attrs, self.copy_node)
