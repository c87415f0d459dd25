"""Findings about one node alone: captures, partitions, owners of schemas, exposed sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.monitor import exposure, partitions, schema_owners
from londiste.monitor.captures import collect, rules
from londiste.monitor.queues import rules as queue_rules
from londiste.monitor.queues.model import Finding, MonitorFacts, QueueFacts
from londiste.wording import at_node


@dataclass
class OwnFindings:
    """The findings about nodes, one after the other.

    queue -- of the cascade.  unreadable -- the nodes that cannot read the native capture of a node.
    tables -- those that were checked, by their names in the queue.
    """

    queue: str
    unreadable: Callable[[Connection], Sequence[str]]
    tables: set[TableName] = field(default_factory=set)
    found: list[Finding] = field(default_factory=list)

    def add(self, conn: Connection, node: str = "", *, sizes: bool = False) -> None:
        """Adds those of the node of ``conn``.

        node -- its name, which its findings then begin with.  sizes -- measure the largest values.
        """
        facts = collect.collect(conn, self.queue, sizes=sizes)
        if any(one.captures and one.trigger == "capture" for one in facts):
            names = tuple(self.unreadable(conn))
            facts = [replace(one, unreadable=names) for one in facts]
        own = [
            *rules.findings(facts, self.queue),
            *partitions.findings(partitions.find(conn, self.queue), self.queue),
            *schema_owners.findings(conn, self.queue),
            *exposure.findings(exposure.find(conn), self.queue),
            *restored(conn, self.queue),
        ]
        self.tables.update(TableName.parse(one.name) for one in facts if one.name)
        self.found += [_named(one, node) for one in own] if node else own


def restored(conn: Connection, queue: str) -> list[Finding]:
    """The finding that the queue has transaction ids of another server; none for a leaf."""
    queues = tuple(QueueFacts(**row) for row in fetch(conn, "queue_facts", queue=queue))
    facts = MonitorFacts("", queues)
    return [one for one in queue_rules.findings(facts) if one.kind == "restored"]


def _named(one: Finding, node: str) -> Finding:
    """Pure: a finding of a node as it is read anywhere."""
    return replace(one, what=f"node {node}: {one.what}", do=at_node(one.do, node))
