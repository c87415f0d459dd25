"""``change-policy``: sets the conflict resolution of tables of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from londiste.errors import BadOption, StateError
from londiste.handlers import table_rules
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import sqlapi as tables
from londiste.replication.apply import errors
from londiste.replication.model import encode_attrs
from londiste.replication.patterns import Pattern, select, unknown_table


def plan(
    sites: Connections, dsn: str, queue: str, patterns: Sequence[Pattern], policy: str
) -> CommandPlan:
    """The steps that set the conflict resolution of tables of the node at ``dsn``.

    patterns -- names, or patterns with * and ?.
    policy -- a conflict resolution, or the name by which it is stored.

    Raises BadOption, UnknownTable, StateError.
    """
    stored = table_rules.RESOLUTIONS.get(policy, policy)
    if stored not in table_rules.POLICIES or not patterns:
        raise BadOption(
            f"unknown conflict resolution: {policy}" if policy else "no conflict resolution given",
            hint=f"londiste change-policy TABLE {'|'.join(table_rules.RESOLUTIONS)}",
        )
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.type is NodeType.ROOT and stored != "halt":
        raise StateError(
            f"node {node.name} is the root: no events are applied there",
            hint="run the command on the node that applies the events",
        )
    known = {t.name: t for t in tables.get_table_list(local, queue) if t.local}

    unknown = unknown_table(f"replicated on node {node.name}", known)
    chosen = select(patterns, list(known), [], unknown).chosen
    same = [n for n in chosen if known[n].attrs.get(table_rules.ON_ERROR, "halt") == stored]
    steps: list[Step] = [
        ChangePolicy(node.name, dsn, queue, name, stored) for name in chosen if name not in same
    ]
    return CommandPlan(tuple(steps), tuple(same))


@dataclass(frozen=True)
class ChangePolicy(NodeStep):
    """Sets the conflict resolution of one table, from the worker's next batch on."""

    table: TableName
    policy: str

    def describe(self) -> str:
        return (
            f"{self.node}: set conflict resolution of table {self.table} to"
            f" {table_rules.resolution(self.policy)}"
        )

    def done(self, sites: Connections) -> bool:
        known = tables.get_table_list(sites.at(self.dsn), self.queue)
        return any(
            t.name == self.table and t.attrs.get(table_rules.ON_ERROR, "halt") == self.policy
            for t in known
        )

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            now = tables.lock_table(conn, self.queue, self.table)
            if now is not None and now.local:
                attrs = encode_attrs(table_rules.with_policy(now.attrs, self.policy))
                tables.local_set_table_attrs(conn, self.queue, self.table, attrs)
            # The worker may be stopped at an event that is to be resolved so.
            errors.retry_apply_errors(conn, self.queue)
