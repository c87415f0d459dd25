"""Status of a cascade, collected from all nodes at the same time.

Lag is measured by one clock, the root's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from psycopg import conninfo

from londiste.cascade import copied_database, daemons, topology
from londiste.cascade import sqlapi as nodes
from londiste.cascade.daemons import Life, Running
from londiste.cascade.model import Member, NodeInfo, NodeType, Subscriber
from londiste.cascade.switching import operation_log as operation
from londiste.cascade.switching.operation_log import Operation
from londiste.db.connection import Connection
from londiste.errors import LondisteError
from londiste.install import ledger
from londiste.monitor import consumers, exposure, node_errors, subscriptions
from londiste.monitor.alarms import DatabaseFacts, alarms, collect_facts
from londiste.monitor.consumers import Listed
from londiste.monitor.exposure import Exposed
from londiste.monitor.lag import Behind, Latency, Position, find_root, positions, tick_time
from londiste.monitor.node_errors import Halted, copies_paused, known, permitted
from londiste.monitor.queues.model import Finding, Limits
from londiste.monitor.retention import Retention, held
from londiste.orchestration.connections import reach
from londiste.pgq import counting
from londiste.replication import coverage
from londiste.replication import sqlapi as tables
from londiste.replication.coverage import Audited
from londiste.replication.model import ReplicatedTable, decode_attrs
from londiste.replication.parallel import sqlapi as attempts
from londiste.replication.parallel.sqlapi import LargeBatch


@dataclass(frozen=True)
class TableCounts:
    """Numbers of tables of a node: in sync, not yet in sync, and known but not replicated there."""

    ok: int
    half: int
    ignored: int

    def __str__(self) -> str:
        return f"{self.ok}/{self.half}/{self.ignored}"


@dataclass(frozen=True)
class Underway:
    """An unfinished change of the cascade at a node, and the command that ends it.

    overtaken_by -- the node that has become the root meanwhile: the command removes the records.
    """

    what: str
    command: str
    operator: str
    started_at: datetime
    overtaken_by: str = ""


@dataclass(frozen=True)
class NodeStatus:
    """One node.

    type -- root, branch or leaf; dead when it does not answer; unknown: it answers with an error.
    service -- of its location, if it has one.
    lag -- age of the tick that it has reached; on the root of its newest tick; None: unknown.
    behind -- distance to the last change in the root's queue; None: unknown.
    latency -- what the time from a commit on the root until the change is visible is made of.
    daemons -- the worker, the ticker of its queue, and other daemons that have reported there.
    halted -- events that stop a consumer of the node.
    alarms -- findings of its database, if they were asked for; also that it must not be asked, and
        what this user may not see.
    tick -- that it has reached.  applied_events -- of the queue, up to that tick; about.
    copies_paused -- by ``copy pause``; None: its older schemas do not tell.
    errors -- (consumer, first line of its message); (``capture``, ``missing`` …, what it lacks);
        (``replication-role``, sessions whose changes are not captured);
        (``subscribers``, tables that the nodes below have to copy again);
        (``follow``, tables of auto_add_tables that cannot be added);
        (``subscription``, nodes that are registered here and read from another node);
        (``node-copy``, the node of which its database is a copy).
    unreachable -- why there was no answer.  tagged_dead -- it is marked as failed.
    large -- the last batch that was large enough for an engine job, and how it was applied.
    other_sql -- its schemas are those of Londiste 3 or of an older version: some facts are unknown
        there.  sql_version -- the version of such schemas; empty: those of Londiste 3.
    local_watermark -- finished by the node and all nodes below.
    global_watermark -- finished by all nodes, as far as this node knows; None on a leaf.
    held -- the consumer that keeps the oldest events of its queue.
    operation -- the unfinished change of the cascade at this node.
    consumers -- other consumers of its queue, and Spark sinks that write to its database.
    exposed -- sessions of this program there that are neither encrypted nor local.
    audit -- coverage of its tables by compare --continuous; None: it has not run.
    """

    name: str
    type: str
    service: str = ""
    provider: str | None = None
    tables: TableCounts | None = None
    lag: float | None = None
    tick: int | None = None
    paused: bool = False
    copies_paused: bool | None = False
    uptodate: bool = True
    attrs: dict[str, str] = field(default_factory=dict)
    errors: tuple[tuple[str, str], ...] = ()
    unreachable: str = ""
    tagged_dead: bool = False
    large: LargeBatch | None = None
    other_sql: bool = False
    sql_version: str = ""
    local_watermark: int | None = None
    global_watermark: int | None = None
    held: Retention | None = None
    operation: Underway | None = None
    consumers: tuple[Listed, ...] = ()
    exposed: tuple[Exposed, ...] = ()
    behind: Behind | None = None
    latency: Latency | None = None
    daemons: tuple[Running, ...] = ()
    halted: tuple[Halted, ...] = ()
    alarms: tuple[Finding, ...] = ()
    applied_events: int | None = None
    audit: Audited | None = None

    @property
    def worker(self) -> Running | None:
        """The node's worker."""
        return next((one for one in self.daemons if one.kind == "worker"), None)

    @property
    def refuses(self) -> bool:
        """Whether it answers with an error: it does not let this program in, or has other SQL."""
        return bool(self.unreachable and self.alarms)

    @property
    def silence(self) -> str:
        """Why nothing is known of it, as a phrase; '' where it has answered."""
        if not self.unreachable:
            return ""
        word = "answers with an error" if self.refuses else "does not answer"
        return f"{word}: {self.unreachable}"

    @property
    def current(self) -> bool:
        """Whether the node applies changes as they come, as far as is known."""
        return self.table_state == "ok"

    @property
    def table_state(self) -> str:
        """The state of its copied tables: ok, or why they are not current, as ``tables`` shows."""
        applies = self.type != NodeType.ROOT.value and self.worker_state == "ok"
        waits = applies and self.behind is not None and self.behind.needs_tick
        return "stale" if waits else self.worker_state

    @property
    def worker_state(self) -> str:
        """The same of its worker alone: ok, or why it applies nothing."""
        worker = self.worker
        if self.type == NodeType.ROOT.value:
            return "ok"
        if self.unreachable:
            return "unreachable"
        if self.halted:
            return "halted"
        if worker is not None and any(name == worker.name for name, _ in self.errors):
            return "failing"
        ended = worker is not None and not worker.life.runs and worker.life is not Life.NEVER
        return "paused" if self.paused else "stale" if ended else "ok"


@dataclass(frozen=True)
class Status:
    """A cascade; ``local`` is the node that was asked for it.

    large_from, engine -- settings of the local node: the number of events from which on an engine
        job applies a batch (0: never), and the engine.
    in_file -- nodes that the file of the cascade has: commands name them (--node).
    root_answers -- whether the root has told its ticks; it may not be among the nodes.
    """

    queue: str
    local: str
    nodes: tuple[NodeStatus, ...]
    large_from: int | None = None
    engine: str = ""
    root_answers: bool = False
    in_file: tuple[str, ...] = ()

    def node(self, name: str) -> NodeStatus:
        """By name; KeyError."""
        return {one.name: one for one in self.nodes}[name]


@dataclass(frozen=True)
class _Answer:
    info: NodeInfo
    tables: TableCounts | None
    errors: tuple[tuple[str, str], ...]
    large: LargeBatch | None
    other_sql: bool
    sql_version: str
    held: Retention | None
    operation: Operation | None
    consumers: tuple[Listed, ...]
    exposed: tuple[Exposed, ...]
    daemons: tuple[Running, ...]
    halted: tuple[Halted, ...]
    below: Sequence[Subscriber]
    alarms: tuple[Finding, ...] = ()
    audit: Audited | None = None
    copies_paused: bool | None = False
    tick_time: datetime | None = None


#: Takes the session of a node, its name, and the facts of its database.
Visit = Callable[[Connection, str, DatabaseFacts], None]


def collect(
    dsn: str,
    queue: str,
    *,
    extra: str = "",
    limits: Limits | None = None,
    only_local: bool = False,
    visit: Visit | None = None,
    in_file: tuple[str, ...] = (),
) -> Status:
    """Asks the node at ``dsn`` for the members, and then all of them.

    extra -- connection parameters added to every location.
    limits -- also collect ``alarms``, by these limits.
    only_local -- ask no other node, except the root for the lag.
    in_file -- nodes that the file of the cascade has.
    visit -- with ``limits``: called with the facts of each node that answers, in several threads.
    Raises UnknownNode and NodeUnreachable for the first node only.
    """

    def question(conn: Connection, member: Member) -> _Answer:
        info = topology.own_info(conn, queue, member, asker)
        missing: list[str] = []
        hidden: list[Finding] = []
        listed = known(missing, lambda: tables.get_table_list(conn, queue))
        has_queue = node_errors.has_queue(conn, queue, info)
        errors = node_errors.collect(conn, queue, info, listed or (), missing, has_queue=has_queue)
        if member.name == local.name:
            errors = (*copied_database.notes(conn, queue, extra), *errors)
        large = known(missing, lambda: attempts.get_large_batch(conn, queue))
        under_way = permitted(
            hidden,
            "whether a change of the cascade is unfinished",
            queue,
            lambda: known(missing, lambda: operation.find(conn, queue)),
        )
        stopping = node_errors.halted(conn, queue, hidden, missing)
        paused = copies_paused(conn, queue, missing)
        below = nodes.get_subscriber_info(conn, queue) if has_queue else []
        keeper = held(counting.uncounted(conn, queue), below) if has_queue else None
        seen = consumers.of_node(conn, queue)
        sessions = exposure.find(conn)
        facts = None
        # A root has no rows that could differ from its own.
        is_audited = limits is not None and info.type is not NodeType.ROOT
        covered = coverage.of_node(conn, queue, listed or ()) if is_audited else []
        if limits is not None:
            differing = {one.table_name: one.differing for one in covered}
            facts = known(
                missing,
                lambda: collect_facts(
                    conn,
                    queue,
                    below,
                    differing,
                    has_queue=has_queue,
                    is_root=info.type is NodeType.ROOT,
                ),
            )
            if visit is not None and facts is not None:
                visit(conn, info.name, facts)
        return _Answer(
            info,
            None if listed is None else count_tables(listed),
            errors,
            large,
            bool(missing),
            ledger.read(conn, "pgq").version or "" if missing else "",
            keeper,
            under_way,
            seen,
            sessions,
            # The worker waits for the job of a large batch without a word.
            daemons.of_node(
                conn,
                queue,
                info,
                patience=math.inf if large is not None and large.seconds is None else 0.0,
            ),
            stopping,
            below,
            (*hidden, *(() if limits is None or facts is None else alarms(facts, limits))),
            coverage.summed(covered) if covered else None,
            paused,
            tick_time(conn, queue, info),
        )

    with topology.asking(dsn, name="londiste status") as own:
        local = nodes.get_node_info(own, queue)
        members = nodes.get_queue_locations(own, queue)
        asker = topology.Asker.one_of(local.name, members)
        if only_local:
            members = [member for member in members if member.name == local.name]
        answers = topology.ask(members, question, extra=extra, local=(local.name, own))
    roots = [
        member.name
        for member in members
        if not member.dead
        and isinstance(answer := answers[member.name], _Answer)
        and answer.info.type is NodeType.ROOT
    ]
    settled = [a.info for a in answers.values() if isinstance(a, _Answer) and a.operation is None]
    providers = subscriptions.providers(settled)
    found = [_node(member, answers, roots, queue, providers) for member in members]
    met = [replace(m, name=node.name) for m, node in zip(members, found, strict=True)]
    told = _positions(found, met, dsn, local, queue, extra)
    placed = []
    for member, node in zip(members, found, strict=True):
        answer = answers[member.name]
        time = answer.tick_time if isinstance(answer, _Answer) else None
        position = (told or {}).get(-1 if node.tick is None else node.tick)
        # A restored root gives the numbers of its lost ticks to others.
        fits = position is not None and time in (None, position.time)
        placed.append(_placed(node, position) if position is not None and fits else node)
    return Status(queue, local.name, tuple(placed), root_answers=told is not None, in_file=in_file)


def count_tables(known: Sequence[ReplicatedTable]) -> TableCounts:
    """Counts the tables of a node by their state."""
    ok = sum(t.local and t.state == "ok" for t in known)
    kept = sum(t.local for t in known)
    return TableCounts(ok, kept - ok, len(known) - kept)


def _node(
    member: Member,
    answers: Mapping[str, _Answer | LondisteError],
    roots: Sequence[str],
    queue: str,
    providers: Mapping[str, str],
) -> NodeStatus:
    service = str(conninfo.conninfo_to_dict(member.location).get("service") or "")
    if isinstance(answer := answers[member.name], LondisteError):
        return NodeStatus(
            member.name,
            "unknown" if (why := node_errors.refused(answer, queue, member.name)) else "dead",
            service,
            unreachable=answer.message,
            uptodate=False,
            tagged_dead=member.dead,
            alarms=why,
        )
    info = answer.info
    root = info.type is NodeType.ROOT
    below = answer.below if answer.operation is None else ()
    above = answers.get(info.provider)
    counts = above.tables if isinstance(above, _Answer) else None
    errors = node_errors.beside(answer.errors, bool(counts and counts.ok + counts.half))
    return NodeStatus(
        name=info.name,
        type=info.type.value,
        service=service,
        provider=None if root else info.provider,
        tables=answer.tables,
        tick=info.last_tick,
        paused=info.paused,
        copies_paused=answer.copies_paused,
        # Nothing waits for the worker of a root that never ran.
        uptodate=info.uptodate or root,
        attrs=decode_attrs(info.attrs),
        errors=(*errors, *subscriptions.unused(queue, info.name, below, providers)),
        tagged_dead=member.dead,
        large=answer.large,
        other_sql=answer.other_sql,
        sql_version=answer.sql_version,
        local_watermark=info.local_watermark,
        global_watermark=info.global_watermark,
        held=answer.held,
        operation=_underway(answer.operation, info.name, roots),
        consumers=answer.consumers,
        exposed=answer.exposed,
        daemons=answer.daemons,
        halted=answer.halted,
        alarms=answer.alarms,
        audit=answer.audit,
    )


def _underway(found: Operation | None, at: str, roots: Sequence[str]) -> Underway | None:
    if found is None:
        return None
    command, other = found.command(at), operation.overtaken(found, roots)
    if other is not None:
        command += " --rollback"
    return Underway(found.describe(), command, found.operator, found.started_at, other or "")


def _positions(
    found: Sequence[NodeStatus],
    members: Sequence[Member],
    dsn: str,
    local: NodeInfo,
    queue: str,
    extra: str,
) -> dict[int, Position] | None:
    """Ticks of the root, by id; None if it does not answer."""
    root = next((n.name for n in found if n.type == NodeType.ROOT.value), None)
    if root == local.name:
        root_dsn: str | None = dsn
    elif root is not None:
        root_dsn = reach(next(m.location for m in members if m.name == root), extra)
    elif len(found) == 1 and found[0].provider is not None:
        root_dsn = find_root(local.provider_location, queue, extra)
    else:
        root_dsn = None
    if root_dsn is None:
        return None
    return positions(root_dsn, queue, [n.tick for n in found if n.tick is not None])


def _placed(node: NodeStatus, position: Position) -> NodeStatus:
    worker = node.worker
    parts = Latency(position.max_lag)
    if worker is not None and node.type != NodeType.ROOT.value:
        parts = replace(parts, fetch=worker.fetch_seconds, apply=worker.apply_seconds)
    return replace(
        node,
        lag=position.age,
        behind=position.behind,
        latency=parts,
        applied_events=position.events,
    )
