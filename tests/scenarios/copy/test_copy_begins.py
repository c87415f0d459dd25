"""A new table is copied at once: sleeping processes are notified."""

from __future__ import annotations

from tests.fixtures.cluster import Server
from tests.support.scenarios.harness import Cascade

TABLE = "public.t"
SCHEMA = f"create table {TABLE} (id int primary key, v text)"
ROWS = f"; insert into {TABLE} select i, 'v' from generate_series(1, 100) i"


def test_a_worker_that_would_sleep_for_an_hour_begins_the_copy_of_a_new_table(
    cascade: Cascade, cluster16: Server
) -> None:
    cascade.settings["poll_interval"] = "3600"
    root = cascade.root(on=cluster16, schema=SCHEMA + ROWS)
    leaf = cascade.leaf(provider=root, schema=SCHEMA)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    cascade.londiste(root, "add-table", TABLE)
    cascade.wait_root(leaf)
    # Ticks would wake it too.
    cascade.stop(cascade.ticker)
    cascade.londiste(leaf, "add-table", TABLE)
    cascade.wait_state(leaf, TABLE, "catching-up", "wanna-sync", "ok")
    cascade.start_ticker()
    cascade.wait_state(leaf, TABLE, "ok")
    rows = f"select * from {TABLE} order by id"
    assert leaf.database.execute(rows) == root.database.execute(rows)
