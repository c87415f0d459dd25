"""Shorter periods of the program for tests, which would wait seconds for its next look.

Pauses between two looks are here, and how long a dead command holds a worker; no timeouts.
``tests.conftest`` sets them in the test's own process, and the fork server in its programs and
their children.
A program that is started in the ordinary way has its own.
"""

from __future__ import annotations

import importlib

#: ``module:name`` -> seconds.
PERIODS = {
    "londiste.cascade.fencing:PERIOD": 2.0,
    "londiste.cli.copy.progress_display:_POLL_SECONDS": 0.1,
    "londiste.cli.pair.replay:PROVIDER_PERIOD": 1.0,
    "londiste.cli.setup.live_state:_PERIOD": 0.1,
    "londiste.cli.tables.common:_LOOK_SECONDS": 0.1,
    "londiste.compare.audit:_SHORTEST": 0.1,
    "londiste.compare.pause_at_tick:_HOLD_SECONDS": 6,
    "londiste.console.collect:_SLOW_SECONDS": 1.0,
    "londiste.copy.chunking.runner:WATCH": 0.1,
    "londiste.copy.group_copy:WATCH": 0.1,
    "londiste.copy.indexes:_POLL_SECONDS": 0.05,
    "londiste.copy.load_throttle:_POLL_SECONDS": 0.2,
    "londiste.copy.process:_POLL_SECONDS": 0.1,
    "londiste.daemon.supervisor:_POLL_SECONDS": 0.1,
    "londiste.engine.throttle:POLL_SECONDS": 0.2,
    "londiste.orchestration.daemons:PERIOD": 0.1,
    "londiste.replication.ddl.background:POLL_SECONDS": 0.1,
    "londiste.replication.tablesync.wait:_POLL_SECONDS": 0.05,
    "londiste.replication.worker.auto_add:_AGAIN": 1.0,
    "londiste.replication.worker.fkey_validator:PERIOD": 0.5,
}


def shorten() -> None:
    """Sets all of them in this process."""
    for place, seconds in PERIODS.items():
        name, _, period = place.partition(":")
        module = importlib.import_module(name)
        assert 0 < seconds <= getattr(module, period), place
        setattr(module, period, seconds)
