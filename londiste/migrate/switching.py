"""``migrate switch`` and ``migrate back``: a switchover with checks and materialized views.

Before it all objects of the root must be replicated; foreign keys that no worker restores are
restored, and materialized views are refreshed.  After
it they are refreshed again, with the rows of the last tick, while writes continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from psycopg.errors import Error as DatabaseError

from londiste.cascade import copied_database
from londiste.cascade.model import NodeType
from londiste.cascade.switching import switchover, switchover_records
from londiste.cascade.switching.cluster_lock import lock
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import End
from londiste.cascade.switching.switchover import Switchover
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import word
from londiste.errors import AccessDenied, NodeBusy, StateError, from_database
from londiste.migrate import drift, setup
from londiste.migrate.databases import NEW, OLD, Pair, Side
from londiste.monitor.doctor import collect
from londiste.monitor.queues.model import Severity
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import replication_role
from londiste.replication.commands import fkeys
from londiste.replication.failover import readiness
from londiste.replication.failover.switchover_sequences import carry
from londiste.wording import repeated, shortened

_SHOWN = 5


@dataclass(frozen=True)
class Refresh:
    """Refreshes the materialized views of a side.

    A view that cannot be refreshed is reported; it does not stop the switch.
    """

    side: Side = field(repr=False)
    names: tuple[str, ...]
    warn: Callable[[str], None] = field(repr=False)

    def describe(self) -> str:
        return f"{self.side.name}: refresh {len(self.names)} materialized views"

    def done(self, sites: Connections) -> bool:
        return not self.names

    def run(self, sites: Connections) -> None:
        with sites.at_length():
            for name in self.names:
                # The session stays as it is: it holds the lock of the command.
                with sites.transaction(self.side.dsn) as conn:
                    # The user's own, until the end of the transaction.
                    conn.execute("set local search_path to default")
                    conn.execute("set local row_security to default")
                    self._refresh(conn, name)

    def _refresh(self, conn: Connection, name: str) -> None:
        try:
            # From the catalog, quoted by it.
            with conn.transaction():
                conn.execute(f"refresh materialized view {name}".encode())
        except DatabaseError as error:
            ours = from_database(error, where=describe_dsn(self.side.dsn))
            self.warn(f"materialized view {name}: refresh failed: {ours.message}")


def refreshed(here: Mapping[str, bool], there: Mapping[str, bool]) -> tuple[str, ...]:
    """Pure: the materialized views of the side that will take writes which are refreshed.

    here, there -- those of the side that takes writes now, and of the other one; with each whether
        it is filled.  What is left WITH NO DATA in both stays so.
    """
    return tuple(name for name, filled in there.items() if filled or here.get(name, True))


def scene(sites: Connections, pair: Pair, at: Side, *, explain: bool = True) -> ClusterState:
    """The two nodes, asked from ``at``; locked for the command, unless it only explains.

    Raises StateError when one of the databases is a copy of its node's.
    """
    if setup.node(sites, pair.other(at), pair.queue) is not None:
        copied_database.refuse(sites.at(pair.other(at).dsn), pair.queue, sites.reach)
    extra = pair.other(at).complete
    seen = look(sites, at.dsn, pair.queue, extra)
    return seen if explain else lock(sites, seen, extra)


@dataclass(frozen=True)
class Switch:
    """The steps of a switch; ``before`` run while writing continues."""

    before: Sequence[Step]
    switch: Switchover

    def steps(self) -> list[Step]:
        """All steps in order, for ``--dry-run``."""
        return [*self.before, *self.switch.steps()]


def prepare(
    sites: Connections,
    pair: Pair,
    to: Side,
    *,
    timeout: float,
    block: float,
    force: bool,
    explain: bool = False,
    warn: Callable[[str], None],
) -> Switch | None:
    """The switch that makes ``to`` the side that takes writes; None when it is.

    explain -- the steps are printed only.

    Raises StateError when ``to`` misses objects, or when the migration is in an earlier phase.
    """
    here = pair.other(to)
    _require_nodes(sites, pair)
    seen = scene(sites, pair, to, explain=explain)
    refuse_under_way(pair, seen, to)
    switch = switchover.prepare(
        sites,
        seen,
        to.name,
        carry=lambda old, new: carry(pair.queue, old, new),
        timeout=timeout,
        block=block,
        warn=warn,
    )
    if switch is None:
        return None
    if not switch.begun:
        _require_replica(pair, here)
        _require_captures(sites, (here, to))
        if not force:
            _require_all(sites, pair, here)
        _require_structure(sites, here, to, force=force, warn=warn)
        _require_successor(sites, seen, to, here, force=force, warn=warn)
    keys = fkeys.plan(sites, to.dsn, pair.queue)
    for line in keys.skipped:
        warn(line)
    views = (collect.materialized_views(sites.at(side.dsn)) for side in (here, to))
    refresh = Refresh(to, refreshed(*views), warn)
    # Before the notes are taken off: interrupted, it is part of what is left.
    ends = [step for step in switch.after if isinstance(step, End)]
    rest = [step for step in switch.after if not isinstance(step, End)]
    whole = replace(switch, after=[*rest, refresh, *ends])
    return Switch([] if switch.begun else [*([] if force else keys.steps), refresh], whole)


def refuse_under_way(pair: Pair, seen: ClusterState, to: Side | None = None) -> None:
    """Raises NodeBusy while another change of the two nodes is unfinished than a switch to ``to``.

    A switch to the other side counts at either node: it may have closed ``to`` already.
    """
    roots = {node.name for node in seen.live() if node.type is NodeType.ROOT}
    for name, noted in seen.operations.items():
        if to is None or not ours(noted) or noted.new != to.name:
            raise NodeBusy(
                f"node {name}: {noted.describe()} is under way",
                hint=way_out(pair, noted, name, roots),
            )


def ours(noted: Operation) -> bool:
    """Whether an unfinished change is a switch of a migration, not another command."""
    return noted.kind is OperationKind.SWITCHOVER and {noted.node, noted.new} == {OLD, NEW}


def way_out(pair: Pair, noted: Operation, at: str, roots: Collection[str]) -> str:
    """For a hint: the commands that finish and undo a change; of a switch those of ``migrate``.

    Pure.

    at -- the node that has the record; roots -- the nodes that are roots: a switch to one of them
        cannot be undone.
    """
    if not ours(noted):
        settings = f"londiste --set queue_name={word(pair.queue)} --set db=…"
        return f"{noted.way_out(at)}; with the settings of node {at}: {settings}"
    command = f"londiste migrate {'switch' if noted.new == pair.new.name else 'back'}"
    undo = "" if noted.new in roots else f"; or undo it: {command} --rollback"
    return f"finish it: {command}{undo}"


def run(found: Switch, sites: Connections, report: Callable[[Step], None]) -> int:
    """Runs the remaining steps; returns their number.  Undoes it on a failure without writes."""
    count = plan.execute(found.before, sites, report)
    return count + switchover.execute(found.switch, sites, report)


def rollback(sites: Connections, pair: Pair, to: Side, *, explain: bool = False) -> list[Step]:
    """The steps that undo an unfinished switch to ``to``.  Raises StateError, NodeBusy."""
    _require_nodes(sites, pair)
    seen = scene(sites, pair, to, explain=explain)
    refuse_under_way(pair, seen, to)
    command, other = ("switch", "back") if to.name == NEW else ("back", "switch")
    if not seen.operations and not seen.silent():
        raise StateError(
            f"no switch to the {to.name} database is under way",
            hint="londiste migrate status shows the phase of the migration",
        )
    if seen.info(to.name).type is NodeType.ROOT:
        raise StateError(
            f"the {to.name} database takes the writes already: the switch cannot be undone",
            hint=f"londiste migrate {command} finishes it; then londiste migrate {other}",
        )
    return switchover_records.rollback(seen, to.name)


def _require_nodes(sites: Connections, pair: Pair) -> None:
    for side in (pair.old, pair.new):
        if setup.node(sites, side, pair.queue) is None:
            raise StateError(
                f"the migration has not started, or is over: {describe_dsn(side.dsn)} is no node"
                f" of queue {pair.queue}",
                hint="londiste migrate start starts it, londiste migrate status shows its phase",
            )


def _require_replica(pair: Pair, here: Side) -> None:
    """Checks that the future subscriber can replicate, before the switch.  Raises AccessDenied."""
    try:
        with session(
            here.dsn,
            name="londiste migrate",
            autocommit=True,
            replica=True,
            answer_seconds=pair.answer_seconds,
        ):
            return
    except AccessDenied as error:
        error.say_more(
            f"the {here.name} database could not replicate, and a switch could not be reversed;"
            " nothing was changed",
            hint=repeated(error.hint),
        )
        raise


def _require_captures(sites: Connections, sides: Sequence[Side]) -> None:
    """Checks that no session writes without a capture, now or after the switch.

    Raises StateError.
    """
    for side in sides:
        for one in replication_role.find(sites.at(side.dsn)):
            raise replication_role.refusal(
                one,
                f"{side.name} database",
                f"the {side.name} server",
                "end its open sessions; londiste migrate verify compares the rows; then repeat the"
                " command",
            )


def _require_successor(
    sites: Connections,
    seen: ClusterState,
    to: Side,
    here: Side,
    *,
    force: bool,
    warn: Callable[[str], None],
) -> None:
    """Checks that all tables and sequences are in sync at ``to``.  Raises StateError."""
    try:
        readiness.check(sites, seen, to.name, here.name, force=force, warn=warn)
    except StateError as error:
        # Whatever is missing: the command that stays adds it and copies it.
        error.say_more(
            "",
            "run londiste migrate start until londiste migrate status shows all tables in sync:"
            " it adds and copies the missing ones; or proceed without them: --ignore-missing",
        )
        raise


def _require_all(sites: Connections, pair: Pair, root: Side) -> None:
    conn = sites.at(root.dsn)
    for kind, left in (
        ("tables", setup.not_replicated(conn, pair.queue)),
        ("sequences", setup.sequences_left(conn, pair.queue)),
    ):
        if not left:
            continue
        raise StateError(
            f"{kind} of the {root.name} database are not part of the migration: {len(left)},"
            f" {', '.join(map(str, left[:5]))}",
            detail="they were created after its start; nothing was changed",
            hint="add them with londiste migrate start; or proceed without them: --ignore-missing",
        )


def _require_structure(
    sites: Connections, here: Side, to: Side, *, force: bool, warn: Callable[[str], None]
) -> None:
    """Checks that the future root has the schema of the present one.  Raises StateError."""
    names = (here.name, to.name)
    found = drift.differences(drift.look(sites.at(here.dsn)), drift.look(sites.at(to.dsn)), names)
    for one in found:
        if one.kind == drift.RIGHTS:
            warn(one.what)
    stopping = [one for one in found if one.severity is Severity.CRITICAL]
    if not stopping:
        return
    shown = shortened([one.what for one in stopping], _SHOWN, between="; ")
    if force:
        warn(f"the schema differs: {shown}")
        return
    raise StateError(
        f"the schemas of the two databases differ: {shown}",
        detail="nothing was changed",
        hint=f"{stopping[0].do}; londiste migrate verify shows all; or proceed anyway:"
        f" --ignore-missing",
    )
