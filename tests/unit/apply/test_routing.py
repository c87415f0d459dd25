"""Routing: events that concern a process, their target tables, and the memory of a batch."""

from __future__ import annotations

import pytest

from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.errors import EventError
from londiste.replication.apply.routing import Pending, RoutingTable, plan
from londiste.replication.model import ReplicatedTable

A = TableName("public", "a")
B = TableName("x", "b.c")


def table(
    name: TableName, state: str | None, *, local: bool = True, snapshot: str | None = None
) -> ReplicatedTable:
    return ReplicatedTable(name, TableName("here", name.name), local, state, snapshot)


def test_the_worker_takes_what_is_ok_and_kept_here() -> None:
    tables = [
        table(A, "ok"),
        table(B, "catching-up"),
        table(TableName("x", "d"), "ok", local=False),
    ]
    interest = RoutingTable.main(tables)
    route = interest.route("public.a", 5)
    assert route is not None and route.dest == TableName("here", "a")
    assert interest.route("x.b.c", 5) is None
    assert interest.route("x.d", 5) is None
    assert interest.route("x.unknown", 5) is None


@pytest.mark.parametrize("state", [None, "in-copy", "wanna-sync:3", "ok"])
def test_the_copy_process_takes_nothing_unless_it_catches_up(state: str | None) -> None:
    assert RoutingTable.copies([table(A, state)]).route("public.a", 5) is None


@pytest.mark.parametrize("state", ["catching-up", "do-sync:3"])
def test_the_copy_process_takes_its_table(state: str) -> None:
    interest = RoutingTable.copies([table(B, state)])
    assert interest.route("x.b.c", 5) is not None
    assert interest.route("public.a", 5) is None


def test_a_name_without_schema_is_in_public_and_a_broken_one_nowhere() -> None:
    interest = RoutingTable.main([table(A, "ok")])
    assert interest.route("a", 5) is not None
    assert interest.route("", 5) is None
    assert interest.route(".a", 5) is None
    assert interest.route(None, 5) is None


def test_what_came_with_the_copy_is_not_taken_again() -> None:
    interest = RoutingTable.main([table(A, "ok", snapshot="10:20:12")])
    assert [txid for txid in (9, 11, 12, 19, 20) if interest.route("public.a", txid)] == [12, 20]


def test_pending_changes_know_their_size_and_forget_it() -> None:
    pending = Pending()
    pending.add(A, RowChange(1, 1, A, Op.INSERT, ("id",), {"id": "1"}))
    assert pending.count == 1 and pending.bytes > 400
    pending.clear()
    assert (pending.count, pending.bytes, pending.changes) == (0, 0, {})


def test_a_table_that_is_not_there_is_an_error_that_names_the_event() -> None:
    change = RowChange(17, 1, A, Op.INSERT, ("id",), {"id": "1"})
    with pytest.raises(EventError, match=r"event 17: .* table here\.a does not exist") as caught:
        plan({TableName("here", "a"): [change]}, {}, node="leaf")
    assert caught.value.event_id == 17
