"""Two control events of one number in two blocks: neither is obeyed, not even in vain."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line

SCHEMA = "create table t (id int primary key, v text); create sequence ran"
LONG = "rpad('select nextval(''public.ran''); -- ', 1200000, 'x')"


@pytest.mark.parametrize("kind", [NodeType.LEAF, NodeType.BRANCH])
def test_neither_of_two_long_scripts_with_one_number_runs(line: Line, kind: NodeType) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    node = line.node("below", kind, root, schema=SCHEMA)
    line.once(node)
    insert = f"select pgq.insert_event(%s, 'EXECUTE', {LONG}, 'x.sql', null, null, null)"
    root.database.execute(insert, QUEUE)
    root.database.execute(
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_txid, ev_type, ev_data, ev_extra1)"
        f" select ev_id, now(), ev_txid, ev_type, {LONG}, 'forged.sql' from pgq.event_1"
        " where ev_type = 'EXECUTE'"
    )
    line.tick()
    done = line.here(node, "worker", "--once")
    assert done.code == 5, str(done)
    assert "is not proven" in done.err
    # A sequence tells also of what was rolled back.
    assert node.database.value("select is_called from ran") is False
