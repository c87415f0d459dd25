"""The consumer of test_cascaded_consumer_moves: it stores the ids of new rows of public.t.

python -m tests.support.programs.storing_consumer -c FILE
"""

from __future__ import annotations

from londiste import CascadedConsumer, Context, Event


class Storing(CascadedConsumer):
    """Stores what it sees, beside the rows of its node."""

    queue = "line"
    name = "storing"

    def process_event(self, event: Event, ctx: Context) -> None:
        """One row."""
        if event.extra1 == "public.t":
            ctx.db.execute("insert into effects values ((%s::json ->> 'id')::int)", [event.data])


if __name__ == "__main__":
    Storing.main()
