"""A cascaded consumer beside a node's worker that lists the events it has read."""

from __future__ import annotations

from londiste import CascadedConsumer, Context, Event
from tests.support.scenarios.harness import QUEUE

#: In the database of its node.  A row that came twice is refused.
SCHEMA = "create table public.reported (node text, n bigint, primary key (node, n))"
LISTED = "select node, n from public.reported"


class Reports(CascadedConsumer):
    """Writes down each row that was written."""

    queue = QUEUE
    name = "reports"

    def process_event(self, event: Event, ctx: Context) -> None:
        if event.extra1 == "public.written":
            ctx.db.execute(
                "insert into public.reported"
                " select r ->> 'node', (r ->> 'n')::bigint from (select %s::json) as x (r)",
                [event.data],
            )


if __name__ == "__main__":
    Reports.main()
