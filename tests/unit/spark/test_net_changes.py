"""Preimages and net changes of events that a capture would have written, in any order."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.engine.spark.stream.change_rows import JsonRows
from londiste.engine.spark.stream.net_changes import net
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import parse
from londiste.engine.spark.stream.rows import Rows
from londiste.errors import EventError
from londiste.pgq.types import Event, Tick

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
Table = dict[int, str]


class Capture:
    """Writes events as the native capture in its row form with ``backup``."""

    def __init__(self, seed: int, *, keys: bool = True) -> None:
        self.chance, self.keys = random.Random(seed), keys
        self.events: list[Event] = []
        self.table: Table = {}
        self.at = [dict(self.table)]
        for tick in range(1, 9):
            for _ in range(self.chance.randint(1, 12)):
                self._change(tick)
            self.at.append(dict(self.table))

    def _change(self, tick: int) -> None:
        key, other, value = *self.chance.sample(range(6), 2), self.chance.choice("ab")
        old = self.table.get(key)
        if old is None:
            self.table[key] = value
            self._event(tick, "INSERT", key, value)
        elif self.keys and self.chance.random() < 0.3 and other not in self.table:
            self.table[other] = self.table.pop(key)
            self._event(tick, "DELETE", key, None, state=True)
            self._event(tick, "INSERT", other, old, state=True)
        elif self.chance.random() < 0.4:
            del self.table[key]
            self._event(tick, "DELETE", key, old)
        elif self.keys and self.chance.random() < 0.3:
            # As all changes after one of a key, in its transaction.
            self.table[key] = value
            self._event(tick, "INSERT", key, value, state=True)
        else:
            self.table[key] = value
            self._event(tick, "UPDATE", key, value, old)

    def _event(
        self,
        tick: int,
        op: str,
        key: int,
        value: str | None,
        old: str | None = None,
        *,
        state: bool = False,
    ) -> None:
        kind = {"op": op, "table": ["public", "t"], "pkey": ["id"], "row": "00000000"}
        kind |= {"state": True} if state else {}
        row = {"id": key} | ({} if value is None else {"v": value})
        before = None if old is None else json.dumps({"id": key, "v": old})
        self.events.append(
            Event(
                *(len(self.events) + 1, WHEN, 10 * tick + 5, None),
                *(json.dumps(kind), json.dumps(row), "public.t", before, None, None),
            )
        )

    def read(self, monkeypatch: pytest.MonkeyPatch, **options: str) -> list[dict[str, Any]]:
        """The rows, in their order; the events come in another one."""
        given = parse({"service": "x", "queue": "q", "payload": "json", **options})
        ticks = tuple(Tick(n, WHEN, 0, f"{10 * n + 10}:{10 * n + 10}:") for n in range(9))

        def shuffled(rows: Rows, conn: Any) -> Iterator[tuple[int, Sequence[Any]]]:
            for event in self.chance.sample(self.events, len(self.events)):
                yield from rows.rows(event)

        monkeypatch.setattr(Rows, "_read", shuffled)
        names = ("kind", "version", "time", "event", "row", "txid", "table", "key", "text")
        reader = JsonRows(given, TickRange(ticks))
        found = [dict(zip(names, row, strict=True)) for _, row in reader._read(None)]  # type: ignore[arg-type]
        order = {"update_preimage": 0, "delete": 0}
        return sorted(found, key=lambda row: (row["event"], order.get(row["kind"], 1)))


@pytest.mark.parametrize("net", ["none", "netChanges"])
@pytest.mark.parametrize("seed", range(20))
def test_a_filter_is_right_with_preimages(
    monkeypatch: pytest.MonkeyPatch, seed: int, net: str
) -> None:
    capture = Capture(seed)
    kept: Table = {}
    for row in capture.read(monkeypatch, computeUpdates="true", deduplicationMode=net):
        image = json.loads(row["text"])
        if row["kind"] == "delete" or (row["kind"] == "update_preimage" and image["v"] == "a"):
            kept.pop(image["id"], None)
        elif row["kind"] != "update_preimage" and image["v"] == "a":
            kept[image["id"]] = "a"
    assert kept == {key: value for key, value in capture.table.items() if value == "a"}


@pytest.mark.parametrize("computed", ["false", "true"])
@pytest.mark.parametrize("seed", range(20))
def test_net_changes_are_the_difference_between_two_ticks(
    monkeypatch: pytest.MonkeyPatch, seed: int, computed: str
) -> None:
    capture = Capture(seed, keys=False)
    found = capture.read(monkeypatch, computeUpdates=computed, deduplicationMode="netChanges")
    told = {
        (row["version"], image["id"], row["kind"]): image.get("v")
        for row in found
        for image in [json.loads(row["text"])]
    }
    assert len(told) == len(found)
    wanted = {}
    for tick, (old, new) in enumerate(zip(capture.at, capture.at[1:], strict=False), 1):
        touched = {
            json.loads(event.data or "")["id"]
            for event in capture.events
            if event.txid == 10 * tick + 5
        }
        for key in touched:
            if key in old and key in new:
                if computed == "true":
                    if old[key] == new[key]:
                        continue
                    wanted[tick, key, "update_preimage"] = old[key]
                wanted[tick, key, "update_postimage"] = new[key]
            elif key in new:
                wanted[tick, key, "insert"] = new[key]
            elif key in old:
                wanted[tick, key, "delete"] = told.get((tick, key, "delete"))
    assert told == wanted


def test_of_a_state_it_is_not_known_what_was_before() -> None:
    table = TableName("public", "t")

    def change(op: Op, *, state: bool = False) -> RowChange:
        return RowChange(1, 1, table, op, ("id",), {"id": "1"}, False, state)

    ended = net(change(Op.INSERT, state=True), change(Op.DELETE))
    assert ended is not None and ended.op is Op.DELETE
    begun = net(change(Op.DELETE, state=True), change(Op.UPDATE))
    assert begun is not None and (begun.op, begun.state) == (Op.INSERT, True)
    assert net(change(Op.INSERT), change(Op.DELETE)) is None


@pytest.mark.parametrize(
    ("then", "last", "kinds"),
    [
        ("INSERT", "DELETE", ["delete"]),
        ("INSERT", None, ["delete", "insert"]),
        ("DELETE", None, ["delete"]),
    ],
)
def test_a_state_takes_back_the_insert_before_it(
    monkeypatch: pytest.MonkeyPatch, then: str, last: str | None, kinds: list[str]
) -> None:
    capture = Capture(1)
    capture.events, capture.at = [], []
    capture._event(1, "INSERT", 1, "new")
    capture._event(1, then, 1, "new" if then == "INSERT" else None, state=True)
    if last is not None:
        capture._event(1, last, 1, "new")
    found = capture.read(monkeypatch, computeUpdates="true", deduplicationMode="netChanges")
    assert [row["kind"] for row in found] == kinds


def test_an_update_without_its_old_row_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = Capture(1)
    capture.events = [event._replace(extra2=None) for event in capture.events]
    with pytest.raises(EventError, match=r"table public\.t: no old row") as caught:
        capture.read(monkeypatch, computeUpdates="true")
    assert "{backup}" in (caught.value.hint or "")
    assert capture.read(monkeypatch, computeUpdates="false")
