"""State machine of one key's net change.

    state       row before   row now            what is left to do
    UNSEEN      ?            ?                  nothing
    GONE        no           no                 nothing
    INSERTED    no           yes                insert
    UPDATED     yes          yes                update
    DELETED     yes          no                 delete
    REPLACED    yes          yes, another one   delete, insert
    SET         unknown      yes                set: update, or insert if it is not there
    UNSET       unknown      no                 unset: delete, if it is there
    RESET       unknown      yes, another one   unset, insert

An event about a state takes back what an insert has told of before: parts of one query are told in
the order in which they end, so an insert may come before the delete of the row that it replaces,
and only the state that the delete then tells shows that there was one.

A replaced row starts anew: columns that only this node has do not keep their values, as they would
not event by event.  After the table was emptied every key begins at GONE.
"""

from __future__ import annotations

from londiste.changes.types import Op

UNSEEN, GONE, INSERTED, UPDATED, DELETED, REPLACED, SET, UNSET, RESET = range(9)

#: Events that cannot follow each other: insert of a row that is there, change of one that is not.
WRONG = -1

_NEXT: dict[tuple[Op, bool], dict[int, int]] = {
    (Op.INSERT, False): {
        UNSEEN: INSERTED,
        GONE: INSERTED,
        DELETED: REPLACED,
        UNSET: RESET,
    },
    (Op.UPDATE, False): {
        UNSEEN: UPDATED,
        INSERTED: INSERTED,
        UPDATED: UPDATED,
        REPLACED: REPLACED,
        SET: SET,
        RESET: RESET,
    },
    (Op.DELETE, False): {
        UNSEEN: DELETED,
        INSERTED: GONE,
        UPDATED: DELETED,
        REPLACED: DELETED,
        SET: UNSET,
        RESET: UNSET,
    },
    (Op.INSERT, True): {
        UNSEEN: SET,
        GONE: INSERTED,
        INSERTED: SET,
        UPDATED: UPDATED,
        DELETED: REPLACED,
        REPLACED: REPLACED,
        SET: SET,
        UNSET: RESET,
        RESET: RESET,
    },
    (Op.DELETE, True): {
        UNSEEN: UNSET,
        GONE: GONE,
        INSERTED: UNSET,
        UPDATED: DELETED,
        DELETED: DELETED,
        REPLACED: DELETED,
        SET: UNSET,
        UNSET: UNSET,
        RESET: UNSET,
    },
}


def steps(op: Op, state: bool) -> tuple[int, ...]:
    """The state after such an event, by the state before it."""
    known = _NEXT.get((op, state), {})
    return tuple(known.get(now, WRONG) for now in range(RESET + 1))


def contradiction(op: Op, truncated: bool) -> str:
    """The reason for WRONG after an event of this kind."""
    if op is Op.INSERT:
        return "a row is inserted twice"
    if truncated:
        return "a row is changed after the table was emptied, or it was deleted"
    return "a row is changed after it was deleted"
