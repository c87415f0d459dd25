"""kill -9 of ``londiste dispatch`` into files, between any two of its steps: every event once."""

from __future__ import annotations

import csv
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place
from londiste.lake.store import Store
from londiste.lake.versions import Version
from londiste.pgq import queues, ticks
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream
from tests.support.scenarios.processes import Done, Processes

#: Where the process kills itself, and what it dies of next time.
POINTS = ("lake.published", "lake.written", "lake.published:2")

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]


def settings(file: Path, dsn: str, **more: str) -> list[str]:
    """A file of settings as people write it, and the command."""
    lines = {
        "job_name": "archive",
        "db": dsn,
        "queue_name": "q",
        "target_path": str(file.parent / "archive"),
        "table_filter": "public.t",
        "files_retention": "0",
        "spark.master": "local[2]",
        **more,
    }
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    file.write_text(f"[dispatch]\n{text}")
    file.chmod(0o600)
    return [sys.executable, "-m", "londiste", "-c", str(file), "dispatch"]


@pytest.mark.parametrize(
    ("more", "versions"),
    [
        ({"handler": "hourly_event", "row_mode": "plain", "file_format": "csv"}, True),
        ({"handler": "yearly_batch", "row_mode": "keep_latest"}, False),
    ],
    ids=["changes-in-csv", "rows-in-parquet"],
)
def test_a_dispatcher_that_is_killed_writes_every_change_once(
    more: dict[str, str],
    versions: bool,
    pgq_db: Database,
    spark_processes: Processes,
    tmp_path: Path,
) -> None:
    stream = Stream(None, pgq_db, tmp_path)
    stream.table()
    command = settings(tmp_path / "archive.ini", pgq_db.dsn, **more)

    def run(*words: str, crash: str = "") -> Done:
        env = {"LONDISTE_CRASH": crash} if crash else {}
        return spark_processes.run([*command, *words], env, seconds=900)

    assert run("--register", crash="lake.published").code == -signal.SIGKILL
    first = ticks.newest(stream.conn, "q")
    assert first is not None
    for number, point in enumerate(POINTS):
        begin = number * 100
        stream.write(
            f"insert into t select g, 'a' from generate_series({begin}, {begin + 99}) g",
            f"update t set v = 'b{number}' where id % 3 = 0",
            f"delete from t where id % 7 = {number}",
        )
        done = run("--once", crash=point)
        # The newest point is met in the second run of the two at most.
        assert done.code in (-signal.SIGKILL, 0), done
        if point in ("lake.published", "lake.written"):
            assert done.code == -signal.SIGKILL, done
    done = run("--once")
    assert done.code == 0, done
    kept = store(tmp_path)
    version = kept.newest()
    assert version is not None
    assert_files(stream, kept, version)
    found = [row for file in kept.paths(version.files) for row in records(Path(file))]
    newest = ticks.newest(stream.conn, "q")
    assert newest is not None
    told = [
        (str(change.event_id), str(change.row))
        for events in ticks.tick_events(stream.conn, "q", first.id, newest.id)
        for event in events
        for change in decode_all(event)
        if isinstance(change, RowChange)
    ]
    if versions:
        assert len(told) > 500
        assert Counter((row["_event_id"], row["_row"]) for row in found) == Counter(told)
    else:
        with pgq_db.connect() as conn:
            rows = conn.execute("select id, v from public.t order by id").fetchall()
        assert sorted((row["id"], row["v"]) for row in found) == rows
    listed = run("--files")
    assert sorted(listed.out.split()) == sorted(kept.paths(version.files))


def store(directory: Path) -> Store:
    """The directory of the table."""
    return Store(Place(str(directory / "archive" / "public.t")), TableName("public", "t"))


def assert_files(stream: Stream, kept: Store, version: Version) -> None:
    """The files are there, and the queue knows the position."""
    (consumer,) = queues.get_consumer_info(stream.conn, "q", "archive.public.t")
    assert consumer.last_tick == version.tick
    assert kept.damaged([file for file in version.files if version.format == "parquet"]) == []


def records(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    import pyarrow.parquet

    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    return list(pyarrow.parquet.read_table(path).to_pylist())
