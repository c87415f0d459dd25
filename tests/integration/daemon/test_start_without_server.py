"""Daemons that are started before their server wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from londiste.consumer import AT_LEAST_ONCE, Consumer
from londiste.daemon.signals import Signals
from londiste.errors import NodeUnreachable
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings
from tests.support.waiting import wait_for

#: No server listens there.
NOWHERE = "host=127.0.0.1 port=1 dbname=none"


class Idle(Consumer):
    name, queue, delivery = "idle", "q", AT_LEAST_ONCE


def a_worker() -> Worker:
    settings = WorkerSettings(db=NOWHERE, queue_name="q", job_name="w")
    return Worker(lambda: settings, Signals())


def run_worker(signals: Signals) -> None:
    work = a_worker()
    work.signals = signals
    work.run()


def run_consumer(signals: Signals) -> None:
    Idle(NOWHERE).run(signals)


@pytest.mark.parametrize("run", [run_worker, run_consumer])
def test_a_daemon_waits_until_it_is_stopped(
    run: Callable[[Signals], None], caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [one.getMessage() for one in caplog.records if "127.0.0.1" in one.getMessage()]

    failed: list[BaseException] = []

    def work() -> None:
        try:
            run(signals)
        except BaseException as error:
            failed.append(error)

    with closing(Signals()) as signals, caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=work)
        thread.start()
        # The 1st and the 2nd attempt.
        wait_for(lambda: len(said()) > 1 or failed, what="two attempts")
        signals.stop()
        thread.join(60)
    assert failed == [] and not thread.is_alive()
    assert "2 times since" in said()[1]


def test_once_and_the_start_in_the_background_end_with_the_error() -> None:
    # Of the latter the terminal shows it, and nothing was started.
    for start in (a_worker().run_once, a_worker().try_out):
        with pytest.raises(NodeUnreachable):
            start()
