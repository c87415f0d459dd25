"""``londiste dispatch`` into files: registration, pause and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from londiste.cli import cli
from londiste.pgq import consumers, queues
from londiste.tools.dispatch.files import FileDispatcher
from londiste.tools.dispatch.program import Dispatcher
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream


class Archive:
    """A captured table, and the command whose files its changes become."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.stream = Stream(None, database, directory)
        self.stream.table()
        self.settings: dict[str, Any] = {
            "db": database.dsn,
            "queue_name": "q",
            "job_name": "archive",
            "target_path": str(directory / "archive"),
            "table_filter": "public.t",
            "handler": "yearly_batch",
            "row_mode": "plain",
        }

    def run(self, option: str) -> Result:
        """The command, to its end."""
        given = [w for item in self.settings.items() for w in ("--set", "=".join(item))]
        return CliRunner().invoke(cli, ["dispatch", *given, option])

    def says(self, option: str, text: str) -> None:
        """The command works, and says so."""
        done = self.run(option)
        assert done.exit_code == 0 and text in done.output, (done.output, done.exception)

    def worker(self) -> FileDispatcher:
        """What writes the files; without a new epoch it asks for no Spark."""
        given = {**self.settings, "table_filter": ("public.t",)}
        made = Dispatcher(**given).into_files()
        assert made is not None
        return made


@pytest.fixture
def archive(pgq_db: Database, tmp_path: Path) -> Archive:
    return Archive(pgq_db, tmp_path)


def test_files_are_paused_go_on_and_are_forgotten(archive: Archive) -> None:
    archive.says("--register", "1 table registered")
    archive.says("--register", "0 tables registered")
    (first,) = queues.get_consumer_info(archive.stream.conn, "q")
    assert first.consumer_name == "archive.public.t"
    archive.says("--pause", "1 table paused")
    archive.says("--pause", "0 tables paused")
    assert [one.consumer for one in consumers.get_paused_consumers(archive.stream.conn)] == [
        "archive.public.t"
    ]
    newest = archive.stream.write("insert into t values (1, 'a')")
    assert first.last_tick is not None and newest > first.last_tick
    with archive.worker() as worker:
        worker.once()
        assert worker.files() == []
    archive.says("--resume", "1 table resumed")
    archive.says("--resume", "0 tables resumed")
    archive.says("--unregister", "1 table unregistered, files kept")
    archive.says("--unregister", "0 tables unregistered")
    assert queues.get_consumer_info(archive.stream.conn, "q") == []
    # The files tell where it was: what came meanwhile is not passed over.
    archive.says("--register", "1 table registered")
    (again,) = queues.get_consumer_info(archive.stream.conn, "q")
    assert again.last_tick == first.last_tick and again.pending_events


def test_another_directory_continues_at_the_position_of_the_consumer(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    stream = archive.stream
    archive.says("--register", "1 table registered")
    (first,) = queues.get_consumer_info(stream.conn, "q")
    stream.write("insert into t values (1, 'a')")
    stream.write("insert into t values (2, 'b')")
    there = Path(archive.settings["target_path"])
    there.rename(there.with_name("unmounted"))
    archive.says("--register", "1 table registered")
    (again,) = queues.get_consumer_info(stream.conn, "q")
    assert again.last_tick == first.last_tick and again.pending_events
    with archive.worker() as worker:
        version = worker.tables[0].store.newest()
    assert version is not None and version.tick == first.last_tick
    assert f"is registered at tick {first.last_tick}: a new table continues there" in caplog.text
