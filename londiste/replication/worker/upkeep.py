"""Maintenance of a leaf, whose database has no ticker that would do it."""

from __future__ import annotations

import logging
import time

from londiste.cascade.model import NodeType, WorkerState
from londiste.db import call
from londiste.db.connection import Connection, usable
from londiste.errors import LondisteError

log = logging.getLogger(__name__)

#: Seconds between two runs, as between those of a ticker.
PERIOD = 120.0
#: Its largest share of the worker's time: with 1,000 tables a run takes 0.7 s.
SHARE = 0.01


class Upkeep:
    """Runs the maintenance of schema londiste now and then.

    It notes changes of tables one by one: two harmless ones together look like a rewrite.
    """

    def __init__(self) -> None:
        self._next = time.monotonic()

    def look_after(self, node: Connection, state: WorkerState) -> None:
        """Runs it on a leaf when it is due.  Raises only if the session is lost."""
        now = time.monotonic()
        if state.type is not NodeType.LEAF or now < self._next:
            return
        try:
            call.value(node, "londiste.periodic_maintenance")
        except LondisteError as error:
            if not usable(node):
                raise
            # Replication does not depend on it.
            log.warning("the maintenance of this leaf failed, it is repeated later: %s", error)
        finally:
            self._next = now + next_in(time.monotonic() - now)


def next_in(seconds: float) -> float:
    """Pure: seconds from the begin of a run that took so many to that of the next one."""
    return max(PERIOD, seconds / SHARE)
