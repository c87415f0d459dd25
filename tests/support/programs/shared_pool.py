"""One pool of the local engine for all tests of a process: each of its processes imports for long.

Programs that a test starts have their own.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from londiste.engine.local.engine import LocalEngine


def share() -> None:
    """From now on the engines of this process take their tasks to one pool, which none closes."""
    kept = LocalEngine()
    started, discard = LocalEngine._started, LocalEngine._discard

    def owner(engine: LocalEngine) -> LocalEngine:
        # Processes of a pool read crash points when they begin.
        return engine if "LONDISTE_CRASH" in os.environ or engine._pool is not None else kept

    def shared(self: LocalEngine, parallel: int) -> ProcessPoolExecutor:
        return started(owner(self), parallel)

    def discarded(self: LocalEngine, pool: ProcessPoolExecutor) -> None:
        discard(owner(self), pool)

    patched: dict[str, Any] = {"_started": shared, "_discard": discarded}
    for name, function in patched.items():
        setattr(LocalEngine, name, function)
