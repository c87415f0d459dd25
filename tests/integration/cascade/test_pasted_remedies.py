"""Remedies of findings run as they are pasted, whatever the tables are called."""

from __future__ import annotations

import json
import shlex

from londiste.db.names import TableName, escaped
from londiste.monitor import partitions
from londiste.monitor.nodes.rules import NodeFacts, findings
from tests.fixtures.cascade import QUEUE, CommandLine, Nodes
from tests.fixtures.one_file import OneFile


def test_statements_quote_the_name_of_the_table(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    for name in ("Mixed", "o'b", 'quo"te', "back\\slash"):
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


def test_a_remedy_names_the_node_of_a_cascades_file(one_file: OneFile) -> None:
    one_file.write(
        {"n1": "root", "n2": "leaf of n1"},
        '\n[tables]\ninclude = ["a"]\n[worker]\nengine = "local"\n',
    )
    one_file.db["n1"].execute("create table a (id int primary key, v text)")
    assert one_file("apply").code == 0
    leaf = one_file.db["n2"]
    leaf.execute(
        "insert into londiste.compare_range (queue_name, job, table_name, number, signature,"
        " condition, buckets, checked_tick, checked_at, rows, differs)"
        " values ('q', 'audit', 'public.a', 0, 's', '', 1, 1, now(), 1, 1)"
    )
    (drift,) = (
        one["do"]
        for one in json.loads(one_file("status", "--check", "--json").out)["findings"]
        if one["kind"] == "drift"
    )
    assert drift == "londiste --node n2 repair public.a"
    assert one_file("repair", "public.a").code == 2
    # No worker runs, for which it waits in vain; but it is the node that is meant.
    done = one_file(*shlex.split(drift)[1:], "--timeout", "0.1")
    assert "several nodes" not in done.err and done.code not in (0, 2), done.err
