"""Adding and removing sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from londiste.cascade import nodes
from londiste.cascade.plan import Sites, Step
from londiste.cascade.types import NodeType
from londiste.db.connection import place
from londiste.db.names import TableName
from londiste.errors import BadOption, UnknownTable
from londiste.replication import registry, tables
from londiste.replication.add_table import Plan
from londiste.replication.known import ALL, Known
from londiste.replication.select import Selected, select, settled


def plan_add(
    sites: Sites,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    *,
    every: bool = False,
    skip_non_existing: bool = False,
    wanted: Known = ALL,
) -> Plan:
    """What to do to add sequences to the node at ``dsn``.  Changes nothing.

    every -- all that could be added, in place of patterns.
    skip_non_existing -- what is missing here is skipped, with a line in ``skipped``.
    wanted -- what the node wants to know of at all.
    Raises UnknownTable, BadOption.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = tables.get_seq_list(local, queue)
    done = [s.name for s in known if s.local]
    steps: list[Step] = []
    if node.type is NodeType.ROOT:
        missing = tables.local_show_missing(local, queue)
        candidates = [TableName.parse(m.name) for m in missing if m.kind == "S"]
    else:
        provider_dsn = sites.reach(node.provider_location)
        theirs = tables.get_seq_list(sites.at(provider_dsn), queue)
        candidates = [s.name for s in theirs if s.name not in done and wanted.sequence(s.name)]
        steps.append(
            registry.CopyRegistry(node.name, node.provider, provider_dsn, dsn, queue, wanted)
        )
    hint = "londiste missing lists what can be added"
    picked = _pick(patterns, candidates, done, every, hint, force=skip_non_existing)
    skipped = []
    for name in picked.chosen:
        if tables.find_seq_oid(local, name) is None:
            if not skip_non_existing:
                raise UnknownTable(
                    f"sequence {name} does not exist in {place(dsn)}",
                    detail="nothing was changed",
                    hint="create it first",
                )
            skipped.append(f"sequence {name} does not exist in {place(dsn)}")
        elif name not in candidates:
            # It is here, and the queue does not have it.
            raise _unknown(str(name), "add it on the root first")
        else:
            steps.append(ChangeSequence(node.name, dsn, queue, name, True))
    work = any(isinstance(step, ChangeSequence) for step in steps)
    return Plan(tuple(steps) if work else (), picked.already, tuple(skipped))


def plan_remove(
    sites: Sites,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    *,
    every: bool = False,
    force: bool = False,
) -> Plan:
    """What to do to remove sequences from the node at ``dsn``.  Changes nothing.

    force -- names that nobody knows are passed over.
    Raises UnknownTable, BadOption.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = tables.get_seq_list(local, queue)
    mine = [s.name for s in known if s.local]
    others = [s.name for s in known if not s.local]
    hint = "londiste seqs lists the replicated ones"
    picked = settled(_pick(patterns, mine, others, every, hint, force=force), mine)
    steps = tuple(ChangeSequence(node.name, dsn, queue, n, False) for n in picked.chosen)
    return Plan(steps, picked.already)


def _pick(
    patterns: Sequence[str],
    candidates: Sequence[TableName],
    done: Sequence[TableName],
    every: bool,
    hint: str,
    *,
    force: bool = False,
) -> Selected:
    if every == bool(patterns):
        raise BadOption(
            "no sequence given" if not patterns else "--all and names of sequences",
            hint="name sequences, or use --all",
        )
    if every:
        return Selected(tuple(candidates))
    return select(patterns, candidates, done, lambda text: _unknown(text, hint), force=force)


def _unknown(text: str, hint: str) -> UnknownTable:
    return UnknownTable(f"no sequence {text}", detail="nothing was changed", hint=hint)


@dataclass(frozen=True)
class ChangeSequence:
    """One sequence is followed on one node, or no longer."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    sequence: TableName
    local: bool

    def describe(self) -> str:
        return f"{self.node}: {'add' if self.local else 'remove'} sequence {self.sequence}"

    def done(self, sites: Sites) -> bool:
        known = tables.get_seq_list(sites.at(self.dsn), self.queue)
        return any(s.name == self.sequence and s.local for s in known) is self.local

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.dsn) as conn:
            if self.local:
                tables.local_add_seq(conn, self.queue, self.sequence)
            else:
                tables.local_remove_seq(conn, self.queue, self.sequence)
