"""What becomes of an event that does not fit the rows of this node: the decision, as a function.

                  insert, its row    update or delete,   many rows have the key, another constraint
    policy        is there           no row              refuses it, a value does not fit
    halt          halt               halt                halt
    keep, log     leave it out       leave it out        leave it out
    overwrite     write it           insert it; done     halt

A table or column that is missing, a right that is, an event that is no good: these say nothing
about rows, and halt whatever the policy is.
"""

from __future__ import annotations

from enum import StrEnum

from londiste.changes.types import Op, RowChange

#: Kinds of findings that a policy may decide about.
DECIDABLE = frozenset({"missing", "exists", "many", "constraint", "value"})


class Action(StrEnum):
    """What is done with an event that does not fit.

    HALT -- replication stays in front of it.
    LEAVE_OUT -- the row that is here, or none, stays as it is.
    WRITE -- the event counts for what the table has after it, whatever it has now.
    """

    HALT = "halt"
    LEAVE_OUT = "leave out"
    WRITE = "write"


def decide(policy: str, kind: str, change: RowChange) -> Action:
    """What a policy makes of an event; kind is that of its ``Finding``."""
    if policy == "halt" or kind not in DECIDABLE:
        return Action.HALT
    if policy in {"keep", "log"}:
        return Action.LEAVE_OUT
    if change.state or kind not in {"missing", "exists"}:
        return Action.HALT
    if kind == "missing" and change.op is Op.DELETE:
        # That the row is gone is what it wants.
        return Action.LEAVE_OUT
    # A row of which only some columns are told cannot be made.
    return Action.HALT if change.partial else Action.WRITE


def describe(policy: str, kind: str, op: str, count: int) -> str:
    """What was done, for the log."""
    what = {
        "missing": f"{op} of a row that is not here",
        "exists": "insert of a row that is here",
        "many": f"{op} where several rows have the key",
        "constraint": f"{op} against a constraint",
        "value": f"{op} with a value that does not fit",
    }[kind]
    done = "left out"
    if policy == "overwrite":
        done = "taken for done" if op == "delete" else "written all the same"
    return f"{count} times {what}: {done} (policy {policy})"


def kind_of(sqlstate: str) -> str:
    """The kind of finding that a refusal of the server is."""
    if sqlstate.startswith("23"):
        return "constraint"
    if sqlstate.startswith("22"):
        return "value"
    if sqlstate.startswith("42") and sqlstate != "42501":
        return "structure"
    return "refused"


__all__ = ["DECIDABLE", "Action", "decide", "describe", "kind_of"]
