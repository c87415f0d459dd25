"""Foreign keys of a migration: all are in the new database at the end, and valid."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.relocation import Move

SCHEMA = """
create table orders (id int primary key, v text);
insert into orders select g, 'x' from generate_series(1, 100) g;
create unlogged table cart (id int primary key, order_id int references orders);
create table lines (id int primary key, order_id int references orders);
insert into lines select g, g from generate_series(1, 100) g;
"""
KEYS = (
    "select conname, convalidated from pg_constraint"
    " where contype = 'f' and connamespace = 'public'::regnamespace order by 1"
)
ALL = [("cart_order_id_fkey", True), ("lines_order_id_fkey", True)]
#: What is there between the hand-over of a table and the end of the validation.
UNCHECKED = """
alter table lines drop constraint lines_order_id_fkey;
alter table lines add constraint lines_order_id_fkey
    foreign key (order_id) references orders not valid;
insert into londiste.pending_fkeys
values ('public.lines', 'public.orders', 'lines_order_id_fkey',
    'ALTER TABLE ONLY public.lines ADD CONSTRAINT lines_order_id_fkey'
    ' FOREIGN KEY (order_id) REFERENCES public.orders(id)')
"""


@pytest.mark.slow
def test_every_key_is_there_at_the_end(cascade: Cascade, cluster16: Server) -> None:
    old, new = cascade.make_database(on=cluster16), cascade.make_database()
    old.execute(SCHEMA)
    move = Move(cascade, old.dsn, new.dsn)
    daemon = move.start()
    move.wait_in_step(new, 2)
    cascade.wait(lambda: new.execute(KEYS) == ALL[1:], "the key of a replicated table", 60)
    # No worker restores the key of a table that is not replicated.
    found = move.json("verify")["findings"]
    assert [(f["severity"], "cart_order_id_fkey" in f["what"]) for f in found] == [
        ("warning", True)
    ]
    move.run("switch", "--block", "60")
    assert new.execute(KEYS) == ALL
    assert new.value("select count(*) from londiste.pending_fkeys") == 0
    with new.connect() as holder:
        holder.autocommit = False
        new.execute(UNCHECKED)
        holder.execute("lock table public.lines in share update exclusive mode")
        refused = move.run("finish", accept=[6])
        assert "table public.lines stays locked" in refused.err
        holder.rollback()
    move.run("finish")
    assert new.execute(KEYS) == ALL
    assert daemon.wait() == 0, daemon.said()
