"""Lake worker: updates all tables, one after another, until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Self

from londiste.daemon.loop import Loop, as_londiste, describe
from londiste.daemon.signals import Signals
from londiste.db.names import TableName
from londiste.errors import BadOption, LondisteError, Superseded
from londiste.lake import source
from londiste.lake.settings import LakeSettings
from londiste.lake.table import LakeTable

log = logging.getLogger(__name__)

#: Seconds between two checks for outdated versions.
_VACUUM = 600.0


class LakeWorker:
    """The tables of a lake; ``close`` gives back what they hold."""

    def __init__(self, settings: LakeSettings) -> None:
        self.settings = settings
        self.tables = [self.table(table) for table in source.tables(settings)]
        self._vacuumed = time.monotonic()
        #: Called with the changes and the seconds of each epoch.
        self.observe: Callable[[int, float], None] | None = None

    def table(self, name: TableName) -> LakeTable:
        """What keeps a table."""
        return LakeTable(self.settings, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives sessions and locks back."""
        for table in self.tables:
            table.close()

    def once(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Until no table has anything new.  Raises the first error of a table, when all are done.

        Then deletes files that were replaced long ago.  What comes while it works may be left for
        the next time.
        """
        # As a busy queue has always more, the end is where it is now.
        for table in self.tables:
            with contextlib.suppress(LondisteError):
                table.driver.stop_at_newest()
        failures = Failures()
        for table in self.tables:
            try:
                while not stopping() and table.work():
                    pass
                if not stopping():
                    table.tidy()
                    table.vacuum()
            except Exception as error:
                failures.add(error)
        failures.end()

    def step(self) -> bool:
        """One epoch of each table; whether there was something new.

        A table that stops does not keep the others.  Raises the last of their errors.
        """
        more, failures = False, Failures()
        for table in self.tables:
            started, before = time.monotonic(), table.changes
            try:
                if table.work():
                    more = True
                    if self.observe is not None:
                        self.observe(table.changes - before, time.monotonic() - started)
                    table.tidy()
            except Exception as error:
                failures.add(error, table)
        if time.monotonic() - self._vacuumed > _VACUUM:
            self._vacuumed = time.monotonic()
            for table in self.tables:
                try:
                    table.vacuum()
                except Exception as error:
                    failures.add(error, table)
        failures.end()
        return more

    def run(self, signals: Signals) -> None:
        """Until the process shall end."""
        Loop(
            self.step,
            signals=signals,
            delay=self.settings.lake_period,
            longest_pause=self.settings.max_retry_delay,
            on_reload=_refuse_reload,
        ).run()


class Failures:
    """The errors of tables, one after another: the last one is raised, the others are logged."""

    def __init__(self) -> None:
        # A table that cannot be opened fails in the same words when it is vacuumed.
        self._found: dict[str, LondisteError] = {}

    def add(self, error: Exception, table: LakeTable | None = None) -> None:
        """Adds an error; closes its table, if given.  Raises Superseded at once."""
        ours = as_londiste(error)
        if table is not None:
            if isinstance(ours, Superseded):
                self._log(list(self._found))
                raise ours from error
            table.close()
        self._found[describe(ours)] = ours

    def end(self) -> None:
        """Raises the last error, if there is one."""
        texts = list(self._found)
        if texts:
            self._log(texts[:-1])
            raise self._found[texts[-1]]

    def _log(self, texts: list[str]) -> None:
        for text in texts:
            log.error("%s", text)


def _refuse_reload() -> None:
    raise BadOption(
        "a lake reads its settings at the start", hint="restart the process: -s, then -d"
    )
