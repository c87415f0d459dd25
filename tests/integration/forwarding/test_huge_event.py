"""An application's event that COPY cannot send must not stop the nodes for good."""

from __future__ import annotations

import psycopg
import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line

SCHEMA = "create table t (id int primary key, v text)"


@pytest.mark.slow
def test_an_event_of_a_producer_is_never_too_long_to_be_read(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.once(leaf)
    role = f"writer_{root.database.name}"
    huge = "repeat(E'\\\\', 300000000)"
    calls = [
        f"select pgq.insert_event(%s, 'app', {huge}, null, null, null, null)",
        f"select pgq.insert_event_at(%s, '-infinity', 'app', {huge})",
        f"select pgq.insert_event_once(%s, 'key', 'app', {huge})",
        f"select pgq.insert_events(%s, array['app'], array[{huge}])",
    ]
    with root.database.connect() as conn:
        conn.execute(f"create role {role} in role pgq_writer")
        conn.execute(f"set role {role}")
        try:
            for call in calls:
                with pytest.raises(psycopg.Error, match=r"an event of [36]0000000[0-9] bytes"):
                    conn.execute(call.encode(), [QUEUE])
            conn.execute(
                "select pgq.insert_event(%s, 'app', repeat(E'\\\\', 60000000), null,"
                " repeat(E'\\\\', 60000000), null, null)",
                [QUEUE],
            )
        finally:
            conn.execute(f"reset role; drop role {role}")
    tick = line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 0, str(done)
    assert line.position(leaf) == tick
