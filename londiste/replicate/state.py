"""State of the nodes of ``londiste replicate``: in sync, or how far behind, in one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from londiste.cascade import daemons
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeInfo
from londiste.copy.status import TableStatus
from londiste.copy.status import collect as copies_of
from londiste.db.connection import Connection
from londiste.errors import StateError
from londiste.monitor import lag
from londiste.monitor.lag import Position
from londiste.monitor.queues.model import Finding
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import worker_runs
from londiste.pgq import position_check, queues
from londiste.replicate.databases import Replication, node_of
from londiste.replicate.held import Held, of_worker, paused_ticker, position_lost
from londiste.replicate.losses import Lost, look_for_losses, losses_of
from londiste.replication import sqlapi as tables
from londiste.replication.tablesync.states import By, from_text, may_take_batch
from londiste.replication.tablesync.stopped import remedy
from londiste.wording import HINT, at_node, hint_in, shortened

#: States of a ticker that creates no tick; one that has never reported may be another program.
_ENDED = (Life.GONE, Life.HUNG, Life.STOPPED)
#: States of a table as stored, until its rows are there.
_BEFORE_ROWS = (None, "in-copy")


@dataclass(frozen=True)
class NodeState:
    """A node and its lag behind the newest tick of the root.

    root -- it is the source: no lag.
    ticks, events, seconds -- behind the newest tick of the root; None when unknown.
    waiting -- events that wait for a tick although one is due, or while no ticker runs.
    tick_age -- seconds since the newest; None: it lies in the future.
    no_ticker -- the ticker has ended, or hangs.
    copies -- the tables that are not in sync.
    errors -- of its worker and its copies, and what its tables lack.
    held -- what else waits for an operator, of its worker or of the ticker.
    copies_paused -- no rows are copied until an operator resumes the copies.
    losses -- what keeps changes of its tables from it, or from the nodes below.
    source_loses -- the source, if it keeps changes of its tables from this node; else ''.
    overdue -- the events of ``waiting`` wait longer than a ticker lets them wait.
    """

    name: str
    root: bool
    tables: int
    ok: int
    ticks: int | None = None
    events: int | None = None
    seconds: float | None = None
    waiting: int = 0
    tick_age: float | None = 0.0
    no_ticker: bool = False
    errors: tuple[str, ...] = ()
    copies: tuple[TableStatus, ...] = ()
    held: tuple[Held, ...] = ()
    copies_paused: bool = False
    losses: tuple[Finding, ...] = ()
    source_loses: str = ""
    overdue: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What is worth a message when it changes."""
        return self.name, self.tables, self.ok, self.in_sync, self.errors

    @property
    def has_hints(self) -> bool:
        """Whether an error of it says what to do."""
        return any(map(hint_in, self.errors))

    @property
    def in_sync(self) -> bool:
        """Whether all tables are in sync, and no event waits."""
        complete = self.ok == self.tables and not self.errors and not self.source_loses
        return self._caught_up and complete

    @property
    def _caught_up(self) -> bool:
        placed = self.root or (self.ticks is not None and self.ticks <= 1 and self.events == 0)
        return placed and not self.waiting

    @property
    def stopped(self) -> dict[str, tuple[str, str]]:
        """The tables whose copy an operator has to continue: the reason and the remedy."""
        paused = ("copies are paused", "londiste copy resume") if self.copies_paused else None
        found = {
            copy.table: remedy(copy.error) or (paused if copy.state in _BEFORE_ROWS else None)
            for copy in self.copies
        }
        return {table: why for table, why in found.items() if why is not None}

    @property
    def loses(self) -> bool:
        """Whether it gets some changes only after an operator has acted on what is lost."""
        return bool(self.losses) or any(held.lost for held in self.held)

    @property
    def at_rest(self) -> bool:
        """Whether nothing more gets in sync until an operator acts."""
        held = any(
            copy.table in self.stopped and not may_take_batch(By.MAIN, from_text(copy.state))
            for copy in self.copies
        )
        left = self.tables - self.ok - len(self.stopped)
        failing = len(self.errors) > len(self.losses)
        defective = bool(self.losses or self.source_loses)
        lost = defective and not left and (self._caught_up or failing)
        return bool(self.held) or held or lost or (bool(self.stopped) and not left)


#: A hint of a node, and the node, as a hint that is read anywhere.
Placing = Callable[[str, str], str]


def line(state: NodeState, *, lag_known: bool = True, placed: Placing = at_node) -> str:
    """One line about a node.

    lag_known -- False: the source does not answer.  placed -- how hints of errors name the node.
    """
    counted = f"{state.tables} tables" if state.tables != 1 else "1 table"
    if state.root:
        words = f"root, {counted}"
    elif not lag_known:
        words = f"{state.ok} of {counted} in sync, lag unknown"
    elif state.in_sync:
        words = f"in sync, {counted}"
    elif state.ok < state.tables:
        words = f"{state.ok} of {counted} in sync{_behind(state, '; ')}"
    else:
        words = (_behind(state, "") or "not in sync") + f"; {counted}"
    if state.source_loses:
        words += f"; error: see {state.source_loses}"
    if state.errors:
        errors = [_error(text, state.name, placed) for text in state.errors]
        words += f"; error: {shortened(errors, between='; ')}"
    return f"{state.name}: {words}"


def _error(text: str, node: str, placed: Placing) -> str:
    head, mark, hint = text.partition(HINT)
    return f"{head}{mark}{placed(hint, node)}" if mark else text


def _behind(state: NodeState, before: str) -> str:
    parts = []
    if state.waiting:
        ticker = ": no ticker runs" if state.no_ticker else ""
        word = "event waits" if state.waiting == 1 else "events wait"
        age = "lies in the future"
        if state.tick_age is not None:
            age = f"is {state.tick_age:.0f} s old"
        parts.append(f"about {state.waiting} {word} for a tick, the newest {age}{ticker}")
    if behind := _of_ticks(state):
        parts.insert(0, behind)
    return before + "; ".join(parts) if parts else ""


def _of_ticks(state: NodeState) -> str:
    if not state.ticks and not state.events:
        return ""
    parts = []
    for count, word in ((state.ticks, "tick"), (state.events, "event")):
        if count:
            parts.append(f"{count} {word}" + ("" if count == 1 else "s"))
    if state.seconds is not None:
        parts.append(f"{state.seconds:.1f} s")
    return f"behind by {', '.join(parts)}"


def stop_waiting(
    found: Sequence[NodeState], again: str, placed: Placing = at_node
) -> StateError | None:
    """Pure: why the nodes do not get in sync, if all that are not wait for an operator.

    again -- the command that continues.  placed -- how hints name their node.
    """
    late = [one for one in found if not one.in_sync]
    if not late or not all(one.at_rest for one in late):
        return None
    what, why, do = [], [], []
    for one in late:
        for held in one.held:
            what.append(held.what)
            why.append(held.reason)
            do.append(placed(held.remedy, held.node) if held.node else held.remedy)
        for loss in one.losses:
            what.append(f"the replication of tables of {one.name}")
            why.append(f"{one.name}: {loss.what}: {loss.why}")
            do.append(loss.do)
        for table, (reason, hint) in one.stopped.items():
            what.append(f"the copy of table {table} to {one.name}")
            why.append(reason)
            do.append(hint)
    return StateError(
        f"an operator has to continue {', '.join(dict.fromkeys(what))}",
        detail="; ".join(dict.fromkeys(why)),
        hint=f"{'; '.join(dict.fromkeys(do))}; then {again}",
    )


def look_at_all(
    sites: Connections, replications: Sequence[Replication], lost: Lost | None = None
) -> list[list[NodeState]]:
    """Asks all databases about each queue; empty when one of them is no node any more.

    lost -- what was asked lately; None: it is asked now.
    """
    found = [look(sites, one.queue, one.source, one.targets) for one in replications]
    if not all(found):
        return []
    if lost is None:
        lost = look_for_losses(sites, replications)
    return [
        [_below(_lacking(*one), ours[0], states[0].name) for one in zip(states, ours, strict=True)]
        for states, ours in zip(found, lost, strict=True)
    ]


def _lacking(state: NodeState, found: Sequence[Finding]) -> NodeState:
    """Pure: the state of a node with what keeps changes of its tables from it."""
    errors = (*state.errors, *(one.what for one in found))
    return replace(state, errors=errors, losses=tuple(found))


def _below(state: NodeState, lost: Sequence[Finding], source: str) -> NodeState:
    """Pure: the state with whether its source keeps changes from it.  lost -- of the source."""
    return replace(state, source_loses=source) if lost and not state.root else state


def by_queue(
    replications: Sequence[Replication], found: Sequence[Sequence[NodeState]]
) -> list[NodeState]:
    """Pure: the states of all queues, each with its queue if there are several."""
    if len(found) < 2:
        return list(*found)
    return [
        replace(state, name=f"{state.name}, queue {replication.queue}")
        for replication, states in zip(replications, found, strict=True)
        for state in states
    ]


def total(found: Sequence[Sequence[NodeState]]) -> list[NodeState]:
    """Pure: a state for each database, of all its queues: sums, and the longest lag."""
    return [_total(states) for states in zip(*found, strict=True)]


def _total(states: Sequence[NodeState]) -> NodeState:
    ticks = [one.ticks for one in states]
    events = [one.events for one in states]
    return NodeState(
        name=states[0].name,
        root=states[0].root,
        tables=sum(one.tables for one in states),
        ok=sum(one.ok for one in states),
        # What is unknown in one queue is unknown.
        ticks=None if None in ticks else max(filter(None, ticks), default=0),
        events=None if None in events else sum(filter(None, events)),
        seconds=max((one.seconds for one in states if one.seconds is not None), default=None),
        waiting=sum(one.waiting for one in states),
        overdue=any(one.overdue for one in states),
        tick_age=None
        if any(one.tick_age is None for one in states)
        else max(one.tick_age or 0.0 for one in states),
        no_ticker=any(one.no_ticker for one in states),
        errors=tuple(text for one in states for text in one.errors),
        held=tuple(held for one in states for held in one.held),
        copies_paused=any(one.copies_paused for one in states),
        copies=tuple(copy for one in states for copy in one.copies),
        losses=tuple(loss for one in states for loss in one.losses),
        source_loses=next((one.source_loses for one in states if one.source_loses), ""),
    )


def look(
    sites: Connections, queue: str, source: Endpoint, targets: Sequence[Endpoint]
) -> list[NodeState]:
    """Asks all databases; empty when one of them is no node any more.  Raises NodeUnreachable."""
    root = sites.at(source.dsn)
    if node_of(root, queue) is None:
        return []
    count = len([t for t in tables.get_table_list(root, queue) if t.local])
    found = [NodeState(source.name, True, count, count)]
    seen = {}
    for target in targets:
        node = node_of(sites.at(target.dsn), queue)
        if node is None:
            return []
        seen[target.name] = node
    info = queues.get_queue_info(root, queue)[0]
    newest = info.last_tick_id or 0
    at = lag.positions_at(root, queue, {newest, *(node.last_tick for node in seen.values())})
    readers = {one.consumer_name for one in queues.get_consumer_info(root, queue)}
    ticker = daemons.ticker(root, daemons.find(root, queue)).life
    for target in targets:
        state = look_at_target(sites, target, queue)
        node = seen[target.name]
        known = target.worker in readers
        if node.provider == source.name and (reason := _lost(sites, queue, source, target, node)):
            state = _at_lost(state, source.name, reason)
        # Whether its tick stays in the queue is unknown if the source does not know its worker.
        position = at.get(node.last_tick) if known else None
        state = _placed(state, position, at.get(newest), ticker)
        if info.queue_ticker_paused and needs_tick(state):
            state = replace(state, held=(*state.held, paused_ticker(source.name, queue)))
        found.append(state)
    return found


def _lost(
    sites: Connections, queue: str, source: Endpoint, target: Endpoint, node: NodeInfo
) -> str | None:
    """Why the position of a target is lost, as its worker would find it; None: it is not."""
    root, conn, tick = sites.at(source.dsn), sites.at(target.dsn), node.last_tick
    known = position_check.recall(conn, queue, target.worker)
    facts = position_check.look(root, queue, target.worker, known, tick)
    if facts.registration is None:
        return position_check.UNREGISTERED
    if known is None or known.source != source.name:
        return None
    reason = position_check.decide(known, facts, tick)
    if reason is None or nodes.get_node_info(conn, queue).last_tick == tick:
        return reason
    # The worker has moved on meanwhile.
    return None


def _at_lost(state: NodeState, source: str, reason: str) -> NodeState:
    """Pure: the state of a node whose position at the source is lost."""
    lost = position_lost(state.name, source, reason)
    errors = state.errors
    if not any(reason in text for text in errors):
        errors = (f"{lost.reason.removeprefix(f'{state.name}: ')}{HINT}{lost.remedy}", *errors)
    return replace(state, errors=errors, held=(lost, *(h for h in state.held if not h.lost)))


def needs_tick(state: NodeState) -> bool:
    """Pure: whether only another tick of the root brings the node further."""
    reading = any(copy.state in _BEFORE_ROWS for copy in state.copies)
    return not state.in_sync and not reading and state.ticks in (0, 1, None)


def _placed(
    state: NodeState, position: Position | None, newest: Position | None, ticker: Life
) -> NodeState:
    """Pure: the state with its distance to the newest tick, and to the newest event."""
    if position is None or newest is None:
        # Its tick is no longer, or not yet, in the queue of the root.
        return state
    # With no later tick, these have none.
    waiting = 0 if newest.behind.ticks else newest.behind.events
    overdue = newest.behind.needs_tick
    behind = position.behind
    events = max(0, behind.events - waiting)
    return replace(
        state,
        ticks=behind.ticks,
        events=events,
        seconds=behind.seconds if events else None,
        waiting=waiting if overdue or ticker in _ENDED else 0,
        overdue=overdue,
        tick_age=newest.age,
        no_ticker=ticker in _ENDED,
    )


def look_at_silent(sites: Connections, target: Endpoint, queue: str) -> NodeState:
    """Asks a target whose source does not answer."""
    state = look_at_target(sites, target, queue)
    return _lacking(state, losses_of(sites.at(target.dsn), queue))


def look_at_target(sites: Connections, target: Endpoint, queue: str) -> NodeState:
    """Asks a target alone; its lag is unknown."""
    conn = sites.at(target.dsn)
    mine = [t for t in tables.get_table_list(conn, queue) if t.local]
    failing = {c.name: c.cur_error for c in nodes.get_consumer_info(conn, queue) if c.cur_error}
    copies = copies_of(conn, queue, target.worker, lag=False)
    return NodeState(
        name=target.name,
        root=False,
        tables=len(mine),
        ok=sum(t.state == "ok" for t in mine),
        errors=tuple(text.splitlines()[0] for text in failing.values()),
        copies=tuple(copies.tables),
        copies_paused=copies.control.paused,
        held=tuple(of_worker(conn, queue, target, failing=target.worker in failing)),
    )


def forget_errors(sites: Connections, replications: Sequence[Replication]) -> None:
    """Deletes errors of earlier processes: who repeats the command may have removed their cause.

    A worker that runs stores its error once, and deletes it; a copy stores it each time.
    """
    for one in replications:
        for target in one.targets:
            forget_errors_of(sites.at(target.dsn), one.queue, target.worker)


def forget_errors_of(conn: Connection, queue: str, worker: str) -> None:
    """The same of one node.  worker -- its consumer."""
    for consumer in nodes.get_consumer_info(conn, queue):
        stale = remedy(consumer.cur_error or "") is not None or (
            consumer.name == worker and not worker_runs(conn, queue)
        )
        if consumer.cur_error and stale:
            nodes.set_consumer_error(conn, queue, consumer.name, None)
