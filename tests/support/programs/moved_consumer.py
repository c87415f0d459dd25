"""The consumer of test_move_consumers: it only appends the events it has seen to a list.

python -m tests.support.programs.moved_consumer --db DSN --set consumer_name=NAME
"""

from __future__ import annotations

import londiste


class Listing(londiste.Consumer):
    """Lists what it sees, in the queue's own database."""

    queue = "orders"
    delivery = londiste.EXACTLY_ONCE_HERE

    def process_event(self, event: londiste.Event, ctx: londiste.Context) -> None:
        """One line of the list."""
        ctx.db.execute("insert into seen values (%s, %s)", [self.settings.consumer, event.data])


if __name__ == "__main__":
    Listing.main()
