"""What stops tables of a node: errors of consumers, captures and partitions; paused copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import (
    AccessDenied,
    InstallError,
    LondisteError,
    NotSecured,
    NotTrusted,
)
from londiste.monitor import partitions, schema_owners, subscriptions
from londiste.monitor.captures.rules import UNREADY
from londiste.monitor.nodes.doubts import REWRITTEN, SEQUENCE_DOUBTS, SILENT, STALE_BELOW
from londiste.monitor.queues.model import Finding, Severity
from londiste.pgq import queues
from londiste.replication import replicated_rows, replication_role
from londiste.replication import sqlapi as tables
from londiste.replication.apply import errors as apply_errors
from londiste.replication.lost_rows import DETACHED, REPLACED
from londiste.replication.model import COPY_BELOW, ReplicatedTable

_T = TypeVar("_T")
#: The command with more about a line of status.
CHECK = "londiste check --all-nodes shows what to do"
#: By the kind of ``sql/queries/table_losses.sql``: what a table lacks.
_LOSSES = {
    "capture": "{}: its changes are not replicated",
    "branch-capture": f"{{}}: {UNREADY}",
    "missing": "does not exist",
    "table-replaced": f"{REPLACED}: rows of before are missing",
    "partition-detached": f"{DETACHED} {{}}: its rows are missing",
}
#: The source of the error of a node that has lost its list of tables.
NO_TABLES = "no-tables"
#: What a server says to a user without a right: it answers.
_NO_RIGHT = "42501"
UNCAPTURED = "changes of such sessions are not captured"


@dataclass(frozen=True)
class Halted:
    """An event that stops a consumer: names only, no values."""

    event: str
    consumer: str
    table: str
    op: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        key = f" by {', '.join(self.key)}" if self.key else ""
        return (
            f"HALTED at event {self.event}: {self.op or 'event'} of {self.table}{key}:"
            " londiste events show"
        )


def collect(
    conn: Connection,
    queue: str,
    info: NodeInfo,
    listed: Sequence[ReplicatedTable],
    missing: list[str],
    *,
    has_queue: bool,
) -> tuple[tuple[str, str], ...]:
    """Source and text of each, as ``NodeStatus.errors`` has them.

    listed -- tables of the node.  missing -- takes what its older schemas lack.
    """
    errors = [
        (c.name, c.cur_error.splitlines()[0])
        for c in nodes.get_consumer_info(conn, queue)
        if c.cur_error
    ]
    if info.type is NodeType.ROOT:
        for changed in known(missing, lambda: partitions.find(conn, queue)) or ():
            do = partitions.remedy(changed.table, queue)
            errors.append(("partition", f"{changed.message}; hint: {do}"))
    errors += unregistered(conn, queue, info, has_queue=has_queue)
    if info.type is not NodeType.LEAF:
        for silenced in replication_role.find(conn):
            errors.append(("replication-role", f"{silenced}: {UNCAPTURED}: {CHECK}"))
    renamed = known(missing, lambda: tables.renamed_tables(conn, queue)) or {}
    for old, now in renamed.items():
        errors.append(
            (
                "capture",
                f"table {old} was renamed to {now}, events carry the old name: {CHECK}",
            )
        )
    swapped = dict(known(missing, lambda: tuples(conn, "swapped_captures", queue=queue)) or ())
    strays = dict(known(missing, lambda: tuples(conn, "stray_captures", queue=queue)) or ())
    for kind, name, why, _ in (
        known(missing, lambda: tuples(conn, "table_losses", queue=queue)) or ()
    ):
        lacks = _LOSSES[kind].format(why)
        if kind == "capture" and name in swapped:
            lacks = f"was renamed: its changes are captured as those of table {swapped[name]}"
        elif kind in {"capture", "branch-capture"} and name in strays:
            lacks = f"gets changes of {strays[name]}, which is not replicated"
        errors.append((kind, f"table {name} {lacks}: {CHECK}"))
    if info.type is not NodeType.LEAF:
        silent = known(missing, lambda: replicated_rows.silent(conn, queue))
        for kind, name, brought in silent or ():
            errors.append((kind, f"table {name} {SILENT[kind].format(brought)}: {CHECK}"))
    for rewritten in known(missing, lambda: tables.rewritten_tables(conn, queue)) or ():
        errors.append(("rewritten", f"table {rewritten} {REWRITTEN}: {CHECK}"))
    for kind, name, _ in known(missing, lambda: tuples(conn, "sequence_doubts", queue=queue)) or ():
        errors.append((kind, f"sequence {name} {SEQUENCE_DOUBTS[kind]}: {CHECK}"))
    for followed, why in known(missing, lambda: tables.get_follow_errors(conn, queue)) or ():
        errors.append(("follow", f"{followed} cannot be added: {why}"))
    if not listed and known(missing, lambda: is_lost(conn, queue, info)):
        errors.append((NO_TABLES, f"it has lost its list of tables and applies nothing: {CHECK}"))
    for table in listed:
        if COPY_BELOW in table.attrs:
            errors.append(("subscribers", f"table {table.name} {STALE_BELOW}: {CHECK}"))
    return tuple(errors)


def is_lost(conn: Connection, queue: str, info: NodeInfo) -> bool:
    """Whether a node below a root knows no table of the queue, in a database that had tables."""
    return info.type is not NodeType.ROOT and bool(
        tuples(conn, "table_list_is_lost", queue=queue)[0][0]
    )


def beside(errors: Sequence[tuple[str, str]], has_tables: bool) -> list[tuple[str, str]]:
    """Pure: the errors of a node: none for its empty list of tables if there is nothing to list.

    has_tables -- its provider replicates some.
    """
    return [one for one in errors if has_tables or one[0] != NO_TABLES]


def has_queue(conn: Connection, queue: str, info: NodeInfo) -> bool:
    """Whether a node has its queue: a leaf needs none, that of others may be lost."""
    return info.type is not NodeType.LEAF and bool(queues.get_queue_info(conn, queue))


def unregistered(
    conn: Connection, queue: str, info: NodeInfo, *, has_queue: bool
) -> list[tuple[str, str]]:
    """Errors of a node whose queue is lost, or has a subscriber that is no consumer any more."""
    if info.type is NodeType.LEAF:
        return []
    if not has_queue:
        return [(f"queue {queue}", subscriptions.lost_queue(queue, info))]
    before = nodes.get_subscriber_info(conn, queue)
    consumers = {one.consumer_name for one in queues.get_consumer_info(conn, queue)}
    found = list(subscriptions.unregistered(info.name, before, consumers))
    if not found:
        return []
    # One that is added or removed meanwhile is not listed both times.
    listed = {one.worker for one in nodes.get_subscriber_info(conn, queue)}
    return [one for one in found if one[0] in listed]


def copies_paused(conn: Connection, queue: str, missing: list[str]) -> bool | None:
    """Whether an operator paused the copies; None, recorded in ``missing``, where not known."""
    rows = known(missing, lambda: tuples(conn, "copies_paused", queue=queue))
    return None if rows is None else bool(rows[0][0])


def refused(error: LondisteError, queue: str, node: str) -> tuple[Finding, ...]:
    """Pure: the finding about a node that answers with an error; none where it does not answer.

    Nobody has to start or replace it: its SQL, or the access of this program, is to be mended.
    """
    what = f"node {node} was not checked"
    if isinstance(error, NotTrusted):
        return schema_owners.refused(error, queue, node)
    if isinstance(error, (AccessDenied, NotSecured)) and error.sqlstate != _NO_RIGHT:
        # Of its rows nothing is known, and perhaps nobody gets in.
        return (Finding(Severity.CRITICAL, "unreachable", what, error.message, error.hint, queue),)
    if isinstance(error, (AccessDenied, InstallError)) and error.hint:
        return (Finding(Severity.UNKNOWN, "unknown", what, error.message, error.hint, queue),)
    return ()


def halted(
    conn: Connection, queue: str, hidden: list[Finding], missing: list[str]
) -> tuple[Halted, ...]:
    """The events that stop consumers of a node.

    hidden, missing -- take that this user or an older schema does not tell.
    """
    found = permitted(
        hidden,
        "whether an event stops its worker",
        queue,
        lambda: known(missing, lambda: apply_errors.get_apply_errors(conn, queue)),
    )
    return tuple(
        Halted(e.address, e.consumer, e.table or "?", e.op or "", tuple(e.key or ()))
        for e in found or ()
        if e.state == "halted"
    )


def permitted(hidden: list[Finding], what: str, queue: str, ask: Callable[[], _T]) -> _T | None:
    """The result of a query; None, with a finding in ``hidden``, where this user has no right.

    what -- is unknown then, as a phrase.
    """
    try:
        return ask()
    except AccessDenied as error:
        if error.sqlstate != _NO_RIGHT:
            raise
        words = f"unknown: {what}"
        hidden.append(Finding(Severity.UNKNOWN, "unknown", words, error.message, error.hint, queue))
        return None


def known(missing: list[str], ask: Callable[[], _T]) -> _T | None:
    """The result of a query; None, recorded in ``missing``, where the node's schemas lack it.

    A node with the schemas of Londiste 3 or of an older version is shown as running.
    """
    try:
        return ask()
    except InstallError as error:
        missing.append(error.message)
        return None
