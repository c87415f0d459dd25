"""Conflict policy: the decision about an event that conflicts with the rows of this node.

                  insert, its row    update or delete,   many rows have the key, another constraint
    policy        is there           no row              refuses it, a value does not fit
    halt          halt               halt                halt
    keep, log     skip               skip                skip
    overwrite     write it           insert it; done     halt

A missing table, column or privilege, or a malformed event, is not a conflict of rows and halts
with every policy.
"""

from __future__ import annotations

from enum import StrEnum

from londiste.changes.types import Op, RowChange

#: Kinds of errors that a policy may decide about.
DECIDABLE = frozenset({"missing", "exists", "many", "constraint", "value"})


class Action(StrEnum):
    """The action for an event that conflicts.

    HALT -- replication stops at the event.
    LEAVE_OUT -- the event is skipped, the target row is not changed.
    WRITE -- the table gets the row of the event, whatever it has now.
    """

    HALT = "halt"
    LEAVE_OUT = "leave out"
    WRITE = "write"


def decide(policy: str, kind: str, change: RowChange) -> Action:
    """The action of a policy for an event; kind is that of its ``ApplyError``."""
    if policy == "halt" or kind not in DECIDABLE:
        return Action.HALT
    if policy in {"keep", "log"}:
        return Action.LEAVE_OUT
    if change.state or kind not in {"missing", "exists"}:
        return Action.HALT
    if kind == "missing" and change.op is Op.DELETE:
        # The row is deleted already.
        return Action.LEAVE_OUT
    # A row of which the event has only some columns cannot be inserted.
    return Action.HALT if change.partial else Action.WRITE


def describe(policy: str, kind: str, op: str, count: int) -> str:
    """Line of the log about a decision."""
    what = {
        "missing": f"{op} of a row that does not exist",
        "exists": "insert of a row that already exists",
        "many": f"{op} where several rows match the key",
        "constraint": f"{op} that violates a constraint",
        "value": f"{op} with an invalid value",
    }[kind]
    done = "skipped"
    if policy == "overwrite":
        done = "already done" if op == "delete" else "applied"
    return f"{count} times {what}: {done} (policy {policy})"


def kind_of(sqlstate: str) -> str:
    """The kind of error of a SQLSTATE."""
    if sqlstate.startswith("23"):
        return "constraint"
    if sqlstate.startswith("22"):
        return "value"
    if sqlstate.startswith("42") and sqlstate != "42501":
        return "structure"
    return "refused"
