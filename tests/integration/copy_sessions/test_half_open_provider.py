"""Connections that fall silent during a copy, to the provider or to the copy's own database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from londiste.copy.process import CopyProcess
from londiste.db.names import TableName
from londiste.errors import NodeUnreachable
from tests.fixtures.copies import A, B, Nodes, held, same
from tests.fixtures.nodes import ret
from tests.support.lines import Line
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

#: Sessions that would hold back vacuum on the provider.
HOLDERS = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and application_name like 'londiste copy%' and state = 'idle in transaction'"
)


@pytest.fixture
def line(nodes: Nodes) -> Iterator[Line]:
    """Between the copies of the leaf and their provider."""
    process = nodes.process

    def impatient(*wanted: TableName) -> CopyProcess:
        work = process(*wanted)
        for name, value in {"chunk_bytes": 64 << 20, "answer_seconds": 1.0}.items():
            object.__setattr__(work.job, name, value)
        return work

    nodes.process = impatient  # type: ignore[method-assign]
    with Line(nodes.root.dsn) as made:
        ret(nodes.leaf, "pgq_node.register_location", "q", "n1", made.dsn, False)
        yield made


@pytest.mark.parametrize("mode", first(["resumable", "snapshot", "group"]))
def test_a_copy_whose_provider_falls_silent_is_tried_again(
    nodes: Nodes, line: Line, mode: str
) -> None:
    tables = (A, B) if mode == "group" else (A,)
    nodes.resumable_from = 0 if mode == "resumable" else 1 << 40
    for name in tables:
        rows = "select i, repeat('x', 1000) from generate_series(1, 15000) i"
        nodes.root.execute(f"insert into {name.quoted} {rows}")
    nodes.add(*tables)
    waiting = "select count(*) from pg_stat_activity where datname = current_database()"
    waiting += " and application_name like 'londiste copy task%' and wait_event_type = 'Lock'"
    with held(nodes):
        nodes.start()
        wait_for(lambda: nodes.leaf.value(waiting), what="a task in mid-stream")
        line.stall()
    for name in tables:
        wait_for(lambda name=name: nodes.state(name) == "ok", what=f"the copy of {name}")
        assert same(nodes, name)
    assert nodes.root.value(HOLDERS) == 0


def test_a_copy_process_whose_own_database_falls_silent_ends(nodes: Nodes) -> None:
    """And its worker starts another one, with new connections."""
    nodes.add(A)
    with Line(nodes.leaf.dsn) as line, held(nodes):
        nodes.root.execute("insert into public.a values (1, 'x')")
        work = nodes.process()
        for name, value in {"db": line.dsn, "answer_seconds": 1.0}.items():
            object.__setattr__(work.job, name, value)
        nodes.start_work(work)
        reported = "select count(*) from pgq.daemon where dm_kind = 'copy'"
        wait_for(lambda: nodes.leaf.value(reported), what="the copy process")
        line.stall()
        nodes.wait_end()
        assert isinstance(nodes.failure, NodeUnreachable)
        nodes.failure = None
