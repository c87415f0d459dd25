"""Remedies of findings run as they are pasted, whatever the tables are called."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName, escaped
from londiste.monitor import partitions
from londiste.monitor.nodes.rules import NodeFacts, findings
from tests.fixtures.cascade import QUEUE, CommandLine, Nodes


@pytest.mark.parametrize("name", ["Mixed", "o'b", 'quo"te', "back\\slash"])
def test_statements_quote_the_name_of_the_table(
    nodes_of: Nodes, londiste: CommandLine, name: str
) -> None:
    root = nodes_of.root()
    table = TableName("public", name)
    root.db.execute(f"create table {table.quoted} (id int not null)")
    added = londiste(root.db, "add-table", escaped(table), "--insert-only")
    assert added.code == 0, added.err
    root.db.execute(f"alter table {table.quoted} set unlogged")
    found = {
        one["kind"]: one["do"] for one in londiste(root.db, "check", "--json").json["findings"]
    }
    assert {"unlogged", "no-key"} <= found.keys(), found
    root.db.execute(found["unlogged"])
    root.db.execute(found["no-key"].replace("…", "id"))
    now = {one["kind"] for one in londiste(root.db, "check", "--json").json["findings"]}
    assert not {"unlogged", "no-key"} & now
    # These are found later, by maintenance.
    rewritten = NodeFacts("root", "root", doubts=(("rewritten", str(table), "now"),))
    for do in (findings(rewritten, None, QUEUE)[0].do, partitions.remedy(table, QUEUE)):
        root.db.execute("select londiste." + do.rpartition("select londiste.")[2])
