"""Whatever stands in a queue, the worker halts at it by its id, or passes it; it never crashes."""

from __future__ import annotations

import re
import shlex

from londiste.cascade.model import NodeType
from londiste.cli.errors import EXIT_BUG
from tests.fixtures.line import Command, Line, LineNode

SCHEMA = """
create table t (id int primary key, v text);
create table log (n bigserial primary key, v text);
"""
NATIVE = '{"op":"%s","table":["public","t"],"pkey":["id"]%s}'

#: Type, data, extra1 to extra4.  What a program with the right to insert could write.
HOSTILE: list[tuple[str | None, ...]] = [
    (None, None),
    ("", ""),
    ("I", "(id) values ('1'); drop table t", "public.t"),
    ("I", "(id,v) values ('1','a'') on conflict do nothing; --')", "public.t"),
    ("I", "(id) values ('9999999999')", "public.t"),
    ("I", "(id) values ('x')", "public.t"),
    ("I", "(nothing) values ('1')", "public.t"),
    ("I", "(id) values ('1')", 't"; drop table t; --'),
    ("I", "(id) values ('1')", "pg_catalog.pg_class"),
    ("U", "v='a' where id='1' or '1'='1'", "public.t"),
    ("U", "v='a' where v is null", "public.t"),
    ("D", "v is null", "public.t"),
    ("I:id", "id=%zz", "public.t"),
    ("I:id", "id=%ff", "public.t"),
    ("I:id", "id=1&id=2", "public.t"),
    ("U:missing", "id=1", "public.t"),
    ("D:", "id=1", "public.t"),
    ("R", None, "pg_catalog.pg_class"),
    ("EXECUTE", "drop table t", "public.t"),
    ("EXECUTE", None, None, None, None),
    ("EXECUTE", "select 1/0", "$(touch /tmp/x); 'name"),
    ("londiste.update-seq", "9" * 40, "public.log_n_seq"),
    ("londiste.update-seq", "x", "public.log_n_seq"),
    ("londiste.add-table", "public.t", None),
    ("londiste.anything", "x", "y", "z"),
    ("pgq.tick-id", "x", "y"),
    ("pgq.global-watermark", "x", "q"),
    ("pgq.location-info", "x", "q", "node", "host=/nowhere"),
    *(
        (NATIVE % (op, more), data, "public.t", None, key)
        for op, more, data, key in (
            ("INSERT", "", '{"id":' + "9" * 5000 + "}", None),
            ("INSERT", "", '{"id":1e400}', None),
            ("INSERT", "", '{"id":1,"v":"\\u0000"}', None),
            ("INSERT", "", '{"id":1,"v":"\\ud800"}', None),
            ("INSERT", "", '{"id":[1]}', None),
            ("INSERT", "", "[" * 3000, None),
            ("UPDATE", "", "{}", None),
            ("INSERT", ',"row":"01234567"', '{"id":1,"v":[]}', "nonsense"),
            ("INSERT", ',"row":"01234567"', '{"nothing":1}', "7"),
            ("INSERT", ',"row":"01234567","pack":true', '{"id":1}\n{"v":2}', "1"),
            ("DELETE", ',"row":"01234567","state":true,"pack":true', "", None),
        )
    ),
    ('{"op":"INSERT","table":["public"],"pkey":[]}', "{}", "public.t"),
    ('{"op":"INSERT","table":["pg_catalog","pg_authid"],"pkey":["oid"]}', '{"oid":1}', "public.t"),
    ("{" * 1000, "x", "public.t"),
]


def _insert(root: LineNode, event: tuple[str | None, ...]) -> None:
    filled = [*event, None, None, None, None, None, None][:6]
    root.database.execute(
        f"select pgq.insert_event('line', {', '.join(['%s::text'] * 6)})",
        *filled,
    )


def test_the_worker_halts_at_an_event_by_its_id_or_passes_it(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, max_retry_delay=600.0)
    line.add(root, "t", "log")
    line.add(leaf, "t", "log")
    root.database.execute("insert into t values (100, 'kept')")
    line.tick()
    line.once(leaf)
    halted, previous = 0, line.position(leaf)
    for event in HOSTILE:
        _insert(root, event)
        last = line.tick()
        for attempt in range(4):
            done = command(leaf, "worker", "--once")
            if done.code == 0:
                break
            halted += 1
            said = f"{event}: {done}"
            assert attempt < 3, said
            assert done.code != EXIT_BUG, said
            assert "unexpected" not in done.err, said
            assert "Traceback" not in done.err, said
            script = re.search(r"londiste .*?(execute skip .*?)[;,] or, after", done.err)
            # Those that were skipped are named as well.
            number = re.search(r"event (\d+)\b(?! skipped)", done.err)
            if script:
                skip = shlex.split(script[1])
            else:
                assert number, said
                skip = ["events", "skip", number[1], "--reason", "hostile"]
            skipped = command(leaf, *skip)
            assert skipped.code == 0, f"{event}: {skipped}\n{done}"
            if line.position(leaf) >= previous:
                # It is passed on the way to the next one.
                break
        previous = last
    # Nothing of them was executed, and replication goes on.
    assert halted > 25
    root.database.execute("update t set v = 'still here' where id = 100")
    line.tick()
    assert command(leaf, "worker", "--once").code == 0
    assert leaf.database.execute("select * from t where id = 100") == [(100, "still here")]
    for node in (root, leaf):
        assert command(node, "status").code == 0
