"""Status of the copies of a node: every table that is not in sync.

Read from this node's database; the lag of catch-ups is read from the provider.  Any process can
read it, wherever the copies run.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.copy import progress, step_timings
from londiste.copy.progress import Progress
from londiste.copy.sqlapi import groups
from londiste.copy.sqlapi.attempts import copy_choices
from londiste.copy.sqlapi.control import Control, get_copy_control
from londiste.copy.step_timings import StepTiming
from londiste.db.connection import Connection, session
from londiste.db.connstr.locations import reach
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import LondisteError
from londiste.pgq import queues
from londiste.replication import sqlapi as tables
from londiste.replication.tablesync import states
from londiste.replication.tablesync.cancel import copy_consumer

#: application_name of a session that builds an index, in front of its name.
BUILDER = "londiste copy index "


@dataclass(frozen=True)
class Build:
    """An index that is being built; '' for an unknown name."""

    index: str
    phase: str
    blocks_done: int
    blocks_total: int
    tuples_done: int
    tuples_total: int
    seconds: float


@dataclass(frozen=True)
class CopyLag:
    """Lag of a table's catch-up behind the newest tick of the provider."""

    ticks: int
    events: int | None


@dataclass(frozen=True)
class TableStatus:
    """Status of one table's copy.

    state -- as stored; None: it waits for its turn.
    step -- the step that runs now, '' when none does.
    seconds -- of that step so far.
    mode, reason -- copy mode (snapshot or resumable) and its reason; '' before its copy.
    load -- progress of the rows, while they come.
    builds -- indexes that are being built.
    analyze -- (phase, blocks done, blocks in all) during ANALYZE.
    behind -- while it catches up.
    waits -- the reason of a wait that ends automatically.
    error -- why it does not continue.
    """

    table: str
    state: str | None
    step: str = ""
    seconds: float | None = None
    mode: str = ""
    reason: str = ""
    load: Progress | None = None
    builds: tuple[Build, ...] = ()
    analyze: tuple[str, int, int] | None = None
    behind: CopyLag | None = None
    waits: str = ""
    error: str = ""


@dataclass(frozen=True)
class CopyStatus:
    """The copies of a node: their pause and limits, and the tables that are not in sync."""

    control: Control
    tables: list[TableStatus]


def collect(
    conn: Connection, queue: str, consumer: str, *, remote_extra: str = "", lag: bool = True
) -> CopyStatus:
    """Reads the tables of a node that are not in sync, in the order of adding.

    Includes tables in sync whose foreign keys are still being checked.

    consumer -- the worker's consumer; remote_extra -- added to the provider's location.
    lag -- read the lag of catch-ups from the provider.

    Raises UnknownNode.  If the provider does not answer, the lag is unknown.
    """
    state = nodes.get_worker_state(conn, queue)
    current = {s.table: s for s in step_timings.copy_steps(conn, queue) if not s.finished}
    on_the_way = [
        t
        for t in tables.get_table_list(conn, queue)
        if t.local and (states.from_text(t.state) != states.Ok() or str(t.name) in current)
    ]
    control = get_copy_control(conn, queue)
    if not on_the_way:
        return CopyStatus(control, [])
    loads = {item.table: item for item in progress.read(conn, queue)}
    errors = {c.name: c.cur_error or "" for c in nodes.get_consumer_info(conn, queue)}
    builds, analyzes = _builds(conn), _analyzes(conn)
    choices = copy_choices(conn, queue)
    members = groups.copy_members(conn, queue)
    behind: dict[str, CopyLag] = {}
    if lag and any(
        isinstance(states.from_text(t.state), states.CatchingUp)
        or (str(t.name) in current and current[str(t.name)].step == step_timings.STATES)
        for t in on_the_way
    ):
        behind = _behind(reach(state.provider_location, remote_extra, node=state.provider), queue)
    result = []
    for table in on_the_way:
        name = str(table.name)
        own = members.get(table.name) or copy_consumer(consumer, table.name)
        step: StepTiming | None = current.get(name)
        choice = choices.get(name)
        result.append(
            TableStatus(
                table=name,
                state=table.state,
                step=step.step if step else "",
                mode=choice.mode if choice else "",
                reason=choice.reason if choice else "",
                seconds=step.seconds if step else None,
                load=loads.get(name),
                builds=tuple(builds.get(table.dest, ())),
                analyze=analyzes.get(table.dest),
                behind=behind.get(own),
                waits=(step.waits or "") if step else "",
                error=errors.get(own, ""),
            )
        )
    return CopyStatus(control, result)


def _builds(conn: Connection) -> dict[TableName, list[Build]]:
    found: dict[TableName, list[Build]] = {}
    for schema, name, session_name, *facts in tuples(conn, "index_builds"):
        index = session_name.removeprefix(BUILDER) if session_name.startswith(BUILDER) else ""
        found.setdefault(TableName(schema, name), []).append(Build(index, *facts))
    return found


def _analyzes(conn: Connection) -> dict[TableName, tuple[str, int, int]]:
    return {
        TableName(schema, name): (phase, done, total)
        for schema, name, phase, done, total in tuples(conn, "analyzes")
    }


def _behind(location: str, queue: str) -> dict[str, CopyLag]:
    """The lag of every consumer of the provider, by name; empty when it does not answer."""
    try:
        with session(location, name="londiste copy status", autocommit=True) as conn:
            newest = queues.get_queue_info(conn, queue)[0].last_tick_id or 0
            return {
                c.consumer_name: CopyLag(max(0, newest - (c.last_tick or 0)), c.pending_events)
                for c in queues.get_consumer_info(conn, queue)
            }
    except (LondisteError, psycopg.Error):
        return {}
