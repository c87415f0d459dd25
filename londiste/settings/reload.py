"""Settings that a running process takes over after SIGHUP, and those that need a restart."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TypeVar

from londiste.settings.fields import Settings

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Settings)

#: What every process reads once: it opens its log, pid file and metrics at the start.
OF_THE_PROCESS = (
    "logfile",
    "log_config",
    "log_format",
    "syslog",
    "syslog_ident",
    "syslog_facility",
    "syslog_address",
    "pidfile",
    "metrics",
)

#: What names a worker, and what its session on the node was opened with: that has its lock.
OF_A_WORKER = ("db", "queue_name", "job_name", "consumer_name", "run_as_owner", "lock_timeout")


def changed(before: Settings, after: Settings, names: Collection[str]) -> list[str]:
    """Pure: the settings of these that differ, in their order."""
    return [n for n in names if getattr(before, n, None) != getattr(after, n, None)]


def taken_over(before: S, after: S, fixed: Collection[str]) -> S:
    """The new settings, with the old values of what needs a restart, which the log names.

    fixed -- what the program cannot change while it runs, apart from what no process can.
    """
    kept = changed(before, after, [*fixed, *OF_THE_PROCESS])
    if not kept:
        return after
    log.warning("changed settings that need a restart: %s", ", ".join(kept))
    return after.model_copy(update={name: getattr(before, name) for name in kept})
