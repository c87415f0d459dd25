"""``worker --rewind --force-resync`` jumps over events of the registry, and makes up for them."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode

MADE = "".join(f"create table {name} (id serial primary key);" for name in "agr")
FORCE = ("worker", "--rewind", "--force-resync")


def _lost(line: Line) -> tuple[LineNode, LineNode]:
    """A root, and a leaf whose tick it has no more; in the gap its tables have changed."""
    root = line.node("root", NodeType.ROOT, schema=MADE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=MADE)
    for node in (root, leaf):
        line.add(node, "public.a", "public.r", sequences=True)
        line.tick()
        line.once(leaf)
    assert leaf.database.value("select last_value from a_id_seq") == 30001
    root.database.execute("insert into a select nextval('a_id_seq') from generate_series(1, 60000)")
    root.database.execute("select londiste.root_check_seqs(%s)", QUEUE)
    line.add(root, "public.g")
    done = line.run(root, "remove-table", "r")
    assert done.code == 0, str(done)
    root.database.execute(
        "select * from londiste.execute_start(%s, 'gap.sql', 'select 1', true)", QUEUE
    )
    line.tick()
    newest = line.tick()
    root.database.execute(f"delete from pgq.tick where tick_id < {newest}")
    return root, leaf


def test_the_registry_of_the_provider_is_copied_and_scripts_are_named(line: Line) -> None:
    _root, leaf = _lost(line)
    refused = line.run(leaf, *FORCE)
    assert refused.code == 3, str(refused)
    assert "node root does not replicate public.r any more" in refused.err
    assert "londiste remove-table public.r" in refused.err
    assert leaf.database.value("select count(*) from londiste.table_info where merge_state = 'ok'")
    assert line.run(leaf, "remove-table", "public.r").code == 0
    done = line.run(leaf, *FORCE)
    assert done.code == 0, str(done)
    assert "scripts of node root that this node has not run: gap.sql" in done.err
    listed = "select table_name, local from londiste.table_info order by 1"
    assert leaf.database.execute(listed) == [("public.a", True), ("public.g", False)]
    # Before any row is copied: an insert of an application after a cut-over fits.
    assert leaf.database.value("select last_value from a_id_seq") >= 90000
    states = "select merge_state from londiste.table_info where local"
    assert leaf.database.execute(states) == [(None,)]
