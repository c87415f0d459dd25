"""Queue mover: moves every event of a queue into another queue, exactly once.

Batch by batch; a batch's events and its position commit in one transaction of the target.
"""

from __future__ import annotations

from typing import ClassVar

from psycopg import sql
from pydantic import Field

from londiste.consumer import EXACTLY_ONCE_ELSEWHERE, Batch, Context, Delivery, Events
from londiste.pgq.consumers import ConsumerKind
from londiste.tools import mover_base, parallel_events
from londiste.tools.parallel_batches import JobConsumer, JobSettings


class MoverSettings(JobSettings):
    """The queue mover."""

    sections: ClassVar[tuple[str, ...]] = ("queue_mover", "queue_mover3")

    dst_queue_name: str = Field(description="Target queue of the events (required).")


class QueueMover(JobConsumer):
    """Moves the events of a queue into another one, in their order, exactly once.

    Type, data, extra fields and time stay; ids are the target queue's.
    """

    delivery: ClassVar[Delivery] = EXACTLY_ONCE_ELSEWHERE
    listed_as: ClassVar[ConsumerKind] = ConsumerKind.MOVER
    settings_class = MoverSettings
    settings: MoverSettings

    def register(self, tick: int | None = None, *, like: str | None = None) -> bool:
        """As every consumer; refuses the source queue as target."""
        mover_base.check_registering(self.settings, self.settings.dst_queue_name)
        return super().register(tick, like=like)

    def startup(self) -> None:
        """Refuses a missing target, and the source queue as target."""
        super().startup()
        mover_base.check(self.settings, self.settings.dst_queue_name)

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Moves the batch with one COPY for each chunk, or a large one in parallel."""
        queue = self.settings.dst_queue_name
        if not parallel_events.move(
            self,
            batch,
            events,
            ctx,
            queue=sql.Literal(queue),
            check=lambda group: queue,
        ):
            into = mover_base.TargetQueues(ctx.db, batch, self.settings)
            for chunk in events.chunks():
                into.put(queue, chunk)
