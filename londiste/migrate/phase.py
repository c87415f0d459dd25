"""Phase of a migration: a pure function of the facts about both databases, and the next command."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from londiste.cascade.commands import install_sql
from londiste.cascade.model import NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.errors import LondisteError, NodeUnreachable
from londiste.migrate import daemons, setup, switching
from londiste.migrate.databases import NEW, Pair, Side
from londiste.monitor import status
from londiste.monitor.lag import Behind
from londiste.orchestration.connections import Connections
from londiste.replication import sqlapi as tables


class Phase(StrEnum):
    """Phases of a migration.

    A migration that is finished leaves nothing: it is NOT_BEGUN.  UNKNOWN: a database does not
    answer.
    """

    NOT_BEGUN = "not begun"
    SETTING_UP = "setting up"
    COPYING = "copying"
    IN_STEP = "in step"
    SWITCHING = "switching"
    CHANGING = "changing"
    SWITCHED = "switched"
    ENDING = "ending"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PhaseFacts:
    """Facts about both databases.

    types -- of the existing nodes, by name.  noted -- unfinished changes of the cascade that are
    recorded at them.  states -- of the tables of the branch; None: to be copied.  left -- tables of
    the root that are not replicated yet.
    """

    types: Mapping[str, NodeType]
    noted: Sequence[Operation] = ()
    states: Sequence[str | None] = ()
    left: int = 0
    added: int = 0


def phase(seen: PhaseFacts) -> Phase:
    """Pure: the phase of the migration."""
    if not seen.types:
        return Phase.NOT_BEGUN
    if any(not switching.ours(noted) for noted in seen.noted):
        return Phase.CHANGING
    if len(seen.types) == 1:
        return Phase.ENDING if seen.types.get(NEW) is NodeType.ROOT else Phase.SETTING_UP
    if seen.noted:
        return Phase.SWITCHING
    if seen.types[NEW] is NodeType.ROOT:
        return Phase.SWITCHED
    if seen.left or seen.added > len(seen.states):
        return Phase.SETTING_UP
    if any(state != "ok" for state in seen.states):
        return Phase.COPYING
    return Phase.IN_STEP


def takes_writes(types: Mapping[str, NodeType], noted: Mapping[str, Operation]) -> str | None:
    """Pure: the node that takes writes.  None during a switch.

    noted -- unfinished changes, by the node that has them recorded.
    """
    closed = {
        name
        for name, one in noted.items()
        if one.kind is OperationKind.SWITCHOVER and one.node == name and one.last_tick is not None
    }
    return next((n for n, k in types.items() if k is NodeType.ROOT and n not in closed), None)


#: What to type next, in each phase.
NEXT: Mapping[Phase, str] = {
    Phase.NOT_BEGUN: "to migrate: londiste migrate check, then londiste migrate start; after"
    " londiste migrate finish nothing is left to do",
    Phase.SETTING_UP: "londiste migrate start continues",
    Phase.COPYING: "wait; londiste migrate start must be running: it shows the progress of the"
    " copies",
    Phase.IN_STEP: "londiste migrate verify, then londiste migrate switch",
    Phase.SWITCHING: "repeat the command of the switch, or undo it with --rollback",
    Phase.CHANGING: "another command is changing the cascade: wait until it is done",
    Phase.SWITCHED: "londiste migrate verify; londiste migrate back returns,"
    " londiste migrate finish ends it",
    Phase.ENDING: "londiste migrate finish continues",
    Phase.UNKNOWN: "check that both servers run, then repeat londiste migrate status",
}

#: The same while neither database is a node, and one has the SQL that the migration installed.
_LEFT = (
    "londiste migrate start continues a start; londiste migrate finish continues a finish, and"
    " removes the SQL of the migration, which is still there"
)


@dataclass(frozen=True)
class Progress:
    """Status of a migration.

    root -- the side that takes writes: old or new.  None: neither, not started, or unknown.
    lag -- of the other side in seconds, 0 if it is idle; None: unknown.
    behind -- the same as londiste status has it: idle, or the ticks and events.
    running, missing -- daemons that run, started by any process, and that do not.
    """

    phase: Phase
    root: str | None
    tables: int
    in_step: int
    lag: float | None
    running: tuple[str, ...]
    missing: tuple[str, ...]
    errors: tuple[str, ...]
    next: str
    behind: str | None = None


def look(sites: Connections, pair: Pair) -> Progress:
    """Asks both databases.  Raises NodeUnreachable when one does not answer."""
    infos = {
        side.name: found
        for side in (pair.old, pair.new)
        if (found := setup.node(sites, side, pair.queue)) is not None
    }
    if not infos:
        marks = [
            install_sql.marked(sites.at(s.dsn), setup.mark(pair)) for s in (pair.old, pair.new)
        ]
        then = _LEFT if any(marks) else NEXT[Phase.NOT_BEGUN]
        return Progress(Phase.NOT_BEGUN, None, 0, 0, None, (), (), (), then)
    types = {name: info.type for name, info in infos.items()}
    conn = {side.name: sites.at(side.dsn) for side in (pair.old, pair.new)}
    noted = {
        name: one
        for name in infos
        if (one := operation_log.find(conn[name], pair.queue)) is not None
    }
    root = takes_writes(types, noted)
    roots = [name for name, kind in types.items() if kind is NodeType.ROOT]
    # In the middle of a switch there are two roots, one of them closed, or a closed one alone.
    above = root or next(iter(roots), None)
    below = next((name for name in types if name != above), None)
    states: list[str | None] = []
    added = left = 0
    if below is not None:
        states = [t.state for t in tables.get_table_list(conn[below], pair.queue) if t.local]
    if above is not None:
        added = len([t for t in tables.get_table_list(conn[above], pair.queue) if t.local])
        left = len(setup.not_replicated(conn[above], pair.queue))
    seen = PhaseFacts(types, list(noted.values()), states, left, added)
    now = phase(seen)
    behind, errors = _health(pair, below, above)
    needed = [need.name for need in daemons.needs(pair)]
    there = daemons.ask(sites, pair).certain() if len(infos) == 2 else set()
    return Progress(
        now,
        root,
        added + left,
        sum(state == "ok" for state in states),
        seconds(behind),
        tuple(name for name in needed if name in there),
        tuple(name for name in needed if name not in there),
        errors,
        _next(pair, now, noted, roots),
        None if behind is None else str(behind),
    )


def seconds(behind: Behind | None) -> float | None:
    """Pure: the lag; none while everything is applied, however old the newest tick is."""
    if behind is None:
        return None
    return 0.0 if behind.idle else behind.seconds


def look_at_answering(sites: Connections, pair: Pair) -> tuple[Progress, NodeUnreachable | None]:
    """As ``look``; with one silent database what the other one knows, and the error.

    Raises the error of one when neither answers.
    """
    silent: dict[str, LondisteError] = {}
    for side in (pair.old, pair.new):
        try:
            sites.at(side.dsn)
        except LondisteError as failure:
            silent[side.name] = failure
    if not silent:
        return look(sites, pair), None
    name, error = silent.popitem()
    if silent:
        raise error
    return _look_at(sites, pair, pair.other(pair.side(name)), error), NodeUnreachable.of(error)


def _look_at(sites: Connections, pair: Pair, side: Side, error: LondisteError) -> Progress:
    """What one database knows of the migration.  error -- of the other one."""
    info, conn = setup.node(sites, side, pair.queue), sites.at(side.dsn)
    root, mine = None, []
    if info is not None:
        noted = operation_log.find(conn, pair.queue)
        root = takes_writes({side.name: info.type}, {side.name: noted} if noted else {})
        mine = [t for t in tables.get_table_list(conn, pair.queue) if t.local]
    there = daemons.ask(sites, pair)
    needed = [need.name for need in daemons.needs(pair)]
    return Progress(
        Phase.UNKNOWN,
        root,
        len(mine),
        # The state of a table is that of its copy, which the root does not have.
        0 if root else sum(t.state == "ok" for t in mine),
        None,
        tuple(name for name in needed if name in there.running),
        tuple(name for name in needed if name not in {*there.running, *there.unknown}),
        (error.message,),
        NEXT[Phase.UNKNOWN],
    )


def _next(pair: Pair, now: Phase, noted: Mapping[str, Operation], roots: Collection[str]) -> str:
    """The next command; during a change, the command that finishes it."""
    for name, one in noted.items():
        if now is Phase.CHANGING and not switching.ours(one):
            return f"{one.describe()}; {switching.way_out(pair, one, name, roots)}"
        if now is Phase.SWITCHING:
            return switching.way_out(pair, one, name, roots)
    return NEXT[now]


def _health(
    pair: Pair, below: str | None, root: str | None
) -> tuple[Behind | None, tuple[str, ...]]:
    """Lag and errors, as ``londiste status`` has them."""
    if below is None or root is None:
        return None, ()
    settings = pair.worker_settings(pair.side(root))
    found = status.collect(settings.db, pair.queue, extra=settings.remote_extra_connstr)
    errors = [f"{node.name}: {who}: {text}" for node in found.nodes for who, text in node.errors]
    errors += [f"{n.name} {n.silence}" for n in found.nodes if n.unreachable]
    behind = next((node.behind for node in found.nodes if node.name == below), None)
    return behind, tuple(errors)
