"""A consumer whose start fails leaves no registration, which would hold the events of its queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import londiste
from londiste.db.names import TableName
from londiste.errors import InstallError, UnknownTable
from londiste.lake.settings import LakeSettings
from londiste.lake.source import describe
from londiste.lake.table import LakeTable
from londiste.lake.worker import LakeWorker
from londiste.pgq import queues
from londiste.settings import load
from tests.fixtures.cluster import Database


class Elsewhere(londiste.Consumer):
    queue = "q"
    name = "c"
    delivery = londiste.EXACTLY_ONCE_ELSEWHERE


def test_a_target_without_the_sql_registers_nothing(
    pgq_db: Database, new_database: Callable[..., Database]
) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    target = new_database(pgq=False)
    with pytest.raises(InstallError) as refused:
        Elsewhere(pgq_db.dsn, target_db=target.dsn).register()
    assert "londiste install" in refused.value.hint
    assert queues.get_consumer_info(conn, "q") == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InstallError("no Java")])
def test_a_lake_that_cannot_read_its_first_rows_registers_nothing(
    pgq_db: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: BaseException,
) -> None:
    pgq_db.execute("create table t (id int primary key)")
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    conn.execute("select londiste.create_capture('q', 'public.t')")
    queues.create_tick(conn, "q")
    given = {"db": pgq_db.dsn, "queue_name": "q", "lake_path": str(tmp_path), "lake_tables": "t"}
    monkeypatch.setattr(LakeTable, "_jobs", lambda self: (_ for _ in ()).throw(failure))
    with (
        pytest.raises(BaseException, match=r"no Java|^$"),
        LakeWorker(load(LakeSettings, None, given)) as worker,
    ):
        worker.once()
    assert queues.get_consumer_info(conn, "q") == []


def test_a_lake_whose_table_is_missing_names_its_settings(pgq_db: Database, tmp_path: Path) -> None:
    queues.create_queue(pgq_db.connect(), "q")
    settings = load(
        LakeSettings,
        None,
        {"db": pgq_db.dsn, "queue_name": "q", "lake_tables": "t", "lake_path": str(tmp_path)},
    )
    with pgq_db.connect() as conn, pytest.raises(UnknownTable) as failed:
        describe(conn, settings, TableName("public", "t"))
    assert "settings" in failed.value.hint and "remove-table" not in failed.value.hint
