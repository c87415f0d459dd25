"""kill -9 of whatever takes part in a stream of Spark, between any two of its steps.

However often, each change is in the target once: in one file of a micro-batch.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.pgq import queues, ticks
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream
from tests.support.scenarios.processes import Processes

PHASES = ("open", "read", "written")
VICTIMS = ("driver", "jvm", "worker")
PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "stream_program.py"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_every_change_is_there_once(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    stream = Stream(None, pgq_db, tmp_path)
    stream.table()
    target = tmp_path / "target"
    target.mkdir()
    # Every victim in every phase, in some order.
    moments = [(victim, phase) for victim in VICTIMS for phase in PHASES]
    chance.shuffle(moments)
    killed = 0
    for victim, phase in [*moments[: 4 + seed], ("nobody", "open")]:
        for _ in range(4):
            stream.write(*_statements(chance))
        known = len(list(target.glob("*.json")))
        done = spark_processes.run(
            [sys.executable, str(PROGRAM)],
            {
                "DSN": pgq_db.dsn,
                "TARGET": str(target),
                "CHECKPOINT": str(tmp_path / "checkpoint"),
                "KILL": f"{victim}:{phase}:{known + chance.randint(0, 1)}",
            },
            seconds=600,
        )
        killed += "killing" in done.out
        if victim in ("worker", "nobody"):
            assert done.code == 0 and "done" in done.out, done
        else:
            assert done.code != 0, done
        position = queues.get_consumer_info(stream.conn, "q", "lake")[0].last_tick
        assert position is not None and not _missing(stream, target, position)
    assert killed >= 4
    found = _found(target)
    assert len(found) == len(set(found))
    assert sorted(set(found)) == sorted(_told(stream, None))


def _statements(chance: random.Random) -> list[str]:
    first = chance.randint(1, 300)
    return [
        f"insert into t select i, 'v' from generate_series({first}, {first + 80}) i"
        " on conflict (id) do update set v = t.v || 'x'",
        f"delete from t where id between {first} and {first + chance.randint(0, 40)}",
        f"update t set v = 'é{chance.random()}' where id % 7 = {chance.randint(0, 6)}",
    ]


def _told(stream: Stream, until: int | None) -> list[tuple[int, int, str]]:
    """Every change that the queue has, up to a tick: event, row and what happened."""
    all_ticks = ticks.between(stream.conn, "q", 1, until)
    kinds = {"I": "insert", "U": "update_postimage", "D": "delete"}
    return [
        (change.event_id, change.row, kinds[change.op])
        for events in ticks.tick_events(stream.conn, "q", 1, all_ticks[-1].id)
        for event in events
        for change in decode_all(event)
        if isinstance(change, RowChange)
    ]


def _found(target: Path) -> list[tuple[int, int, str]]:
    return [
        (event, row, kind)
        for path in target.glob("*.json")
        for event, row, kind, _ in json.loads(path.read_text(encoding="utf-8"))
    ]


def _missing(stream: Stream, target: Path, position: int) -> set[tuple[int, int, str]]:
    """Changes that the queue may forget and the target does not have."""
    return set(_told(stream, position)) - set(_found(target))
