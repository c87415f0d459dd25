"""A TRUNCATE and rows of the same table in one batch, which is written in several portions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.handlers import registry
from londiste.handlers.table_rules import TableRules
from londiste.replication.apply.routing import Route, RoutingTable
from londiste.replication.tablesync.states import By
from tests.capture.cases import Case, Mark, Write
from tests.capture.pair import Pair
from tests.support.suite.slow import pairs

PLAIN = ("create table app.t (id {key} primary key, v text)",)
TREE = (
    "create table app.t (id {key} primary key, v text) partition by range (id)",
    "create table app.t_1 partition of app.t for values from (0) to (10)",
    "create table app.t_2 partition of app.t default",
)
POINTED_AT = (
    *PLAIN,
    "create table app.item (id int4 primary key, t {key} references app.t)",
)
TABLES = {
    "plain": PLAIN,
    "partitioned": TREE,
    "referenced": POINTED_AT,
}


@pytest.mark.parametrize(("key", "flush_bytes"), pairs(["int4", "float8"], [500, 64 << 20]))
@pytest.mark.parametrize("tables", TABLES)
def test_rows_after_a_truncate(pair: Pair, tables: str, key: str, flush_bytes: int) -> None:
    case = _case(tuple(made.format(key=key) for made in TABLES[tables]), flush_bytes)
    pair.run(case)
    assert pair.refused == 0


@pytest.mark.parametrize("flush_bytes", [500, 64 << 20])
@pytest.mark.parametrize("handler", ["direct", "bulk_direct"])
def test_rows_after_a_truncate_by_a_handler(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, handler: str, flush_bytes: int
) -> None:
    wants = registry.make(registry.parse(handler, [])).wants()
    monkeypatch.setattr(pair, "interest", _routes(pair, wants))
    pair.run(_case((PLAIN[0].format(key="int4"),), flush_bytes))


def _case(made: tuple[str, ...], flush_bytes: int) -> Case:
    rows = "insert into app.t select g, repeat('x', 90) from generate_series({}, {}) as g"
    empty = "truncate app.t cascade"
    return Case(
        0,
        tables={"app.t": ()},
        made=made,
        extras=(),
        steps=(
            Write((rows.format(1, 9),)),
            Mark("replay"),
            Write((rows.format(10, 19), empty, rows.format(1, 40))),
            Mark("replay"),
            Write((empty, rows.format(1, 5), "update app.t set v = 'y'")),
            Write((rows.format(6, 40), empty, rows.format(3, 4), "delete from app.t where id = 3")),
            Mark("replay"),
        ),
        flush_bytes=flush_bytes,
    )


def _routes(pair: Pair, wants: TableRules) -> Callable[[], RoutingTable]:
    def routes() -> RoutingTable:
        names = pair._tables()
        return RoutingTable(By.MAIN, {one: Route(one, one, None, wants=wants) for one in names})

    return routes
