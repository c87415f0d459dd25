"""Copies a queue into a queue of another database, exactly once.

The position is kept in the other database and moves in the transaction that inserts the events:
whenever the program is killed, every event is there once.  `londiste queue mover` does this
ready made, faster, and keeps the events' times; here is how such a program is written.

With LONDISTE_DB and the ticker of README.md, and the other database in LONDISTE_TARGET_DB:

    londiste queue install --db "$LONDISTE_TARGET_DB"
    londiste queue create orders_copy --db "$LONDISTE_TARGET_DB"
    londiste queue create orders

    python examples/queue_copier.py --register
    python examples/queue_copier.py

Names of your own go behind both: --set queue_name=… --set copy_name=…
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

import londiste


class CopierSettings(londiste.ConsumerSettings):
    """The settings of every consumer, and one of our own."""

    sections: ClassVar[tuple[str, ...]] = ("queue_copier",)

    copy_name: str = Field("orders_copy", description="The queue that gets the events.")


class QueueCopier(londiste.Consumer):
    """Copies a queue into another database."""

    queue = "orders"
    name = "queue_copier"
    delivery = londiste.EXACTLY_ONCE_ELSEWHERE
    settings_class = CopierSettings
    settings: CopierSettings

    def process_batch(
        self, batch: londiste.Batch, events: londiste.Events, ctx: londiste.Context
    ) -> None:
        # ctx.db is the session on LONDISTE_TARGET_DB, in the transaction of the position.
        copy = londiste.Producer(ctx.db, self.settings.copy_name)
        ctx.stats["copied"] += copy.send_many(fields(event) for event in events)


def fields(event: londiste.Event) -> Sequence[str | None]:
    """What is copied of an event; id and time are new."""
    return event.type, event.data, event.extra1, event.extra2, event.extra3, event.extra4


if __name__ == "__main__":
    QueueCopier.main()
