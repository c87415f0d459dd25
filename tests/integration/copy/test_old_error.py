"""The error of a copy process that has ended is no error of the next one."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line

SCHEMA = "create table a (id int primary key, v text)"
ERROR = "select cur_error from pgq_node.local_state where consumer_name like '%.copy.%'"


def test_a_new_attempt_ends_the_error_of_a_killed_process(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    root.database.execute("insert into a values (1, 'x')")
    leaf.database.execute("alter table a add constraint never check (v <> 'x')")
    line.add(root, "a")
    line.tick()
    line.add(leaf, "a", expect_sync=False)
    worker = line.start(leaf)
    line.wait(lambda: "never" in (leaf.database.value(ERROR) or ""), "the error")
    worker.kill()
    leaf.database.execute("alter table a drop constraint never")
    with root.database.connect() as holder:
        # The next attempt has to wait for its rows.
        holder.execute("begin; lock table public.a in access exclusive mode")
        stored = leaf.database.value(ERROR)
        assert stored is None or "never" in stored
        leaf.database.execute(
            "update pgq_node.local_state set cur_error = 'never: of a killed process'"
            " where consumer_name like '%.copy.%'"
        )
        worker = line.start(leaf)
        line.wait(lambda: leaf.database.value(ERROR) is None, "the error to be cleared", 20)
        assert leaf.database.value("select merge_state from londiste.table_info") == "in-copy"
        holder.execute("rollback")
    line.wait(
        lambda: (
            (line.tick(), leaf.database.value("select merge_state from londiste.table_info"))[1]
            == "ok"
        ),
        "the copy",
    )
    worker.stop()
