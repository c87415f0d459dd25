"""Preimages and net changes, read as executors do: what they say is what the table was."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.errors import EventError
from tests.engine.test_stream_driver import rows, source
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream

Table = dict[int, tuple[str | None, ...]]

CAPTURES = {
    "row": "select londiste.create_capture('q', 't', '{backup}')",
    "statement": "select londiste.create_capture('q', 't', '{form=statement}')",
    "json": "create trigger l after insert or update or delete on t for each row execute function"
    " pgq.jsontriga('q', 'backup')",
    "url": "create trigger l after insert or update or delete on t for each row execute function"
    " pgq.logutriga('q', 'backup')",
}


class History:
    """A table ``t`` whose rows move in and out of a region; its rows at each tick."""

    def __init__(self, stream: Stream, capture: str, *, seed: int, keys: bool) -> None:
        self.stream = stream
        chance = random.Random(seed)
        stream.database.execute("create table t (id int primary key, region text, v text)")
        stream.database.execute(CAPTURES[capture])
        self.first = stream.tick()
        self.at: dict[int, Table] = {self.first: {}}
        for _ in range(6):
            done = [self._statement(chance, keys) for _ in range(chance.randint(3, 12))]
            tick = stream.write(*done)
            self.at[tick] = self.now()

    def _statement(self, chance: random.Random, keys: bool) -> str:
        key, other = chance.randint(1, 12), chance.randint(1, 12)
        region = chance.choice(["'north'", "'south'", "null"])
        kinds = ["upsert", "upsert", "move", "move", "delete", "same", "all"]
        match chance.choice([*kinds, *(["key", "key"] if keys else [])]):
            case "upsert":
                return (
                    f"insert into t values ({key}, {region}, '{chance.random()}')"
                    " on conflict (id) do update set region = excluded.region, v = excluded.v"
                )
            case "move":
                return f"update t set region = {region} where id in ({key}, {other})"
            case "delete":
                return f"delete from t where id in ({key}, {other})"
            case "same":
                return f"update t set v = v where id = {key}"
            case "all":
                return f"update t set region = {region} where id > {key}"
            case _:
                return (
                    f"update t set id = {key} where id = {other}"
                    f" and not exists (select from t where id = {key})"
                )

    def now(self) -> Table:
        found = self.stream.database.execute("select id, region, v from t")
        return {row[0]: row for row in found}

    def read(self, **options: Any) -> list[dict[str, Any]]:
        """The changes, in their order; of an update the old row comes first."""
        given = source(self.stream, consumer=None, **{"startingTick": self.first, **options})
        reader = given.reader(given.schema())
        order = {"update_preimage": 0, "delete": 0}
        return sorted(
            rows(reader, reader.partitions()),
            key=lambda r: (
                *(r["_commit_version"], r["_event_id"], r["_row"]),
                order.get(r["_change_type"], 1),
            ),
        )


@pytest.fixture
def stream(new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    return Stream(None, new_database(pgq=True), tmp_path)


TYPED = {"payload": None, "tables": "t", "startingOffsets": None}


def image(row: dict[str, Any]) -> tuple[Any, ...]:
    if "row" in row:
        found = json.loads(row["row"])
        return int(found["id"]), found.get("region"), found.get("v")
    return row["id"], row["region"], row["v"]


@pytest.mark.parametrize("payload", ["typed", "json"])
@pytest.mark.parametrize("capture", ["row", "url"])
def test_a_filter_on_a_column_is_right_with_preimages(
    stream: Stream, capture: str, payload: str
) -> None:
    history = History(stream, capture, seed=7, keys=capture == "row")
    given = {**TYPED, "payload": payload}
    found = history.read(**given, computeUpdates=True)
    assert {"update_preimage", "update_postimage", "delete", "insert"} <= {
        row["_change_type"] for row in found
    }
    state: Table = {}
    north: Table = {}
    for row in found:
        kind, values = row["_change_type"], image(row)
        if kind == "update_preimage":
            # It is the row as it was, in all columns.
            assert state[values[0]] == values
        for target, kept in ((state, True), (north, values[1] == "north" or kind == "delete")):
            if kept and kind in ("delete", "update_preimage"):
                target.pop(values[0], None)
            elif kept:
                target[values[0]] = values
    now = history.now()
    assert state == now
    assert north == {key: row for key, row in now.items() if row[1] == "north"}


def test_without_the_old_row_an_update_is_an_error_with_the_capture_to_make(
    stream: Stream,
) -> None:
    history = History(stream, "statement", seed=7, keys=False)
    with pytest.raises(EventError, match=r"table public\.t: no old row") as caught:
        history.read(**TYPED, computeUpdates=True)
    assert "{backup}" in (caught.value.hint or "")


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("capture", ["statement", "json", "row"])
def test_a_net_change_is_one_row_of_a_key_and_a_tick(
    stream: Stream, capture: str, computed: bool
) -> None:
    if computed and capture == "statement":
        pytest.skip("it has no old rows")
    history = History(stream, capture, seed=3, keys=capture == "row")
    given = {**TYPED, "computeUpdates": computed, "numPartitions": 3}
    found = history.read(**given, deduplicationMode="netChanges")
    assert len(found) < len(history.read(**given, deduplicationMode="dropCarryovers"))
    ticks = sorted(history.at)
    for before, tick in itertools.pairwise(ticks):
        old, new = history.at[before], history.at[tick]
        told = {
            row["id"]: row
            for row in found
            if row["_commit_version"] == tick and row["_change_type"] != "update_preimage"
        }
        mine = [row for row in found if row["_commit_version"] == tick]
        earlier = {row["id"]: row for row in mine if row["_change_type"] == "update_preimage"}
        state = [row for row in mine if row["_change_type"] == "delete" and row["id"] in new]
        assert len(told) + len(earlier) + len(state) == len(mine)
        for key in old.keys() | new.keys():
            kind = told[key]["_change_type"] if key in told else None
            if key not in new:
                assert kind == "delete"
            elif old.get(key) != new[key]:
                assert image(told[key]) == new[key]
                assert kind == ("update_postimage" if key in old else "insert") or capture == "row"
            elif computed and capture == "json":
                # The row is as it was.
                assert kind is None
            if computed and kind == "update_postimage":
                assert image(earlier[key]) == old[key]
        for key in told.keys() - old.keys() - new.keys():
            # The key was another row's for a moment.
            assert capture == "row" and told[key]["_change_type"] == "delete"
