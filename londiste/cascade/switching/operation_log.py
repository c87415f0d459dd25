"""Operation log: the record of a topology change while it is under way.

The record is on every node that takes part, with one token.  The same command finds it and
continues; other commands are refused.  A step that must not happen after an undo (a late promotion)
requires the token, which the undo has removed.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import argument
from londiste.db.queries import has_function
from londiste.errors import NodeBusy, StateError


class OperationKind(StrEnum):
    """Kind of a topology change."""

    CHANGE_PROVIDER = "change-provider"
    SWITCHOVER = "switchover"
    TAKEOVER = "takeover"
    RESURRECT = "resurrect"
    MOVE_CONSUMER = "move-consumer"
    DROP_NODE = "drop-node"


@dataclass(frozen=True)
class Operation:
    """A change that is under way.

    node -- the node that is replaced, switched to another provider, or dropped.
    new -- its successor, or the new provider.
    from_node -- the provider of the switched node at the start.
    resume -- its worker was running, and is resumed at the end.
    last_tick -- of a root that was closed.
    """

    token: UUID
    kind: OperationKind
    node: str
    new: str
    from_node: str | None
    resume: bool
    last_tick: int | None
    operator: str
    started_at: datetime

    def describe(self) -> str:
        """Kind, operator and start time, for output."""
        words = f"{self.kind.value} from {self.node} to {self.new}"
        if self.kind is OperationKind.CHANGE_PROVIDER:
            words = f"change of the provider of {self.node} to {self.new}"
        elif self.kind is OperationKind.MOVE_CONSUMER:
            words = f"change of the provider of consumer {self.node} to {self.new}"
        elif self.kind is OperationKind.RESURRECT:
            words = f"the rejoin of {self.node} below {self.new}"
        elif self.kind is OperationKind.DROP_NODE:
            words = f"the drop of node {self.node}"
        return f"{words}, started by {self.operator} at {self.started_at:%Y-%m-%d %H:%M:%S%z}"

    def command(self, at: str = "") -> str:
        """The command that finishes it; ``at``: the node that has the record, if it is known."""
        node, new = argument(self.node), argument(self.new)
        match self.kind:
            case OperationKind.CHANGE_PROVIDER:
                return f"londiste change-provider --node {node} --provider {new}"
            case OperationKind.SWITCHOVER:
                return f"londiste switchover --to {new}"
            case OperationKind.TAKEOVER:
                return f"londiste takeover {node} --node {new} --failover"
            case OperationKind.MOVE_CONSUMER:
                command = f"londiste change-provider --consumer {node} --provider {new}"
                return command + (f" --node {argument(at)}" if at else "")
            case OperationKind.RESURRECT:
                return f"londiste resurrect --node {node}"
            case OperationKind.DROP_NODE:
                return f"londiste drop-node {node}"

    def way_out(self, at: str = "") -> str:
        """For a hint: the commands that finish it and, where possible, undo it."""
        command = self.command(at)
        if self.kind in (
            OperationKind.SWITCHOVER,
            OperationKind.CHANGE_PROVIDER,
            OperationKind.TAKEOVER,
        ):
            return f"finish it: {command}; or undo it: {command} --rollback"
        return f"finish it: {command}"

    def busy(self, at: str, detail: str = "") -> NodeBusy:
        """The error of another change of node ``at``."""
        message = f"node {at}: {self.describe()} is under way"
        return NodeBusy(message, detail=detail, hint=self.way_out(at))


def overtaken(noted: Operation, roots: Iterable[str]) -> str | None:
    """The node that has become the root since a switchover was interrupted; None: there is none.

    Both of its nodes were unreachable then.

    roots -- the nodes that are roots now and are not marked as failed.
    """
    if noted.kind is not OperationKind.SWITCHOVER:
        return None
    return next((name for name in roots if name not in (noted.node, noted.new)), None)


def operator() -> str:
    """The operator of this process: ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def refuse_resume(conn: Connection, queue: str, node: str) -> None:
    """Raises StateError while a change keeps the worker of ``node`` paused, or is about to.

    conn -- on its database.  Events that it read during the change might diverge from the others.
    """
    noted = find(conn, queue)
    if noted is None:
        return
    moves = noted.kind is OperationKind.CHANGE_PROVIDER and noted.node == node
    if moves or (
        noted.kind in (OperationKind.SWITCHOVER, OperationKind.TAKEOVER) and noted.new == node
    ):
        raise StateError(
            f"node {node}: {noted.describe()} is under way",
            detail="its worker is paused until the change is finished or undone",
            hint=noted.way_out(node),
        )


def can_note(conn: Connection) -> bool:
    """Whether changes can be recorded in the database; the SQL of Londiste 3 cannot."""
    return has_function(conn, "pgq_node.get_operation(text)")


def require_notes(conn: Connection, node: str) -> None:
    """Raises StateError for a node with the SQL of Londiste 3, which cannot take part."""
    if not can_note(conn):
        raise StateError(
            f"node {node} has the SQL of Londiste 3, which cannot take part in this change",
            detail="nothing was changed",
            hint="first, with the settings of that node: londiste install --adopt",
        )


def _operation(token: UUID, kind: str, *more: Any) -> Operation:
    return Operation(token, OperationKind(kind), *more)


def find(conn: Connection, queue: str) -> Operation | None:
    """The change that is under way at this node, or None."""
    if not can_note(conn):
        return None
    for operation in call.records(conn, _operation, "pgq_node.get_operation", queue):
        return operation
    return None


def begin(
    conn: Connection,
    queue: str,
    kind: OperationKind,
    node: str,
    new: str,
    *,
    token: UUID | None = None,
    from_node: str | None = None,
    resume: bool = False,
) -> tuple[UUID, bool]:
    """Records a change, or finds its record; returns the token, and whether it is a new one.

    Raises NodeBusy when another is under way.
    """
    try:
        answer = call.ret(
            conn,
            "pgq_node.begin_operation",
            queue,
            token,
            kind.value,
            node,
            new,
            operator(),
            from_node,
            resume,
        )
    except StateError as error:
        other = find(conn, queue)
        raise NodeBusy(
            error.message,
            detail=error.detail,
            hint="repeat the command" if other is None else other.way_out(),
        ) from error
    found = answer.row["token"]
    assert isinstance(found, UUID)
    return found, answer.code == 200


def end(conn: Connection, queue: str, token: UUID) -> None:
    """Removes the record of a change, if there is one."""
    call.row(conn, "pgq_node.end_operation", queue, token)


def close_root(conn: Connection, queue: str, token: UUID, lock_seconds: float) -> int:
    """Ends writing on the root; returns its last tick.  Raises LockTimeout, StateError.

    conn -- in autocommit.  So the server commits: a commit message that is lost on its way would
        leave a lock that blocks all writers.
    lock_seconds -- for each lock.
    """
    _, answers = call.together(
        conn,
        ["pg_catalog.set_config", "lock_timeout", f"{lock_seconds * 1000:.0f}ms", True],
        ["pgq_node.close_root", queue, token],
    )
    return int(call.answered("pgq_node.close_root", answers[0]).row["last_tick"])


def reopen_root(conn: Connection, queue: str, token: UUID) -> None:
    """Undoes ``close_root`` and removes the record.  Raises StateError."""
    call.ret(conn, "pgq_node.reopen_root", queue, token)


def promote(conn: Connection, queue: str, token: UUID, tick: int) -> None:
    """Makes the branch, which is at ``tick``, the root.  Raises StateError."""
    call.ret(conn, "pgq_node.promote_node", queue, token, tick)


def become_branch(conn: Connection, queue: str, token: UUID, provider: str) -> None:
    """Makes the closed root a branch below ``provider``.  Raises StateError."""
    call.ret(conn, "pgq_node.become_branch", queue, token, provider)


def return_as_branch(
    conn: Connection, queue: str, token: UUID, provider: str, tick: int, subscribers: list[str]
) -> None:
    """Makes the closed root a branch that has no events after ``tick``.  Raises StateError."""
    call.ret(conn, "pgq_node.return_as_branch", queue, token, provider, tick, subscribers)


def cancel(conn: Connection, queue: str, token: UUID) -> None:
    """Removes the record at the new root, to prevent its promotion.  StateError: it is promoted."""
    call.ret(conn, "pgq_node.cancel_operation", queue, token)


def fence_root(conn: Connection, queue: str) -> bool:
    """Makes a replaced root refuse events; False when it does already."""
    return call.ret(conn, "pgq_node.fence_root", queue).code == 200
