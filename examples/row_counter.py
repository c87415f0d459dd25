"""Counts the changes of tables, per table and operation, exactly once.

A trigger writes every change into the queue; the counts are rows in the same database, so that
they and the position in the queue commit together: whenever the program is killed, every change
is counted once.

With LONDISTE_DB and the ticker of README.md:

    londiste queue create changes
    python examples/row_counter.py --register
    python examples/row_counter.py

For each table to be counted, once (in psql):

    create trigger count_changes after insert or update or delete on orders
        for each row execute function pgq.logutriga('changes');

The counts are printed, and stored in the table row_counts.
"""

from collections import Counter

import psycopg

import londiste

#: What the first letter of such an event's type means: docs/reference/events.md.
OPERATIONS = {"I": "insert", "U": "update", "D": "delete", "R": "truncate"}


class RowCounter(londiste.Consumer):
    """Counts the changes of tables."""

    queue = "changes"
    name = "row_counter"
    delivery = londiste.EXACTLY_ONCE_HERE

    def startup(self) -> None:
        with psycopg.connect(self.settings.db) as conn:
            conn.execute(
                "create table if not exists row_counts ("
                " table_name text, operation text, changes int8 not null,"
                " primary key (table_name, operation))"
            )

    def process_batch(
        self, batch: londiste.Batch, events: londiste.Events, ctx: londiste.Context
    ) -> None:
        # However many events there are, only the counts are in memory.
        counts = Counter((event.extra1, OPERATIONS[(event.type or "?")[0]]) for event in events)
        for (table, operation), changes in sorted(counts.items()):
            # ctx.db is the transaction that also finishes the batch.
            ctx.db.execute(
                "insert into row_counts values (%s, %s, %s) on conflict (table_name, operation)"
                " do update set changes = row_counts.changes + excluded.changes",
                [table, operation, changes],
            )
            print(f"{table} {operation} +{changes}", flush=True)


if __name__ == "__main__":
    RowCounter.main()
