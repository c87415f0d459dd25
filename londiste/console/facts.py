"""Facts of a node beside its status: its tables, copies, queues, failed events and scripts.

Without ``show_values`` no text that may contain a value of a row leaves this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import Operation
from londiste.changes.row_values import without_code
from londiste.compare import audit
from londiste.compare import sqlapi as compared
from londiste.compare.audit import Coverage
from londiste.copy import status as copying
from londiste.copy.sqlapi.control import get_copy_control
from londiste.copy.status import CopyStatus
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.errors import LondisteError
from londiste.monitor import apply_errors, operator_log
from londiste.monitor.apply_errors import StoredError
from londiste.monitor.operator_log import LoggedAction
from londiste.monitor.queues import collect as queues
from londiste.monitor.queues.model import ConsumerFacts, MonitorFacts
from londiste.pgq import browse, dead_letters
from londiste.replication import coverage
from londiste.replication import sqlapi as registered
from londiste.replication.apply import errors
from londiste.replication.ddl import sqlapi as scripts
from londiste.replication.ddl.sqlapi import Script
from londiste.replication.model import ReplicatedTable
from londiste.wording import QUOTED

#: Events of a consumer that are listed, and decisions and scripts of a node.
MOST_EVENTS, MOST_CHANGES = 20, 200
#: A value may contain quotes: everything from the first to the last one goes.
_QUOTED = re.compile(rf"{QUOTED.pattern}|(?P<row>=|contains)\s*\(.*\)")


class Fact(StrEnum):
    """What a node may not show: its schemas are older, or the role lacks the rights."""

    TABLES = "tables"
    COPIES = "copies"
    FAILED = "failed events"
    MOVE = "unfinished changes of the cascade"
    QUEUES = "queues"
    WAITING = "retries and dead letters"
    AUDIT = "results of the audit"
    DECIDED = "decided events"
    ACTIONS = "actions"
    SCRIPTS = "scripts"


#: Those that are collected less often.
_SLOW = frozenset({Fact.AUDIT, Fact.DECIDED, Fact.ACTIONS, Fact.SCRIPTS})


@dataclass(frozen=True)
class Estimate:
    """Rows and bytes of a table, as the catalog of its database estimates them."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class WaitingEvent:
    """An event that waits for its retry, or a dead letter.

    at -- when it is delivered again, or when it was given up.
    reason, payload -- None unless values are shown.
    """

    queue: str
    consumer: str
    kind: str
    event: int
    type: str | None
    at: datetime | None
    attempts: int | None
    reason: str | None
    payload: str | None


@dataclass(frozen=True)
class SlowFacts:
    """Facts of a node that are collected less often.

    estimates -- by the table's name in this database.  audit -- coverage by table.
    decided -- failed events about which an operator has decided, the newest first.
    actions -- of operators in the console, the newest first.
    unknown -- what the node did not show.
    """

    estimates: dict[TableName, Estimate]
    audit: tuple[Coverage, ...] = ()
    decided: tuple[StoredError, ...] = ()
    scripts: tuple[Script, ...] = ()
    actions: tuple[LoggedAction, ...] = ()
    unknown: frozenset[Fact] = frozenset()


@dataclass(frozen=True)
class NodeFacts:
    """Facts of a node beside its status.

    queues -- all of its database.  waiting -- the first events of each consumer.
    failed -- events that block it.
    unknown -- what the node did not show: empty, but not known to be empty.
    """

    database: str
    tables: tuple[ReplicatedTable, ...] = ()
    queues: MonitorFacts | None = None
    slow: SlowFacts | None = None
    copies: CopyStatus | None = None
    failed: tuple[StoredError, ...] = ()
    waiting: tuple[WaitingEvent, ...] = ()
    operation: Operation | None = None
    unknown: frozenset[Fact] = frozenset()


@contextlib.contextmanager
def _noting(unknown: set[Fact], *facts: Fact) -> Iterator[None]:
    """Notes the facts as unknown if the node does not show them."""
    try:
        yield
    except LondisteError:
        unknown.update(facts)


def collect(
    conn: Connection,
    queue: str,
    slow: Callable[[Sequence[ReplicatedTable]], SlowFacts],
    values: bool,
) -> NodeFacts:
    """The facts of a node; those that its schemas or its role do not show are empty, and named.

    slow -- gives the facts that are collected less often.
    """
    unknown: set[Fact] = set()
    facts = NodeFacts(describe_dsn(conn.info.dsn))
    with _noting(unknown, Fact.TABLES, Fact.COPIES, *_SLOW):
        tables = tuple(t for t in registered.get_table_list(conn, queue) if t.local)
        facts = dataclasses.replace(facts, tables=tables)
        with _noting(unknown, *_SLOW):
            facts = dataclasses.replace(facts, slow=slow(tables))
        unknown.update(facts.slow.unknown if facts.slow is not None else ())
    with _noting(unknown, Fact.COPIES):
        copies = _copies(conn, queue, facts.tables)
        facts = dataclasses.replace(facts, copies=copies if values else without_errors(copies))
    with _noting(unknown, Fact.FAILED):
        failed = tuple(
            apply_errors.look(conn, queue)
            if values
            else (
                without_row(one, apply_errors.open_choices(conn, one, queue))
                for one in errors.get_apply_errors(conn, queue)
            )
        )
        facts = dataclasses.replace(facts, failed=failed)
    with _noting(unknown, Fact.MOVE):
        facts = dataclasses.replace(facts, operation=operation_log.find(conn, queue))
    with _noting(unknown, Fact.QUEUES, Fact.WAITING):
        found = queues.collect(conn)
        facts = dataclasses.replace(facts, queues=found)
        with _noting(unknown, Fact.WAITING):
            waiting = [e for c in found.consumers for e in _waiting(conn, c, values=values)]
            facts = dataclasses.replace(facts, waiting=tuple(waiting))
    return dataclasses.replace(facts, unknown=frozenset(unknown))


def collect_slow(
    conn: Connection, queue: str, tables: Sequence[ReplicatedTable], *, values: bool
) -> SlowFacts:
    """The facts that change seldom or cost more."""
    unknown: set[Fact] = set()
    facts = SlowFacts(_estimates(conn, [t.dest for t in tables]))
    with _noting(unknown, Fact.AUDIT):
        found = _audit(conn, queue, tables)
        facts = dataclasses.replace(facts, audit=tuple(found) if values else _without_keys(found))
    with _noting(unknown, Fact.DECIDED):
        decided = [e for e in errors.get_apply_errors(conn, queue, every=True) if e.decided_at]
        decided.sort(key=lambda one: one.decided_at or one.last_seen, reverse=True)
        shown = tuple(without_row(one) for one in decided[:MOST_CHANGES])
        facts = dataclasses.replace(facts, decided=shown)
    with _noting(unknown, Fact.ACTIONS):
        logged = operator_log.get_action_log(conn, queue, MOST_CHANGES)
        facts = dataclasses.replace(facts, actions=tuple(logged))
    with _noting(unknown, Fact.SCRIPTS):
        last = scripts.get_scripts(conn, queue)[-MOST_CHANGES:]
        # The text of a script may contain values.
        plain = tuple(dataclasses.replace(one, sql="", error=None) for one in last)
        facts = dataclasses.replace(facts, scripts=plain)
    return dataclasses.replace(facts, unknown=frozenset(unknown))


def _copies(conn: Connection, queue: str, tables: Iterable[ReplicatedTable]) -> CopyStatus:
    if all(table.state == "ok" for table in tables):
        return CopyStatus(get_copy_control(conn, queue), [])
    worker = nodes.get_node_info(conn, queue).worker
    return copying.collect(conn, queue, worker, lag=False)


def without_errors(copies: CopyStatus) -> CopyStatus:
    """Pure: the copies with messages that contain no values."""
    rows = [
        dataclasses.replace(one, error=masked_text(one.error), waits=masked_text(one.waits))
        for one in copies.tables
    ]
    return dataclasses.replace(copies, tables=rows)


def without_row(
    error: errors.ApplyError, choices: Sequence[apply_errors.Decision] = ()
) -> StoredError:
    """Pure: a failed event without its row and its message, which contains the key."""
    plain = dataclasses.replace(error, image=None, here=None, statement=None, message="")
    return StoredError(plain, None, choices)


def _waiting(conn: Connection, one: ConsumerFacts, *, values: bool) -> list[WaitingEvent]:
    found = []
    browse.accept_any_time(conn)
    if one.dead_letters and not one.cooperative:
        letters = dead_letters.failed_event_list(conn, one.queue, one.name, count=MOST_EVENTS)
        found += [
            WaitingEvent(
                *(one.queue, one.name, "dead letter", e.id, e.type, e.failed_time, e.retry),
                reason=e.failed_reason if values else None,
                payload=e.data if values else None,
            )
            for e in letters
        ]
    if one.retries:
        found += [
            WaitingEvent(
                *(one.queue, one.name, "retry", r["id"], r["type"], r["after"], r["retry"]),
                reason=None,
                payload=r["data"] if values else None,
            )
            for r in browse.retries(conn, one.queue, one.name, limit=MOST_EVENTS)
        ]
    return found


def _estimates(conn: Connection, tables: Sequence[TableName]) -> dict[TableName, Estimate]:
    rows = fetch(
        conn,
        "table_estimates",
        schemas=[t.schema for t in tables],
        names=[t.name for t in tables],
    )
    return {TableName(r["schema"], r["name"]): Estimate(r["rows"], r["bytes"]) for r in rows}


def _audit(conn: Connection, queue: str, tables: Iterable[ReplicatedTable]) -> list[Coverage]:
    ranges = compared.compare_ranges(conn, queue, compared.AUDIT)
    by_table: dict[str, list[compared.ComparedRange]] = {}
    for one in ranges:
        by_table.setdefault(one.table_name, []).append(one)
    # Without those that other sources fill too, which are no longer compared.
    sole = {one.table_name for one in coverage.read(conn, queue)} if by_table else set()
    names = [str(table.name) for table in tables if str(table.name) in sole]
    return [audit.summed(name, by_table[name]) for name in names if name in by_table]


def _without_keys(found: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Keys of rows are values."""
    return tuple(
        dataclasses.replace(one, findings=tuple({"kind": f.get("kind")} for f in one.findings))
        for one in found
    )


def masked_text(text: str) -> str:
    """Pure: a message without quotes, values of keys and rows, and words of code of a table."""

    def instead(found: re.Match[str]) -> str:
        start = found[0].partition("(")[0]
        return f"{start}(…)" if found["row"] else "…"

    return _QUOTED.sub(instead, without_code(text))
