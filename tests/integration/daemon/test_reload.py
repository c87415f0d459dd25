"""After SIGHUP a changed setting works, or the log says that it needs a restart."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from londiste.consumer import AT_LEAST_ONCE, Consumer, ConsumerSettings
from londiste.daemon.signals import Signals
from londiste.lake.settings import LakeSettings
from londiste.lake.worker import LakeWorker
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings
from tests.fixtures.cascade import Nodes
from tests.support.waiting import wait_for

NOWHERE = "host=127.0.0.1 port=1 dbname=none"
OTHER: dict[str, Any] = {
    "pidfile": Path("/tmp/other.pid"),
    "db": "host=127.0.0.1 port=2",
    "queue_name": "other",
    "job_name": "other",
}


class Idle(Consumer):
    name, queue, delivery = "idle", "q", AT_LEAST_ONCE


@pytest.mark.parametrize("name", list(OTHER))
def test_a_worker_takes_over_the_rest_and_names_what_needs_a_restart(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    given: dict[str, Any] = {"db": NOWHERE, "queue_name": "q", "job_name": "w"}
    with closing(Signals()) as signals, caplog.at_level(logging.WARNING):
        work = Worker(lambda: WorkerSettings(**given), signals)
        before = getattr(work.settings, name)
        given |= {name: OTHER[name], "max_retry_delay": 3.5}
        work._reload()
    assert f"changed settings that need a restart: {name}" in caplog.text
    assert getattr(work.settings, name) == before
    assert (work.settings.max_retry_delay, work.copies.longest_pause) == (3.5, 3.5)


def test_a_consumer_does_the_same(caplog: pytest.LogCaptureFixture) -> None:
    given: dict[str, Any] = {"db": NOWHERE, "queue_name": "q", "consumer_name": "idle"}
    idle = Idle(settings=lambda: ConsumerSettings(**given))
    with caplog.at_level(logging.WARNING):
        idle._reload()
        assert "restart" not in caplog.text
        given |= {"queue_name": "other", "retry_seconds": 7}
        idle._reload()
    assert "changed settings that need a restart: queue_name" in caplog.text
    assert (idle.settings.queue_name, idle.settings.retry_seconds) == ("q", 7)


def test_a_lake_says_that_it_needs_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = LakeSettings(db=NOWHERE, queue_name="q", lake_path=tmp_path, lake_tables=("t",))
    with closing(Signals()) as signals, LakeWorker(settings) as worker:
        thread = threading.Thread(target=worker.run, args=(signals,))
        signals._on_reload(0, None)
        thread.start()
        wait_for(lambda: "hint: restart the process" in caplog.text, what="the refusal")
        signals.stop()
        thread.join(60)


def test_a_worker_that_starts_again_has_no_old_error(nodes_of: Nodes) -> None:
    leaf = nodes_of.below(nodes_of.root(), "leaf")
    error = "select cur_error from pgq_node.local_state where consumer_name = %s"
    leaf.db.execute("select pgq_node.set_consumer_error('q', %s, 'broken')", leaf.worker)
    assert leaf.db.value(error, leaf.worker) == "broken"
    settings = WorkerSettings(db=leaf.dsn, queue_name="q", job_name=leaf.worker)
    with closing(Signals()) as signals:
        Worker(lambda: settings, signals).try_out()
    assert leaf.db.value(error, leaf.worker) is None
