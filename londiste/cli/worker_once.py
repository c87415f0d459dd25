"""A worker that works until nothing is left, and ends if only an operator can continue it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.daemons import RECONNECT, start_worker
from londiste.cascade.switching.steps.waits import newest_tick
from londiste.cli.plan_output import sites
from londiste.copy.status import TableStatus
from londiste.copy.status import collect as copies_of
from londiste.errors import LondisteError, StateError
from londiste.orchestration.connections import Connections
from londiste.replicate import state
from londiste.replication.tablesync import wait
from londiste.replication.tablesync.states import CatchingUp, Missing, Ok, WannaSync, from_text
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings
from londiste.wording import shortened

#: Seconds in which the worker of the provider may begin to work again.
_PATIENCE = 2 * RECONNECT


def run_once(worker: Worker, start: Callable[[str], str] = start_worker) -> None:
    """Raises the first error, and StateError for a copy or script that waits for an operator.

    start -- what starts the worker of a node.
    """
    settings = worker.settings
    queue, known = settings.queue_name, list[Endpoint]()
    with sites(settings) as reach:
        provider = _Provider(reach, settings, start)

        def require_going() -> None:
            conn = reach.at(settings.db)
            if not known:
                node = nodes.get_worker_state(conn, queue)
                known.append(Endpoint(node.name, settings.db, "", node.worker))
                # Who repeats the command may have removed their cause.
                state.forget_errors_of(conn, queue, node.worker)
            seen = state.look_at_target(reach, known[0], queue)
            stopped = state.stop_waiting([seen], "the same command") or provider.stopped(known[0])
            if stopped is not None:
                raise stopped

        worker.run_once(require_going)


class _Provider:
    """The provider of the node, if it is a branch: only its worker gives it ticks."""

    def __init__(
        self, reach: Connections, settings: WorkerSettings, start: Callable[[str], str]
    ) -> None:
        self._reach = reach
        self._settings = settings
        self._start = start
        #: The reason and the tick of the last check, and when both were first seen.
        self._seen: tuple[object, ...] | None = None
        self._since = self._checked = 0.0

    def stopped(self, node: Endpoint) -> StateError | None:
        """Why the copies of the node do not continue, if they wait for a worker that is idle."""
        now = time.monotonic()
        if now - self._checked < _PATIENCE / 4:
            return None
        self._checked = now
        # An error of this session is none of the worker, which has its own.
        with suppress(LondisteError):
            return self._stopped(node, now)
        return None

    def _stopped(self, node: Endpoint, now: float) -> StateError | None:
        here, queue = self._reach.at(self._settings.db), self._settings.queue_name
        own = nodes.get_node_info(here, queue)
        provider = self._reach.at(self._reach.reach(own.provider_location, own.provider))
        name = nodes.get_node_info(provider, queue).name
        idle = wait.find(provider, queue, start=self._start(name), never=True)
        if idle is None or idle.state == "failing":
            self._seen = None
            return None
        newest = newest_tick(provider, queue)
        if self._seen != (idle.state, idle.mark, newest):
            self._seen, self._since = (idle.state, idle.mark, newest), now
        extra = self._settings.remote_extra_connstr
        copies = copies_of(here, queue, node.worker, remote_extra=extra).tables
        tables = waiting_for_tick(copies, newest)
        if not tables or now - self._since < _PATIENCE:
            return None
        reason, _, do = (
            idle.reason.partition("; ") if idle.state == "stale" else idle.reason.rpartition(": ")
        )
        if idle.state == "halted":
            do += f" (settings of node {name})"
        word = "table" if len(tables) == 1 else "tables"
        return StateError(
            f"the copy of {word} {shortened(tables, 3)} waits for the worker of {name},"
            " the provider",
            detail=reason,
            hint=f"{do}; then the same command",
        )


def waiting_for_tick(copies: Sequence[TableStatus], newest: int) -> list[str]:
    """Pure: the tables that are not in sync, if only a provider with another tick continues them.

    newest -- the tick of the provider.  A table whose copy has not begun waits for that of the
    provider.
    """
    late = [copy for copy in copies if from_text(copy.state) != Ok()]
    for copy in late:
        match from_text(copy.state):
            case Missing():
                continue
            case CatchingUp() if copy.behind is not None and not copy.behind.ticks:
                continue
            case WannaSync(tick) if tick > newest:
                continue
        return []
    return [copy.table for copy in late]
