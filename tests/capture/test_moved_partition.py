"""A partition that moves from one captured table to another."""

from __future__ import annotations

from tests.capture.cases import MAIN, Case
from tests.capture.pair import Pair

OTHER = "app.other"
MADE = (
    "create table app.t (id int4 primary key, v text) partition by range (id)",
    "create table app.t0 partition of app.t for values from (0) to (10)",
    "create table app.other (id int4 primary key, v text) partition by range (id)",
    "create table app.other1 partition of app.other for values from (10) to (20)",
)


def test_truncate_of_a_partition_is_told_by_the_table_it_belongs_to_now(pair: Pair) -> None:
    tables = {MAIN: (), OTHER: ()}
    pair.make(Case(0, tables=tables, made=MADE, extras=(), target=(), steps=()))
    for conn in (pair.source, pair.target):
        conn.execute("alter table app.t detach partition app.t0")
        conn.execute("alter table app.other attach partition app.t0 for values from (0) to (10)")
    for _ in range(2):
        pair.source.execute("select londiste._renew_captures()")
    pair.app.execute("insert into app.other values (5, 'goes'), (15, 'stays')")
    pair.app.execute("truncate app.t0")
    pair.replay()
    pair.compare(OTHER)
