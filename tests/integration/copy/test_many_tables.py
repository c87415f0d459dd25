"""Many small tables that are to be copied at once, a few of which cannot be."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from tests.fixtures.copies import Nodes
from tests.support.waiting import wait_for

FAILING = {
    5: ("alter table public.t5 add more int not null", "alter table public.t5 drop more", "more"),
    9: (
        "create unique index on public.t9 (v)",
        "set session_replication_role = replica; delete from public.t9",
        "is duplicated",
    ),
    11: (
        "alter table public.t11 add check (id < 3)",
        "alter table public.t11 drop constraint t11_id_check",
        "violates check constraint",
    ),
    14: (
        "drop table public.t14",
        "create table public.t14 (id int primary key, v text)",
        "does not exist on the target",
    ),
    17: (
        "alter table public.t17 alter v type int using 0",
        "alter table public.t17 alter v type text",
        "invalid input syntax",
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [24, 1000])
def test_many_tables_at_once_and_those_that_fail_wait_with_a_reason(
    nodes: Nodes, count: int
) -> None:
    """Every third table is empty, none is analysed, and half of them are resumable by size."""
    nodes.resumable_from = 8192
    names = [TableName("public", f"t{i}") for i in range(count)]
    with nodes.root.connect() as root, nodes.leaf.connect() as leaf:
        for i, name in enumerate(names):
            make = (
                f"create table {name} (id int primary key, v text) with (autovacuum_enabled = off)"
            )
            leaf.execute(make.encode())
            root.execute(make.encode())
            rows = 0 if i % 3 == 0 else i % 20
            fill = f"insert into {name} select i, 'same' from generate_series(1, {rows}) i"
            root.execute(fill.encode())
    for i, (broken, _, _) in FAILING.items():
        nodes.leaf.execute(broken)
        nodes.root.execute(f"insert into public.t{i} values (1000, 'same'), (1001, 'same')")
    gone = names[14]
    nodes.leaf.execute(f"create table {gone} (id int primary key, v text)")
    nodes.add(*names)
    nodes.leaf.execute(f"drop table {gone}")
    nodes.start()
    ready = "select count(*) from londiste.table_info where merge_state = 'ok'"

    def others_ready() -> bool:
        nodes.state(names[0])
        return int(nodes.leaf.value(ready)) == count - len(FAILING)

    wait_for(
        others_ready, timeout=120 if count < 100 else 500, what="the tables that can be copied"
    )
    for i, (_, mended, says) in FAILING.items():
        reason = wait_for(lambda i=i: nodes.error(names[i]), what="a reason")  # type: ignore[misc]
        assert says in reason, reason
        assert ";" in reason, "what to do next"
        nodes.leaf.execute(mended)
    nodes.wait_end()
    assert int(nodes.leaf.value(ready)) == count
    with nodes.root.connect() as root, nodes.leaf.connect() as leaf:
        for i, name in enumerate(names):
            if i != 9:
                select = f"select id, v from {name} order by id".encode()
                assert leaf.execute(select).fetchall() == root.execute(select).fetchall()
    assert nodes.consumers() == []
