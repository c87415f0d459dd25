"""Queue splitter: moves each event of a queue into the queue that it names, exactly once."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from psycopg import sql
from pydantic import Field, field_validator

from londiste.changes.decode import shown
from londiste.consumer import EXACTLY_ONCE_ELSEWHERE, Batch, Context, Delivery, Event, Events
from londiste.errors import UnknownQueue
from londiste.pgq.consumers import ConsumerKind
from londiste.settings import CommaList
from londiste.tools import mover_base, parallel_events
from londiste.tools.parallel_batches import JobConsumer, JobSettings
from londiste.tools.parallel_events import Group


class SplitterSettings(JobSettings):
    """The queue splitter."""

    sections: ClassVar[tuple[str, ...]] = ("queue_splitter", "queue_splitter3")

    queue_field: Literal["type", "data", "extra1", "extra2", "extra3", "extra4"] = Field(
        "extra1", description="Field of the event that names its target queue."
    )
    default_queue: str = Field(
        "",
        description="Queue for events whose field is empty (default: such an event is an error).",
    )

    target_queues: CommaList = Field(
        (), description="Queues that events may name (default: all queues of the target)."
    )

    @field_validator("queue_field", mode="before")
    @classmethod
    def _without_prefix(cls, value: object) -> object:
        return value.removeprefix("ev_") if isinstance(value, str) else value


class QueueSplitter(JobConsumer):
    """Distributes the events of a queue to the queues that they name, exactly once.

    All queues of a batch get their events, and the position moves, in one transaction.
    """

    delivery: ClassVar[Delivery] = EXACTLY_ONCE_ELSEWHERE
    listed_as: ClassVar[ConsumerKind] = ConsumerKind.SPLITTER
    settings_class = SplitterSettings
    settings: SplitterSettings

    def register(self, tick: int | None = None, *, like: str | None = None) -> bool:
        """As every consumer; refuses the source queue as target."""
        mover_base.check_registering(self.settings, self.settings.default_queue)
        return super().register(tick, like=like)

    def startup(self) -> None:
        """Refuses a target without the required schemas, or without the default queue."""
        super().startup()
        mover_base.check(self.settings, self.settings.default_queue or None)
        self._same_database: bool | None = None

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Moves the batch with one COPY for each queue and chunk, or a large one in parallel."""
        if parallel_events.move(
            self,
            batch,
            events,
            ctx,
            # By the queue that they come into: events without a name keep their place there.
            queue=sql.SQL("coalesce(nullif({}, ''), {})").format(
                sql.Identifier(f"ev_{self.settings.queue_field}"),
                sql.Literal(self.settings.default_queue),
            ),
            check=lambda group: self._of_group(group, batch, ctx),
        ):
            return
        into = mover_base.TargetQueues(ctx.db, batch, self.settings)
        for chunk in events.chunks():
            parts: dict[str, list[Event]] = {}
            for event in chunk:
                parts.setdefault(self._target(event, batch, ctx), []).append(event)
            for queue, part in parts.items():
                try:
                    ctx.stats[queue] += into.put(queue, part)
                except UnknownQueue as error:
                    no = mover_base.unknown(queue, self.settings)
                    raise mover_base.refused(
                        part[0], batch, no.message, no.detail, no.hint
                    ) from error

    def _of_group(self, group: Group, batch: Batch, ctx: Context) -> str:
        """``_target`` for the first event of a group, with a short error."""
        blank = Event(group.first, batch.tick_time, 0, None, *[None] * 6)
        named: dict[str, Any] = {self.settings.queue_field: group.queue}
        return self._target(blank._replace(**named), batch, ctx)

    def _target(self, event: Event, batch: Batch, ctx: Context) -> str:
        """The target queue of an event."""
        field = self.settings.queue_field
        name: str = getattr(event, field) or self.settings.default_queue
        if not name:
            raise mover_base.refused(
                event,
                batch,
                "it names no target queue",
                f"{field} is {shown(getattr(event, field))}, type {shown(event.type)}",
                "set default_queue for such events, or queue_field to the field with the"
                " queue's name",
            )
        allowed = self.settings.target_queues
        if allowed and name not in {*allowed, self.settings.default_queue}:
            raise mover_base.refused(
                event,
                batch,
                f"queue {shown(name)} is not in target_queues",
                f"{field} names it",
                "add the queue to target_queues; or leave the event out:"
                f" {mover_base.without(event.id, self.settings.consumer_filter)}",
            )
        if name == batch.queue:
            if self._same_database is None:
                self._same_database = mover_base.same_database(self.settings, ctx.db)
            if self._same_database:
                raise mover_base.refused(
                    event,
                    batch,
                    "its target is the same queue",
                    f"{field} names the source queue",
                    "correct the program that writes such events, or set target_db to another"
                    " database",
                )
        return name
