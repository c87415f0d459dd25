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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from psycopg import sql
from pydantic import Field

from londiste import engine
from londiste.consumer import Batch, Consumer, ConsumerSettings, Context, Events
from londiste.daemon import crash
from londiste.db.connection import Connection, session
from londiste.engine.base import Engine
from londiste.errors import LondisteError
from londiste.install import compat
from londiste.replication.parallel import slices
from londiste.replication.parallel import sqlapi as attempts
from londiste.replication.parallel.slices import Slice
from londiste.replication.parallel.tasks import ATTEMPTS, FallBackToSerial, Tasks, spread
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


@dataclass(frozen=True)
class Common:
    """The input that all tasks of a job share.

    key -- name of the job's attempts; source, target -- connection strings.
    where -- condition over the columns of an event; '' for all.
    """

    key: str
    attempt: int
    source: str = field(repr=False)
    target: str = field(repr=False)
    batch: Batch
    where: str

    def condition(self, part: Slice) -> str | None:
        """SQL condition for the events of the slice."""
        found = [text for text in (part.condition, self.where) if text]
        return " and ".join(f"(\n{text}\n)" for text in found) or None


@dataclass(frozen=True)
class JobTask:
    """One slice; a subclass adds the input of its task, and pickles."""

    common: Common
    slice: Slice

    def __str__(self) -> str:
        return f"slice {self.slice.number} of a batch of queue {self.common.batch.queue}"


T = TypeVar("T", bound=JobTask)
#: Takes what the task of a slice has left, inside the consumer's transaction; the slice's events.
#: Raises FallBackToSerial: then nothing of the batch is written by the job.
Merge = Callable[[Common, Slice, str], int]


class Jobs:
    """Decides which batches of a consumer are large, and runs their tasks."""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self._engine: Engine | None = None
        self._failed: dict[int, int] = {}

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
        task: Callable[[T], int],
        item: Callable[[Common, Slice], T],
        merge: Merge,
        prepare: Callable[[Connection, Common], None] | None = None,
        finish: Callable[[], None] | None = None,
    ) -> bool:
        """Stages the batch with tasks and writes it; False: it has to be processed serially.

        where -- which events of the batch count; None: all.
        task, item -- the function for each slice, and its input.
        merge -- writes a slice; called for all of them in their order.
        prepare -- creates the tables that tasks stage rows in.
        finish -- called after the last slice.

        Raises TransientError when a retry may succeed.
        """
        settings = self.settings
        if not self.wanted or not 0 < settings.parallel_apply_min_events <= batch.size_estimate:
            return False
        with session(settings.db, name="londiste job", autocommit=True) as source:
            stretches = spread(source, batch, settings.parallel_apply_min_events)
            text = "" if where is None else where.as_string(source)
        if not stretches:
            return False
        started, count = time.monotonic(), sum(stretch.events for stretch in stretches)
        failures = self._failed.get(batch.id, 0)
        key = f"{batch.queue} for {batch.consumer}"
        way, reason, written = "worker", f"the job failed {failures} times", 0
        if failures < ATTEMPTS:
            with session(settings.target, name="londiste job", autocommit=True) as conn:
                attempt = attempts.apply_start(
                    conn,
                    key,
                    batch,
                    events=count,
                    threshold=settings.parallel_apply_min_events,
                    engine=settings.engine,
                )
                common = Common(key, attempt, settings.db, settings.target, batch, text)
                if prepare is not None:
                    prepare(conn, common)
            parts = slices.cut(stretches, settings.parallel_apply_tasks)
            log.info(
                "batch %d: %d events, staged by %d tasks of engine %s",
                *(batch.id, count, len(parts), settings.engine),
            )
            # It counts as failed until the batch is done.
            self._failed = {batch.id: failures + 1}
            items = [item(common, part) for part in parts]
            tasks = Tasks(
                self._started,
                task,
                items,
                settings.parallel_apply_tasks,
                queue=key,
                attempt=attempt,
            )
            crash.point("large.begun")
            try:
                with ctx.db.transaction():
                    for part in parts:
                        written += merge(common, part, tasks.result(ctx.db, part.number))
                        crash.point("large.mid-merge")
                    if finish is not None:
                        finish()
                way, reason = "job", ""
            except FallBackToSerial as why:
                reason = str(why)
            finally:
                tasks.stop()
        attempts.apply_end(
            ctx.db,
            key,
            batch,
            events=count,
            threshold=settings.parallel_apply_min_events,
            engine=settings.engine,
            way=way,
            reason=reason,
            seconds=time.monotonic() - started,
        )
        try:
            with ctx.db.transaction():
                attempts.apply_sweep(ctx.db, key)
        except LondisteError as error:
            log.warning("staging tables not dropped yet: %s", error)
        if way != "job":
            log.warning("batch %d: processing serially: %s", batch.id, reason)
            return False
        self._failed.clear()
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
        self.jobs = Jobs(self.settings)
        self.jobs.check()

    def shutdown(self) -> None:
        """Stops the engine."""
        self.jobs.close()

    def reload(self) -> None:
        """Takes new limits; a running engine stays."""
        self.jobs.settings = self.settings


def refused(result: Mapping[str, Any]) -> None:
    """Raises FallBackToSerial when a task reports a reason."""
    if result.get("refused"):
        raise FallBackToSerial(str(result["refused"]))


__all__ = ["Common", "FallBackToSerial", "JobConsumer", "JobSettings", "JobTask", "Jobs", "refused"]
