"""Rejoin: the earlier version of a row before diverged events, and the plan for each table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from londiste.changes.decode import decode
from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.db.relation import Relation, RelationColumn
from londiste.errors import StateError
from londiste.pgq.types import Event
from londiste.replication.failover.rejoin.divergence import Firsts, Lost, TableLoss
from londiste.replication.failover.rejoin.plan import RejoinOption, decide

NAME = TableName("public", "t")
SHAPE = Relation(
    NAME, 1, False, (RelationColumn("id", "integer"), RelationColumn("v", "text")), ("id",)
)


def before(
    *events: tuple[str, str, str | None], txids: tuple[int, ...] = (7,) * 9
) -> list[tuple[Op, dict[str, str | None]] | str]:
    """What is told of the rows of some events: (type, data, old row)."""
    firsts, found = Firsts(), []
    for number, (kind, data, old) in enumerate(events, 1):
        txid = txids[number - 1]
        event = Event(
            *(number, datetime.now(UTC), txid, None), *(kind, data, "public.t", old, None, None)
        )
        change = decode(event)
        assert isinstance(change, RowChange)
        answer = firsts.before(event, change, SHAPE)
        if answer is not None:
            found.append(answer if isinstance(answer, str) else (answer.op, answer.image))
    return found


def test_the_first_event_of_a_row_tells_what_it_was() -> None:
    told = before(
        ("I:id", "id=1&v=new", None),
        ("U:id", "id=1&v=newer", None),
        ("D:id", "id=2&v=old", None),
        ("I:id", "id=2&v=again", None),
        ("U:id", "id=3&v=new", "id=3&v=old"),
    )
    assert told == [
        (Op.DELETE, {"id": "1"}),
        (Op.INSERT, {"id": "2", "v": "old"}),
        (Op.INSERT, {"id": "3", "v": "old"}),
    ]


@pytest.mark.parametrize(
    ("kind", "data", "old", "why"),
    [
        ("U:id", "id=1&v=a", None, "option backup"),
        ("U:id", "id=1&v=a", "id=2&v=a", "has no valid data"),
        ("U:id", "id=1&v=a", "%%", "has no valid data"),
        ("D:id", "id=1", None, "lacks column v"),
        ("D:id", "id=1&v=a&x=1", None, "column x, which the table does not have"),
        (
            '{"op":"DELETE","table":["public","t"],"pkey":["id"],"row":"00000000","state":true}',
            '{"id":1}',
            None,
            "its key was changed",
        ),
        (
            '{"op":"DELETE","table":["public","t"],"pkey":[],"row":"00000000"}',
            '{"id":1,"v":"a"}',
            None,
            "it has no key",
        ),
    ],
)
def test_a_row_that_is_not_told_is_not_guessed(
    kind: str, data: str, old: str | None, why: str
) -> None:
    (told,) = before((kind, data, old))
    assert isinstance(told, str) and why in told


def kind(op: str, *, state: bool = False) -> str:
    more = ',"state":true' if state else ""
    return f'{{"op":"{op}","table":["public","t"],"pkey":["id"],"row":"00000000"{more}}}'


@pytest.mark.parametrize("then", ["INSERT", "DELETE"])
def test_a_state_takes_back_the_insert_before_it(then: str) -> None:
    events = (
        (kind("INSERT"), '{"id":1,"v":"a"}', None),
        (kind(then, state=True), '{"id":1,"v":"a"}' if then == "INSERT" else '{"id":1}', None),
        (kind("DELETE"), '{"id":1,"v":"a"}', None),
    )
    told, why = before(*events)
    assert told == (Op.DELETE, {"id": "1"})
    assert isinstance(why, str) and "event 2 shows" in why
    # a later transaction has nothing to take back
    assert before(*events, txids=(7, 8, 8)) == [(Op.DELETE, {"id": "1"})]


def test_every_table_needs_a_choice() -> None:
    can = TableLoss(NAME, NAME, inserts=1)
    cannot = TableLoss(TableName("public", "c"), NAME, updates=2, obstacle="why")
    gone = TableLoss(TableName("public", "g"), None, inserts=1, obstacle="why")
    queue = TableLoss(TableName("public", "q"), NAME, inserts=1, obstacle="why", stored=False)
    found = Lost(4, {t.name: t for t in (can, cannot, gone, queue)})
    with pytest.raises(StateError, match="rows of 2 tables"):
        decide("n", found, RejoinOption())
    with pytest.raises(StateError, match=r"cannot be undone: public\.c"):
        decide("n", found, RejoinOption(undo=True))
    both = decide("n", found, RejoinOption(undo=True, resync=True))
    assert (both.undo, both.resync) == ((can,), (cannot,))
    assert decide("n", found, RejoinOption(resync=True)).resync == (can, cannot)
    cannot.copied_beside = True
    with pytest.raises(StateError, match="--skip-truncate"):
        decide("n", found, RejoinOption(undo=True, resync=True))
    assert decide("n", Lost(), RejoinOption()).undo == ()
    with pytest.raises(StateError, match=r"scripts ran on n only: a\.sql"):
        decide("n", Lost(1, scripts=["a.sql"]), RejoinOption(resync=True))
