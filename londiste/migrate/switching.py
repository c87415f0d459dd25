"""The switch to the new database and the way back: the switchover of a cascade, and what is around.

Before it: nothing of the root is missing below, materialized views are filled.  After it they are
filled again, with the rows of the last tick, while writes go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from psycopg.errors import Error as DatabaseError

from londiste.cascade.model import NodeType
from londiste.cascade.switching import switchover
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import End
from londiste.cascade.switching.switchover import Switchover
from londiste.db.connection import describe_dsn, session, use_own_names
from londiste.errors import AccessDenied, NodeBusy, StateError, from_database
from londiste.migrate import collect, drift, setup
from londiste.migrate.databases import NEW, OLD, Pair, Side, secrets_of
from londiste.monitor.queues.model import Severity
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.failover import readiness
from londiste.replication.failover.switchover_sequences import carry

_SHOWN = 5


@dataclass(frozen=True)
class Refresh:
    """The materialized views of a side hold what its tables do.

    What cannot be refreshed is told: it must hold nothing else up.
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
            self._refresh(sites)
        # Names mean the catalog's again.
        sites.at(self.side.dsn).close()

    def _refresh(self, sites: Connections) -> None:
        for name in self.names:
            with sites.transaction(self.side.dsn) as conn:
                use_own_names(conn)
                try:
                    # From the catalog, quoted by it.
                    with conn.transaction():
                        conn.execute(f"refresh materialized view {name}".encode())
                except DatabaseError as error:
                    ours = from_database(error, where=describe_dsn(self.side.dsn))
                    self.warn(f"materialized view {name} is not refreshed: {ours.message}")


def scene(sites: Connections, pair: Pair, at: Side) -> ClusterState:
    """The two nodes, asked from ``at``."""
    return look(sites, at.dsn, pair.queue, secrets_of(pair.other(at).dsn))


@dataclass(frozen=True)
class Switch:
    """What is to be done: ``before`` while writing goes on."""

    before: Sequence[Step]
    switch: Switchover

    def steps(self) -> list[Step]:
        """All in their order, for ``--explain``."""
        return [*self.before, *self.switch.steps()]


def prepare(
    sites: Connections,
    pair: Pair,
    to: Side,
    *,
    timeout: float,
    block: float,
    force: bool,
    warn: Callable[[str], None],
) -> Switch | None:
    """The switch that makes ``to`` the side that takes writes; None when it is.

    Raises StateError when ``to`` does not have everything, or the move has not come so far.
    """
    here = pair.other(to)
    _require_nodes(sites, pair)
    seen = scene(sites, pair, to)
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
        if not force:
            _require_all(sites, pair, here)
        _require_structure(sites, here, to, force=force, warn=warn)
        _require_successor(sites, seen, to, here, force=force, warn=warn)
    refresh = Refresh(to, collect.materialized_views(sites.at(to.dsn)), warn)
    # Before the notes are taken off: interrupted, it is part of what is left.
    ends = [step for step in switch.after if isinstance(step, End)]
    rest = [step for step in switch.after if not isinstance(step, End)]
    whole = replace(switch, after=[*rest, refresh, *ends])
    return Switch([] if switch.begun else [refresh], whole)


def refuse_under_way(pair: Pair, seen: ClusterState, to: Side | None = None) -> None:
    """Raises NodeBusy while a change of the two nodes is not finished, but a switch to ``to``.

    A switch to the other side counts wherever it is noted: ``to`` may be closed by it already.
    """
    for name, noted in seen.operations.items():
        if to is None or not ours(noted) or noted.new != to.name:
            raise NodeBusy(
                f"node {name}: {noted.describe()} is under way", hint=way_out(pair, noted, name)
            )


def ours(noted: Operation) -> bool:
    """Whether a change that is under way is a switch of a move, and not of somebody else."""
    return noted.kind is OperationKind.SWITCHOVER and {noted.node, noted.new} == {OLD, NEW}


def way_out(pair: Pair, noted: Operation, at: str) -> str:
    """For a hint: what finishes a change and undoes it; a switch by the commands of a move.

    at -- the node at which it is noted.
    """
    if not ours(noted):
        settings = f"londiste --set queue_name={pair.queue} --set db=…"
        return f"{noted.way_out(at)}; with the settings of node {at}: {settings}"
    command = f"londiste migrate {'switch' if noted.new == pair.new.name else 'back'}"
    return f"finish it: {command}; or undo it: {command} --rollback"


def run(found: Switch, sites: Connections, report: Callable[[Step], None]) -> int:
    """Does what is left; the number of steps.  What fails while nobody can write is undone."""
    count = plan.execute(found.before, sites, report)
    return count + switchover.execute(found.switch, sites, report)


def rollback(sites: Connections, pair: Pair, to: Side) -> list[Step]:
    """The steps that undo a switch to ``to`` that was begun.  Raises StateError, NodeBusy."""
    _require_nodes(sites, pair)
    seen = scene(sites, pair, to)
    refuse_under_way(pair, seen, to)
    command, other = ("switch", "back") if to.name == NEW else ("back", "switch")
    if not seen.operations and not seen.silent():
        raise StateError(
            f"no switch to the {to.name} database is under way",
            hint="londiste migrate status shows where the move stands",
        )
    if seen.info(to.name).type is NodeType.ROOT:
        raise StateError(
            f"the {to.name} database takes the writes already: the switch cannot be undone",
            hint=f"londiste migrate {command} finishes it; then londiste migrate {other} returns",
        )
    return switchover.rollback(sites, seen, to.name)


def _require_nodes(sites: Connections, pair: Pair) -> None:
    for side in (pair.old, pair.new):
        if setup.node(sites, side, pair.queue) is None:
            raise StateError(
                f"the move has not begun, or is over: {describe_dsn(side.dsn)} is no node of queue"
                f" {pair.queue}",
                hint="londiste migrate start begins, londiste migrate status shows where it stands",
            )


def _require_replica(pair: Pair, here: Side) -> None:
    """The side that is to follow can: asked before anything is closed.  Raises AccessDenied."""
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
            f"the {here.name} database could not follow, and there would be no way back;"
            " nothing is changed",
            hint=f"{error.hint}; then give the command again",
        )
        raise


def _require_successor(
    sites: Connections,
    seen: ClusterState,
    to: Side,
    here: Side,
    *,
    force: bool,
    warn: Callable[[str], None],
) -> None:
    """All tables and sequences are in step at ``to``.  Raises StateError."""
    try:
        readiness.check(sites, seen, to.name, here.name, force=force, warn=warn)
    except StateError as error:
        # Whatever is missing: the command that stays adds it and copies it.
        error.say_more(
            "",
            "let londiste migrate start run until londiste migrate status shows all tables in step:"
            " it adds and copies what is missing; or --force goes on without it",
        )
        raise


def _require_all(sites: Connections, pair: Pair, root: Side) -> None:
    conn = sites.at(root.dsn)
    for word, left in (
        ("tables", setup.not_replicated(conn, pair.queue)),
        ("sequences", setup.sequences_left(conn, pair.queue)),
    ):
        if not left:
            continue
        raise StateError(
            f"{word} of the {root.name} database are not part of the move: {len(left)},"
            f" {', '.join(map(str, left[:5]))}",
            detail="they were made after it had begun; nothing is changed",
            hint="londiste migrate start adds them; or --force goes on without",
        )


def _require_structure(
    sites: Connections, here: Side, to: Side, *, force: bool, warn: Callable[[str], None]
) -> None:
    """The side that is to take writes has the structure of the other one.  Raises StateError."""
    names = (here.name, to.name)
    found = drift.differences(drift.look(sites.at(here.dsn)), drift.look(sites.at(to.dsn)), names)
    stopping = [one for one in found if one.severity is Severity.CRITICAL]
    if not stopping:
        return
    shown = "; ".join(one.what for one in stopping[:_SHOWN])
    more = f" and {len(stopping) - _SHOWN} more" if len(stopping) > _SHOWN else ""
    if force:
        warn(f"the structure differs: {shown}{more}")
        return
    raise StateError(
        f"the structure of the two databases differs: {shown}{more}",
        detail="nothing is changed",
        hint=f"{stopping[0].do}; londiste migrate verify shows all; or --force goes on without",
    )
