"""Steps of the rejoin of a failed root.

    record the rejoin on the node             so that the command can be resumed
    close it, create its last tick            no more writes
    export the diverged events                two files, before anything changes
    register it at its provider               from the last common tick on
    in one transaction on the node            the rows are undone, or their tables marked for a
                                              new copy; the events are deleted; it is a branch
                                              at that tick
    clear the failed mark on every node
    done

Before the transaction nothing has changed but the closing.  The transaction does all or nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cascade.switching import operation_log, rejoin_checks
from londiste.cascade.switching.cluster_state import ClusterState, Warn
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.rejoin_checks import Readmit, Returned
from londiste.cascade.switching.steps.notes import AtNode, Begin, End, NodeAddress, TagDead, Ticket
from londiste.cascade.switching.steps.roots import CloseRoot
from londiste.daemon import crash
from londiste.db.connection import Connection, limit_silence, session
from londiste.db.names import argument
from londiste.db.queries import translated
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands.registry_sync import difference
from londiste.replication.ddl import sqlapi as script_state
from londiste.replication.failover.rejoin import divergence as lost
from londiste.replication.failover.rejoin import export
from londiste.replication.failover.rejoin.divergence import Lost, TableLoss, undo
from londiste.replication.failover.rejoin.export import Files


@dataclass(frozen=True)
class RejoinOption:
    """Options for diverged rows.

    undo -- they are restored, as far as the events allow.
    resync -- the tables that are not undone are copied again.
    scripts_undone -- the operator has undone the effects of scripts that ran there only.
    """

    undo: bool = False
    resync: bool = False
    scripts_undone: bool = False


@dataclass(frozen=True)
class Decided:
    """Result of the options: tables to undo, and to copy again."""

    undo: tuple[TableLoss, ...] = ()
    resync: tuple[TableLoss, ...] = ()


def decide(node: str, found: Lost, choice: RejoinOption) -> Decided:
    """Pure: the tables to undo and to copy.  Raises StateError when one is left over."""
    if found.scripts and not choice.scripts_undone:
        raise StateError(
            f"scripts ran on {node} only: {', '.join(found.scripts)}",
            detail="no other node has their effects, and they cannot be undone automatically",
            hint="undo their effects by hand, then repeat the command with --scripts-undone",
        )
    affected = [t for t in found.here() if t.stored]
    undone = tuple(t for t in affected if not t.obstacle) if choice.undo else ()
    left = [t for t in affected if t not in undone]
    if left and not choice.resync:
        cannot = [t for t in left if t.obstacle]
        if choice.undo:
            raise StateError(
                f"tables that cannot be undone: {', '.join(str(t.name) for t in cannot)}",
                detail="; ".join(f"{t.name}: {t.obstacle}" for t in cannot),
                hint="use --undo --resync: it undoes the others and copies these again",
            )
        raise StateError(
            f"rows of {len(left)} tables were changed on {node} only",
            detail="; ".join(
                t.describe() + (f" (cannot be undone: {t.obstacle})" if t.obstacle else "")
                for t in left
            ),
            hint="review the export, then repeat the command with --undo to revert the"
            " changes, --resync to copy the tables again, or both to undo where possible",
        )
    beside = [t for t in left if t.copied_beside]
    if beside:
        raise StateError(
            f"table {beside[0].name} was added with --skip-truncate",
            detail="a copy would duplicate its rows",
            hint=f"use --undo, if its changes can be undone; or londiste drop-node"
            f" {argument(node)}, then create it again",
        )
    return Decided(undone, tuple(left))


@dataclass
class Resurrection:
    """A rejoin that is possible, or in progress.

    first -- steps up to the export.
    """

    queue: str
    at: NodeAddress
    facts: Returned
    ticket: Ticket
    files: Files
    first: Sequence[Step]
    scene: ClusterState
    warn: Warn
    _lost: Lost | None = field(default=None, repr=False)

    def lost(self, sites: Connections) -> Lost:
        """The diverged events; read once.  The root has to be closed."""
        if self.facts.back:
            return Lost()
        if self._lost is None:
            self._lost = lost.survey(
                sites.at(self.at.dsn), self.queue, self.facts.tick, self._last_tick(sites)
            )
        return self._lost

    def closed(self, sites: Connections) -> bool:
        """Whether writes have ended there, so that the diverged events are final."""
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        return self.facts.back or (found is not None and found.last_tick is not None)

    def rest(self, decided: Decided, scripts: Sequence[str] = ()) -> list[Step]:
        """The steps after the export."""
        node, provider = self.facts.node, self.scene.place(self.facts.provider.name)
        steps: list[Step] = [
            Readmit(provider, self.queue, node.name, node.worker, self.facts.tick),
            ComeBack(
                self.at,
                self.queue,
                self.ticket,
                provider,
                self.facts.tick,
                self.facts.subscribers,
                decided,
                tuple(scripts),
                self._last_tick,
                self.warn,
            ),
        ]
        # First the root, which tells the others; the node itself never took itself for dead.
        others = sorted(
            (n for n in self.scene.live() if n.name != node.name),
            key=lambda n: n.type is not NodeType.ROOT,
        )
        steps += [TagDead(self.scene.place(n.name), self.queue, node.name, False) for n in others]
        return [*steps, End(self.at, self.queue, self.ticket)]

    def _last_tick(self, sites: Connections) -> int:
        found = operation_log.find(sites.at(self.at.dsn), self.queue)
        if found is None or found.last_tick is None:
            raise StateError(f"root {self.at.name} is not closed", hint="repeat the command")
        return found.last_tick


def prepare(
    sites: Connections, scene: ClusterState, name: str, *, file: str, warn: Warn
) -> Resurrection | None:
    """The rejoin of node ``name``; None when it is no failed root.

    file -- path of the export: a file without its extension, a directory, or empty.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    facts = rejoin_checks.find(sites, scene, name)
    if facts is None:
        return None
    at = scene.place(name)
    ticket = Ticket(facts.noted.token if facts.noted is not None else None)
    files = Files.at(file, scene.queue, name, facts.tick)
    found = Resurrection(scene.queue, at, facts, ticket, files, [], scene, warn)
    if not facts.back:
        found.first = [
            Begin(at, scene.queue, OperationKind.RESURRECT, name, facts.provider.name, ticket),
            CloseRoot(at, scene.queue, ticket),
            Export(found),
        ]
    return found


@dataclass(frozen=True)
class Export:
    """Exports the diverged events."""

    of: Resurrection

    def describe(self) -> str:
        files = self.of.files
        return (
            f"{self.of.at.name}: export diverged events after tick {self.of.facts.tick} to"
            f" {files.lines} and {files.sql.name}"
        )

    def done(self, sites: Connections) -> bool:
        if not self.of.closed(sites) or self.of.ticket.token is None:
            return False
        return self.of.files.complete(self.of.ticket.token) or not self.of.lost(sites).events

    def run(self, sites: Connections) -> None:
        of = self.of
        found = of.lost(sites)
        last = of._last_tick(sites)
        facts = {
            "queue": of.queue,
            "node": of.at.name,
            "behind_tick": of.facts.tick,
            "last_tick": last,
            "events": found.events,
        }
        conn = sites.at(of.at.dsn)
        written = export.write(
            of.files, lost.read(conn, of.queue, of.facts.tick, last), facts, of.ticket.get()
        )
        if written != found.events:
            raise StateError(
                f"{written} events were exported, {found.events} were found",
                detail="the queue still changes after it was closed",
                hint=f"find the session that writes into it; then remove {of.files.lines} and"
                " repeat the command",
            )


@dataclass(frozen=True)
class ComeBack(AtNode):
    """The transaction of the rejoin: rows, events, type and position of the node."""

    ticket: Ticket
    provider: NodeAddress
    tick: int
    subscribers: tuple[str, ...]
    decided: Decided
    scripts: tuple[str, ...]
    last_tick: Callable[[Connections], int]
    warn: Warn

    def describe(self) -> str:
        words = []
        if self.decided.undo:
            words.append("undo the rows of " + _names(self.decided.undo))
        if self.decided.resync:
            words.append("have " + _names(self.decided.resync) + " copied again")
        words.append(f"delete the events after tick {self.tick}")
        words.append(f"become a branch below {self.provider.name}")
        return f"{self.at.name}: {', '.join(words)}"

    def done(self, sites: Connections) -> bool:
        return nodes.get_node_info(sites.at(self.at.dsn), self.queue).type is NodeType.BRANCH

    def run(self, sites: Connections) -> None:
        last = self.last_tick(sites)
        with self._transaction(sites) as conn:
            if self.decided.undo:
                wanted = {t.name: t.dest for t in self.decided.undo if t.dest is not None}
                undo(conn, sites.at(self.at.dsn), self.queue, self.at.name, self.tick, last, wanted)
            for table in self.decided.resync:
                tables.local_set_table_state(conn, self.queue, table.name, None, None)
            for name in self.scripts:
                script_state.forget_script(conn, self.queue, name)
            # Nodes may have come, gone and got other names; its own queue says nothing of it.
            rejoin_checks.learn(conn, sites.at(self.provider.dsn), self.queue, self.at.name)
            operation_log.return_as_branch(
                conn,
                self.queue,
                self.ticket.get(),
                self.provider.name,
                self.tick,
                list(self.subscribers),
            )
            self._same_registry(sites.at(self.provider.dsn), conn)
            crash.point("resurrect.before-commit")

    @contextlib.contextmanager
    def _transaction(self, sites: Connections) -> Iterator[Connection]:
        with session(
            self.at.dsn,
            name="londiste resurrect",
            autocommit=True,
            lock_timeout_ms=max(1, round(sites.lock_timeout * 1000)),
            replica=True,
            synchronous=True,
            answer_seconds=sites.answer_seconds,
        ) as conn:
            # To undo many rows takes long.
            limit_silence(conn, sites.answer_seconds)
            with translated(self.at.name), conn.transaction():
                yield conn

    def _same_registry(self, provider: Connection, conn: Connection) -> None:
        """Tables and sequences that were added or removed on this node only."""
        found = difference(provider, conn, self.queue)
        for name in found.add:
            tables.global_add_table(conn, self.queue, name)
            self.warn(f"table {name} was removed on {self.at.name} only: add it again, add-table")
        theirs = {t.name for t in tables.get_table_list(provider, self.queue)}
        for table in tables.get_table_list(conn, self.queue):
            if table.name not in theirs:
                if table.local:
                    tables.local_remove_table(conn, self.queue, table.name)
                    self.warn(f"table {table.name} was added on {self.at.name} only: removed there")
                tables.global_remove_table(conn, self.queue, table.name)
        kept = {s.name for s in tables.get_seq_list(provider, self.queue)}
        for sequence in tables.get_seq_list(conn, self.queue):
            if sequence.name not in kept:
                if sequence.local:
                    tables.local_remove_seq(conn, self.queue, sequence.name)
                tables.global_remove_seq(conn, self.queue, sequence.name)
        for name, value in found.sequences:
            tables.global_update_seq(conn, self.queue, name, value)


def _names(found: Sequence[TableLoss]) -> str:
    return ", ".join(str(t.name) for t in found)
