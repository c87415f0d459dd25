"""A lake whose tables fail: each error is reported, and no table stops the others."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from click.testing import CliRunner

from londiste.cli import cli
from londiste.db.names import TableName
from londiste.errors import StateError, Superseded
from londiste.lake import worker
from londiste.lake.settings import LakeSettings
from londiste.lake.table import LakeTable
from londiste.lake.worker import LakeWorker
from londiste.settings import load


class Table:
    """A table with errors in the place of work."""

    changes = 0

    def __init__(self, name: str, broken: dict[str, Exception]) -> None:
        self.name, self.broken = name, broken
        self.vacuumed = 0
        self.driver = self

    def stop_at_newest(self) -> None:
        """Nothing is read."""

    def tidy(self) -> None:
        """Nothing is small."""

    def work(self) -> bool:
        return self._do("work")

    def vacuum(self) -> None:
        self.vacuumed += 1
        self._do("vacuum")

    def close(self) -> None:
        """Nothing is open."""

    def _do(self, what: str) -> bool:
        error = self.broken.get(f"{self.name} {what}")
        if error is not None:
            raise error
        return False


def lake(monkeypatch: pytest.MonkeyPatch, broken: dict[str, Exception]) -> Any:
    """A worker of the tables a, b and c, for which a vacuum is due."""
    monkeypatch.setattr(
        LakeWorker, "table", lambda _, name: Table(TableName.parse(str(name)).name, broken)
    )
    monkeypatch.setattr(worker, "_VACUUM", -1.0)
    given = {"queue_name": "q", "lake_path": "/lake", "lake_tables": "a, b, c", "db": "dbname=x"}
    return LakeWorker(load(LakeSettings, None, given))


def test_every_table_is_vacuumed_and_every_error_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    same = StateError("a cannot be opened")
    broken: dict[str, Exception] = {
        "a work": same,
        "a vacuum": same,
        "b work": StateError("b changed its type"),
    }
    broken["b vacuum"] = StateError("b has no space")
    with (
        caplog.at_level(logging.ERROR),
        lake(monkeypatch, broken) as made,
        pytest.raises(StateError, match="b has no space"),
    ):
        before = made._vacuumed
        made.step()
    assert [one.vacuumed for one in made.tables] == [1, 1, 1]
    assert made._vacuumed > before
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 2
    assert "a cannot be opened" in logged[0] and "b changed its type" in logged[1]


def test_a_run_for_cron_deletes_files_of_old_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: dict[str, Exception] = {"b work": StateError("b is damaged")}
    with (
        lake(monkeypatch, broken) as made,
        pytest.raises(StateError, match="b is damaged"),
    ):
        made.once()
    assert [one.vacuumed for one in made.tables] == [1, 0, 1]
    with lake(monkeypatch, {}) as made:
        made.once(stopping=lambda: True)
    assert [one.vacuumed for one in made.tables] == [0, 0, 0]


@pytest.mark.parametrize(
    ("command", "words", "fields"),
    [
        ("vacuum", (), {"versions": 2, "files": 3}),
        ("compact", ("a", "b", "c"), {"before": 2, "after": 3}),
    ],
)
def test_commands_do_the_other_tables_before_they_fail(
    monkeypatch: pytest.MonkeyPatch, command: str, words: tuple[str, ...], fields: dict[str, int]
) -> None:
    def work(self: LakeTable) -> tuple[int, int]:
        if self.table.name == "b":
            raise StateError("b is damaged")
        return 2, 3

    monkeypatch.setattr(LakeTable, command, work)
    given = ("--db", "dbname=x", "--queue", "q", "--path", "/lake", "--tables", "a,b,c")
    done = CliRunner().invoke(cli, ["lake", command, *words, *given, "--json"])
    assert isinstance(done.exception, StateError), done.output
    tables = json.loads(done.stdout)["tables"]
    assert tables == [{"table": f"public.{name}", **fields} for name in ("a", "c")]


def test_a_process_that_is_superseded_stops_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"a work": StateError("a is damaged"), "b vacuum": Superseded("another process")}
    with lake(monkeypatch, {**broken}) as made, pytest.raises(Superseded):
        made.step()
    assert [one.vacuumed for one in made.tables] == [1, 1, 0]
    assert "a is damaged" in caplog.text
    with lake(monkeypatch, {}) as made:
        assert made.step() is False
