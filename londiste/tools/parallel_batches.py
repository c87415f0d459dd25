"""Large batches of a consumer: tasks stage them, the consumer merges in one transaction.

    begin    the number of the attempt, and a staging table             committed at once
    tasks    each reads a slice and stages its rows                     one transaction each
    merge    slice after slice, as they become ready                    the consumer's transaction,
             and the position                                           with the position

As for large batches of a node's worker: staged rows of tasks that fail or run twice are never read,
and what cannot be staged is processed serially in the same transaction.  The consumer's transaction
excludes other processes of its name, so only one of them has an attempt at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from psycopg import sql
from pydantic import Field

from londiste import engine
from londiste.consumer import Batch, Consumer, ConsumerSettings, Context, Events
from londiste.daemon import crash
from londiste.db.connection import Connection, session
from londiste.engine.base import Engine
from londiste.install import compat
from londiste.replication.parallel.size_limit import SizeLimits
from londiste.replication.parallel.slices import S, Slice, StagedSlice, StageTask
from londiste.replication.parallel.tasks import FallBackToSerial, Jobs, spread
from londiste.settings import EngineFields

log = logging.getLogger(__name__)


class JobSettings(EngineFields, ConsumerSettings):
    """Settings of consumers that can process large batches in parallel."""

    engine: Literal["process", "local", "spark"] = Field(
        "process",
        description="Engine for large batches: process (this process only), local (processes of"
        " this host) or spark.",
    )

    @property
    def target(self) -> str:
        """Connection string of the target database."""
        return self.target_db or self.db


R = TypeVar("R", bound=StagedSlice)
#: Takes what the task of a slice has left, inside the consumer's transaction; the slice's events.
#: Raises FallBackToSerial: then nothing of the batch is written by the job.
Merge = Callable[[S, Slice, R], int]


class ConsumerJobs:
    """Decides which batches of a consumer are large, and runs their tasks."""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self._engine: Engine | None = None
        self._failed: dict[int, int] = {}
        self._limits = SizeLimits()

    @property
    def wanted(self) -> bool:
        """Whether there is an engine, and a limit for large batches."""
        return self.settings.engine != "process" and self.settings.parallel_apply_min_events > 0

    def check(self) -> None:
        """Refuses a target without the schema for staging.  Raises InstallError."""
        if self.wanted:
            with session(self.settings.target, name="londiste job", autocommit=True) as conn:
                compat.check(conn, "londiste")

    def close(self) -> None:
        """Stops the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def carry(
        self,
        batch: Batch,
        events: Events,
        ctx: Context,
        *,
        where: sql.Composed | None,
        task: Callable[[StageTask[S]], int],
        spec: Callable[[str, int, str, str, Batch, str], S],
        result: type[R],
        merge: Merge[S, R],
        prepare: Callable[[Connection, S], None] | None = None,
        finish: Callable[[], None] | None = None,
    ) -> bool:
        """Stages the batch with tasks and writes it; False: it has to be processed serially.

        where -- which events of the batch count; None: all.
        task, spec, result -- the function for each slice, the input of all, and what it returns.
        merge -- writes a slice; called for all of them in their order.
        prepare -- creates the tables that tasks stage rows in.
        finish -- called after the last slice.

        Raises TransientError when a retry may succeed.
        """
        settings = self.settings
        threshold = settings.parallel_apply_min_events
        if not self.wanted or not self._limits.may_reach(batch, threshold):
            return False
        with session(settings.db, name="londiste job", autocommit=True) as source:
            stretches = spread(source, batch, threshold, self._limits.ask(source, batch))
            text = "" if where is None else where.as_string(source)
        if not stretches:
            return False
        jobs = Jobs(
            self._started,
            settings.engine,
            threshold,
            settings.parallel_apply_tasks,
            f"{batch.queue} for {batch.consumer}",
            _failed=self._failed,
        )
        started, written, job, reason = time.monotonic(), 0, None, ""
        try:
            with session(settings.target, name="londiste job", autocommit=True) as conn:

                def made(attempt: int) -> S:
                    found = spec(jobs.queue, attempt, settings.db, settings.target, batch, text)
                    if prepare is not None:
                        prepare(conn, found)
                    return found

                job = jobs.begin(conn, batch, stretches, task, made)
            with ctx.db.transaction():
                for part in job.parts:
                    staged = result.load(job.tasks.result(ctx.db, part.number))
                    if staged.refused:
                        raise FallBackToSerial(staged.refused)
                    written += merge(job.spec, part, staged)
                    crash.point("large.mid-merge")
                if finish is not None:
                    finish()
        except FallBackToSerial as why:
            reason = str(why)
        finally:
            if job is not None:
                job.tasks.stop()
        count = sum(stretch.events for stretch in stretches)
        jobs.end(ctx.db, batch, count, started, "worker" if reason else "job", reason)
        jobs.sweep(ctx.db)
        if reason:
            log.warning("batch %d: processing serially: %s", batch.id, reason)
            return False
        jobs.forget_failures()
        events.count = written
        events.skip_rest()
        return True

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = engine.create(self.settings.engine, self.settings.spark)
        return self._engine


class JobConsumer(Consumer):
    """A consumer that processes large batches in parallel."""

    settings: JobSettings

    def startup(self) -> None:
        """Refuses a target without the schema for staging."""
        self.jobs = ConsumerJobs(self.settings)
        self.jobs.check()

    def shutdown(self) -> None:
        """Stops the engine."""
        self.jobs.close()

    def reload(self) -> None:
        """Takes new limits; a running engine stays."""
        self.jobs.settings = self.settings
