"""Lag of streaming queries, from the progress that Spark reports after each micro-batch.

An offset contains the time of its tick and the highest event id at it, so the difference of two
offsets is the lag, without a question to the database.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lag:
    """What a query has not read yet, when a micro-batch ended.

    query -- its name, or its id; source -- place of the source among those of the query.
    events -- counted by their ids, which have gaps; seconds -- between the ticks.
    """

    query: str
    source: int
    tick: int
    events: int
    seconds: float


class LagListener(StreamingQueryListener):  # type: ignore[misc]
    """Reports the lag of queries that read ``format("pgq")``."""

    def __init__(self, report: Callable[[Lag], None] | None = None) -> None:
        """report -- called for each micro-batch; None: a line of the log."""
        self._report = report or _logged

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A micro-batch has ended."""
        progress = event.progress
        for place, source in enumerate(progress.sources):
            found = lag(source.endOffset, source.latestOffset)
            if found is not None:
                self._report(Lag(progress.name or str(progress.id), place, *found))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The query has ended."""


def lag(end: str | None, newest: str | None) -> tuple[int, int, float] | None:
    """Tick, events and seconds between two offsets as Spark shows them; None: not ours."""
    try:
        one, other = json.loads(end or ""), json.loads(newest or "")
        events = int(other["seq"]) - int(one["seq"])
        begin, until = (datetime.fromisoformat(offset["time"]) for offset in (one, other))
        tick = int(one["tick"])
    except (KeyError, ValueError, TypeError):
        return None
    return tick, max(0, events), max(0.0, (until - begin).total_seconds())


def _logged(found: Lag) -> None:
    log.info(
        "query %s: tick %s, lag %s events, %.1f s",
        found.query,
        found.tick,
        found.events,
        found.seconds,
    )
