"""Executor watch: ends jobs of a cluster that has no executor for too long.

Spark itself waits without limit for a free core or a worker, and logs nothing.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from types import TracebackType
from typing import Any

from londiste.engine.spark.failures import no_executor
from londiste.errors import LondisteError

#: The setting of Spark that says how long; with its units in seconds.
SETTING = "spark.scheduler.maxRegisteredResourcesWaitingTime"
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_POLL_SECONDS = 1.0


class Patience:
    """Ends the jobs of its block when the cluster has had no executor for too long.

    exhausted -- the error to raise then, None otherwise.
    """

    def __init__(self, carrier: Any) -> None:
        self.exhausted: LondisteError | None = None
        self._context = _cluster(carrier)
        self._tag = f"londiste-{uuid.uuid4().hex}"
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Patience:
        if self._context is not None:
            self._context.addJobTag(self._tag)
            self._thread = threading.Thread(target=self._watch, daemon=True, name="executors")
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            with contextlib.suppress(Exception):
                self._context.removeJobTag(self._tag)

    def _watch(self) -> None:
        # The connection to a JVM that is gone breaks: the job says so itself.
        with contextlib.suppress(Exception):
            context = self._context
            limit = seconds(context.getConf().get(SETTING) or "60s")
            since = time.monotonic()
            while not self._end.wait(_POLL_SECONDS):
                # The driver is one of them.
                if context._jsc.sc().getExecutorMemoryStatus().size() > 1:
                    since = time.monotonic()
                elif time.monotonic() - since > limit:
                    self.exhausted = no_executor(context.master, limit)
                    # Repeated: a job that is still being planned cannot be cancelled yet.
                    context.cancelJobsWithTag(self._tag)


def seconds(text: str) -> float:
    """A time as Spark writes it: ``60s``, ``500ms``, ``2min``; 60 for what is none."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in _UNITS:
        return 60.0
    return int(found[1]) * _UNITS[found[2]]


def _cluster(carrier: Any) -> Any:
    """The context whose executors are processes of their own; None without one."""
    # Spark Connect has none.
    master = getattr(carrier, "master", "local")
    return None if master.startswith("local[") or master == "local" else carrier
