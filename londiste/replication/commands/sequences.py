"""``add-seq`` and ``remove-seq``: plans for sequences of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection, describe_dsn
from londiste.db.ddl import literal
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import translated, tuples
from londiste.db.structure.context import TargetContext
from londiste.db.structure.introspect import free_sequences, schemas
from londiste.db.structure.introspect import there as there_now
from londiste.db.structure.schemas import statements as create_schemas
from londiste.db.structure.tables import create_sequence
from londiste.db.structure.types import WHOLE, Structures
from londiste.errors import BadOption, UnknownTable
from londiste.orchestration.connections import Connections
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep, Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import registry_sync
from londiste.replication.patterns import Selected, require_names, select, settled, table_meant
from londiste.replication.registration_filter import ALL, RegistrationFilter


def plan_add(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    *,
    every: bool = False,
    skip_non_existing: bool = False,
    create: bool = False,
    wanted: RegistrationFilter = ALL,
) -> CommandPlan:
    """Plans adding sequences to the node at ``dsn``.  Changes nothing.

    every -- all that could be added, instead of patterns.
    skip_non_existing -- missing sequences are skipped, with a line in ``skipped``.
    create -- missing sequences are created as the provider has them.
    wanted -- what the node registers.
    Raises UnknownTable, BadOption.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = tables.get_seq_list(local, queue)
    done = [s.name for s in known if s.local]
    steps: list[Step] = []
    provider_dsn = ""
    if node.type is NodeType.ROOT:
        missing = tables.local_show_missing(local, queue)
        candidates = [TableName.parse(m.name) for m in missing if m.kind == "S"]
    else:
        provider_dsn = sites.reach(node.provider_location, node.provider)
        theirs = tables.get_seq_list(sites.at(provider_dsn), queue)
        candidates = [s.name for s in theirs if s.name not in done and wanted.sequence(s.name)]
        steps.append(
            registry_sync.CopyRegistry(node.name, node.provider, provider_dsn, dsn, queue, wanted)
        )
    hint = "londiste missing"
    picked = _pick(patterns, candidates, done, every, hint, force=skip_non_existing)
    skipped = []
    if create and node.type is NodeType.ROOT:
        raise BadOption(
            "--create on the root", hint="create the sequence by hand, then londiste add-seq"
        )
    missing_here = [n for n in picked.chosen if tables.find_seq_oid(local, n) is None]
    made, notes = _rendered(sites, provider_dsn, local, missing_here) if create else ({}, [])
    for name in picked.chosen:
        if name in made:
            steps.append(CreateSequence(node.name, dsn, queue, name, made[name]))
        elif name in missing_here:
            if not skip_non_existing:
                raise UnknownTable(
                    f"sequence {name} does not exist in {describe_dsn(dsn)}",
                    detail="nothing was changed",
                    hint="create it first"
                    if create or node.type is NodeType.ROOT
                    else f"londiste add-seq --create {argument(name)} makes it as the provider has"
                    " it",
                )
            skipped.append(f"sequence {name} does not exist in {describe_dsn(dsn)}")
        elif name not in candidates:
            # It is here, and the queue does not have it.
            raise _unknown(str(name), "add it on the root first: londiste add-seq")
        else:
            steps.append(ChangeSequence(node.name, dsn, queue, name, True))
    work = any(isinstance(step, ChangeSequence | CreateSequence) for step in steps)
    return CommandPlan(tuple(steps) if work else (), picked.already, tuple(skipped), tuple(notes))


def _rendered(
    sites: Connections, provider_dsn: str, local: Connection, names: Sequence[TableName]
) -> tuple[dict[TableName, tuple[str, ...]], list[str]]:
    """The statements that make sequences of the provider here, and notes on differences.

    None for what it has not.
    """
    provider = sites.at(provider_dsn)
    there = [n.quoted for n in names if tables.find_seq_oid(provider, n) is not None]
    made = free_sequences(provider, there)
    owned = schemas(provider, [one.name.schema for one in made])
    structures = Structures((), (), provider.info.server_version, {}, owned)
    here = there_now(local, structures, (), [one.owner for one in made])
    target = TargetContext(structures, here, {}, WHOLE)
    begun: set[str] = set()
    found = {}
    for one in made:
        text = create_schemas(target, {one.name.schema} - begun)
        begun.add(one.name.schema)
        text.append(create_sequence(one, one.name, local.info.server_version))
        why = target.owner_problem(one.owner, one.name.schema)
        if why:
            target.note(f"sequence {one.name} is owned by you: its owner, role {one.owner}, {why}")
        else:
            text.append(f"alter sequence {one.name.quoted} owner to {quote(one.owner)}")
        if one.comment is not None:
            text.append(f"comment on sequence {one.name.quoted} is {literal(one.comment)}")
        found[one.name] = tuple(text)
    return found, target.notes


def plan_remove(
    sites: Connections,
    dsn: str,
    queue: str,
    patterns: Sequence[str],
    *,
    every: bool = False,
    force: bool = False,
) -> CommandPlan:
    """Plans removing sequences from the node at ``dsn``.  Changes nothing.

    force -- unknown names are ignored.
    Raises UnknownTable, BadOption.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    known = tables.get_seq_list(local, queue)
    mine = [s.name for s in known if s.local]
    others = [s.name for s in known if not s.local]
    hint = "londiste seqs"
    picked = settled(_pick(patterns, mine, others, every, hint, force=force), mine)
    steps = tuple(ChangeSequence(node.name, dsn, queue, n, False) for n in picked.chosen)
    return CommandPlan(steps, picked.already)


def _pick(
    patterns: Sequence[str],
    candidates: Sequence[TableName],
    done: Sequence[TableName],
    every: bool,
    hint: str,
    *,
    force: bool = False,
) -> Selected:
    require_names("sequence", patterns, every)
    if every:
        return Selected(tuple(candidates))

    def unknown(text: str) -> UnknownTable:
        return _unknown(text, table_meant(text, [*candidates, *done], hint))

    return select(patterns, candidates, done, unknown, force=force)


def _unknown(text: str, hint: str) -> UnknownTable:
    return UnknownTable(f"unknown sequence {text}", detail="nothing was changed", hint=hint)


@dataclass(frozen=True)
class CreateSequence(NodeStep):
    """A sequence is made on one node and followed, or neither."""

    sequence: TableName
    statements: tuple[str, ...]

    def describe(self) -> str:
        return f"{self.node}: create sequence {self.sequence} and add it"

    def explain(self) -> list[str]:
        """The statements, for people."""
        return [f"{text};" for text in self.statements]

    def done(self, sites: Connections) -> bool:
        known = tables.get_seq_list(sites.at(self.dsn), self.queue)
        return any(s.name == self.sequence and s.local for s in known)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            for text in self.statements:
                with translated(describe_dsn(self.dsn)):
                    # Text made of the catalog of another node, where identifiers are quoted.
                    conn.execute(text.encode())
            tables.local_add_seq(conn, self.queue, self.sequence)


@dataclass(frozen=True)
class ChangeSequence(NodeStep):
    """Adds a sequence to one node, or removes it."""

    sequence: TableName
    local: bool

    def describe(self) -> str:
        return f"{self.node}: {'add' if self.local else 'remove'} sequence {self.sequence}"

    def done(self, sites: Connections) -> bool:
        known = tables.get_seq_list(sites.at(self.dsn), self.queue)
        return any(s.name == self.sequence and s.local for s in known) is self.local

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            if self.local:
                tables.local_add_seq(conn, self.queue, self.sequence)
            else:
                tables.local_remove_seq(conn, self.queue, self.sequence)


def catch_up(conn: Connection, queue: str) -> list[TableName]:
    """Moves the sequences of a node that are behind to their published values, never back.

    The caller has opened a transaction.  Returns the sequences that it moved.
    """
    late = behind(conn, queue)
    moved = [s for s in tables.get_seq_list(conn, queue) if s.name in late]
    for one in moved:
        tables.global_update_seq(conn, queue, one.name, one.last_value)
    return [one.name for one in moved]


def behind(conn: Connection, queue: str) -> set[TableName]:
    """The sequences of a node that are behind their published values; none on a root."""
    doubts = tuples(conn, "sequence_doubts", queue=queue)
    return {TableName.parse(name) for kind, name, _ in doubts if kind == "sequence-behind"}
