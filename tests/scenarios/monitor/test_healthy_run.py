"""Five minutes at low load, with restarts of all daemons: no check fails, nothing is notified."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time

import pytest

from tests.fixtures.line import Command
from tests.scenarios.monitor.conftest import Watched
from tests.scenarios.monitor.test_outages import check
from tests.support.http.receiver import receiver

SECONDS = float(os.environ.get("LONDISTE_HEALTHY_SECONDS") or 300)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 180)
def test_a_healthy_cascade_raises_no_false_alarm(watched: Watched, command: Command) -> None:
    line = watched.line
    line.wait(lambda: check(watched, command) == (0, {}), "health")

    def restart_worker(name: str, *, politely: bool) -> None:
        node = line.nodes[name]
        assert node.worker is not None
        node.worker.stop() if politely else node.worker.kill()
        line.start(node)

    def restart_ticker(*, politely: bool) -> None:
        watched.ticker.stop() if politely else watched.ticker.kill()
        watched.start_ticker()

    restarts = itertools.cycle(
        (
            lambda: restart_worker("leaf", politely=True),
            lambda: restart_ticker(politely=True),
            lambda: restart_worker("root", politely=True),
            lambda: restart_worker("leaf", politely=False),
            lambda: restart_ticker(politely=False),
        )
    )
    with receiver() as hook:
        # Their own periods, shorter than those of the settings: a false alarm comes sooner.
        file = line.directory / "notify.toml"
        file.write_text(
            watched.root.config.read_text()
            + f'[notify]\nwebhook = "{hook.url}"\nafter = 10\ncheck_period = 2\n'
        )
        argv = [sys.executable, "-m", "londiste", "-c", str(file), "notify"]
        notifier = line.processes.start("notify", argv)
        began, looks, rows = time.monotonic(), 0, 0
        wrong = []
        pause = threading.Event()
        next_restart = began + SECONDS / 8
        while time.monotonic() - began < SECONDS:
            rows += 1
            watched.root.database.execute("insert into t values (%s, 'x')", 1000 + rows)
            if time.monotonic() > next_restart:
                next_restart += SECONDS / 8
                next(restarts)()
                # status tells the truth about a daemon that is being restarted.
                line.wait(lambda: check(watched, command)[0] == 0, "the restarted daemon", 20)
            code, found = check(watched, command)
            looks += 1
            if code:
                wrong.append((round(time.monotonic() - began), found))
            pause.wait(1)
        assert wrong == []
        assert [one.message for one in hook.got] == []
        assert looks > SECONDS / 10
        watched.synced()
        count = "select count(*) from t where id > 1000"
        line.wait(lambda: watched.leaf.database.value(count) == rows, "all rows")
        assert notifier.stop() == 0
