"""Batches of a consumer that tasks stage, and the consumer writes in one transaction.

    begin    the number of the attempt, and a place to stage rows       committed at once
    tasks    each reads a slice and stages what is to be written        one transaction each
    merge    slice after slice, as they become ready                    the consumer's transaction,
             and the position                                           with the position

As large batches of a node's worker: what tasks leave behind when they fail or run twice is seen by
nobody, and what cannot be staged goes the ordinary way in the same transaction.  The consumer's
transaction keeps other processes of its name out, so one of them at a time has an attempt.
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
    """Settings of consumers whose large batches may be carried by several processes."""

    engine: Literal["process", "local", "spark"] = Field(
        "process",
        description="Engine for large batches: process (this process alone), local (processes of"
        " this host) or spark.",
    )

    @property
    def target(self) -> str:
        """Connection string of the database of the effects."""
        return self.target_db or self.db


@dataclass(frozen=True)
class Common:
    """What all tasks of a job have in common.

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
        """Which events of the batch are the slice's."""
        found = [text for text in (part.condition, self.where) if text]
        return " and ".join(f"(\n{text}\n)" for text in found) or None


@dataclass(frozen=True)
class JobTask:
    """One slice; a subclass has what else its task needs, and pickles."""

    common: Common
    slice: Slice

    def __str__(self) -> str:
        return f"slice {self.slice.number} of a batch of queue {self.common.batch.queue}"


T = TypeVar("T", bound=JobTask)
#: Takes what the task of a slice has left, inside the consumer's transaction; the slice's events.
#: Raises FallBackToSerial: then nothing of the batch is written by the job.
Merge = Callable[[Common, Slice, str], int]


class Jobs:
    """Decides which batches of a consumer are large, and carries them."""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self._engine: Engine | None = None
        self._failed: dict[int, int] = {}

    @property
    def wanted(self) -> bool:
        """Whether there is an engine, and batches for it."""
        return self.settings.engine != "process" and self.settings.parallel_apply_min_events > 0

    def check(self) -> None:
        """Refuses a target without the place to stage rows.  Raises InstallError."""
        if self.wanted:
            with session(self.settings.target, name="londiste job", autocommit=True) as conn:
                compat.check(conn, "londiste")

    def close(self) -> None:
        """Ends what the engine has started."""
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
        """Has tasks stage the batch and writes it; False: it has to go the ordinary way.

        where -- which events of the batch count; None: all.
        task, item -- what is run for each slice, and what it is given.
        merge -- writes a slice; called for all of them in their order.
        prepare -- makes the place that tasks stage rows in.
        finish -- called behind the last slice.

        Raises TransientError when another try may do.
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
            log.warning("staged rows are not swept yet: %s", error)
        if way != "job":
            log.warning("batch %d is processed in the ordinary way: %s", batch.id, reason)
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
    """A consumer whose large batches are jobs."""

    settings: JobSettings

    def startup(self) -> None:
        """Refuses a target that has no place to stage rows."""
        self.jobs = Jobs(self.settings)
        self.jobs.check()

    def shutdown(self) -> None:
        """Ends the engine."""
        self.jobs.close()

    def reload(self) -> None:
        """Other limits; an engine that runs stays."""
        self.jobs.settings = self.settings


def refused(result: Mapping[str, Any]) -> None:
    """Raises FallBackToSerial when a task says so."""
    if result.get("refused"):
        raise FallBackToSerial(str(result["refused"]))


__all__ = ["Common", "FallBackToSerial", "JobConsumer", "JobSettings", "JobTask", "Jobs", "refused"]
