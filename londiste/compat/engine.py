"""Consumers of earlier versions inside the framework of ``londiste.consumer``.

The framework delivers batches under one of its contracts; the program's methods get them as they
did then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from londiste.cascade.cascaded_consumer import CascadedConsumer
from londiste.consumer import Batch, Consumer, Context, Events
from londiste.consumer.runner import Runner
from londiste.daemon.statistics import BatchStatistics
from londiste.errors import LondisteError

log = logging.getLogger(__name__)


class Script(Protocol):
    """What the framework calls of the program."""

    def unit(self) -> bool: ...
    def take(self, batch: Batch, events: Events, ctx: Context) -> None: ...
    def batch_done(self) -> None: ...
    def startup(self) -> None: ...
    def shutdown(self) -> None: ...
    def reset(self) -> None: ...
    def reload_own(self) -> None: ...
    def stat_put(self, key: str, value: Any) -> None: ...


class Statistics(BatchStatistics):
    """Gives the numbers of each batch to the program, which logs them."""

    def __init__(self, script: Script) -> None:
        super().__init__(1.0)
        self.script = script

    def count(self, events: int, seconds: float, counters: Mapping[str, int]) -> None:
        self.script.stat_put("count", events)
        self.script.stat_put("duration", seconds)
        for name, value in counters.items():
            self.script.stat_put(name, value)

    def log_when_due(self, *, now: bool = False) -> None:
        """Nothing: the program logs after each unit of work."""


class Engine(Consumer):
    """A consumer whose batches go to a program's methods."""

    script: ClassVar[Script]
    _registered = False

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Gives the batch to the program."""
        self.script.take(batch, events, ctx)

    def work(self) -> bool:
        """One unit of the program, which calls ``one_batch``."""
        return self.script.unit()

    def one_batch(self) -> bool:
        """Processes one batch, if there is one; whether there was one."""
        with self._bound():
            found = super().work()
        if found:
            self.script.batch_done()
        return found

    def queue_dsn(self) -> str:
        """Where the queue is."""
        return self._parts.queue_dsn()

    def startup(self) -> None:
        """Called once before the first batch."""
        self.script.startup()

    def shutdown(self) -> None:
        """Called once at the end."""
        self.script.shutdown()

    def _start(self) -> None:
        if not self._registered:
            if self.register():
                log.info("registered at the end of the queue")
            self._registered = True
        super()._start()

    def _running(self) -> Runner:
        if self._runner is None:
            runner = super()._running()
            runner.statistics = Statistics(self.script)
            runner.may_commit = True
        return super()._running()

    def _reload(self) -> None:
        self.script.reload_own()
        super()._reload()

    def _recover(self, error: LondisteError | None) -> None:
        super()._recover(error)
        self.script.reset()


class NodeEngine(Engine, CascadedConsumer):
    """The same for a consumer whose position is in a node."""
