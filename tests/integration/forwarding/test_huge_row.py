"""A row that its writer could commit can be read by subscribers."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line

SCHEMA = "create table t (id int primary key, v text)"


@pytest.mark.slow
@pytest.mark.xfail(
    strict=True,
    reason="JSON doubles each backslash, COPY doubles them again: 300 MB become 1.2 GB, and nobody"
    " can read the event; the writer's statement has to fail instead",
)
def test_a_row_that_its_writer_could_commit_can_be_read(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    with root.database.connect() as conn:
        conn.execute("select londiste.create_capture(%s, 'public.t')", [QUEUE])
        conn.execute("insert into public.t values (1, repeat(E'\\\\', 300000000))")
        with (
            conn.cursor() as cursor,
            cursor.copy(
                "copy (select ev_data from pgq.event_1 where ev_extra1 = 'public.t') to stdout"
            ) as rows,
        ):
            assert sum(len(row) for row in rows) > 300000000
