"""Tables with handlers of Londiste 3, on nodes that are taken over in place.

There the rules of obfuscate are in a file that the settings name, and the part of shard is in a
table of the node. What is not known here must not pass in the clear.
"""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

SCHEMA = "create table people (id int8 primary key, mail text, pay int)"
SECRET = "ada@example.org"
ATTRS = ["handler=obfuscate", "handler=shard&key=id", "handler=part&key=id", "handler=unheard"]


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    line.add(root, "people")
    line.add(branch, "people")
    line.tick()
    line.once(branch)
    return root, branch


@pytest.mark.parametrize("attrs", ATTRS)
@pytest.mark.parametrize("state", first(["in replay", "in a copy"]))
def test_no_value_passes_by_a_handler_whose_options_are_not_known(
    line: Line, attrs: str, state: str
) -> None:
    root, branch = _pair(line)
    branch.database.execute(
        "update londiste.table_info set table_attrs = %s, merge_state = %s",
        attrs,
        "ok" if state == "in replay" else None,
    )
    root.database.execute("insert into people values (1, %s, 7)", SECRET)
    before = line.position(branch)
    line.tick()
    done = line.run(branch, "worker", "--once")
    assert done.code != 0
    assert attrs.split("&")[0].removeprefix("handler=").replace("part", "shard") in done.err
    assert "hint:" in done.err
    assert SECRET not in done.out + done.err
    assert line.position(branch) == before
    assert branch.database.execute("select * from people") == []
    assert (
        branch.database.value(
            "select count(*) from pgq.event_template where ev_data like %s", f"%{SECRET}%"
        )
        == 0
    )


@pytest.mark.parametrize("way", first(["sqltriga", "jsontriga", "logutriga"], 2))
def test_masked_columns_stay_masked_whatever_trigger_of_londiste_3_wrote_them(
    line: Line, way: str
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA, obfuscator_key="k")
    line.add(root, "people", trigger=way)
    line.add(branch, "people")
    line.tick()
    line.once(branch)
    rules = '{"id": "keep", "mail": "hash"}'
    done = line.run(
        branch,
        "change-handler",
        "people",
        "--handler",
        "obfuscate",
        "--handler-arg",
        f"rules={rules}",
    )
    assert done.code == 0, str(done)
    branch.database.execute("update londiste.table_info set merge_state = 'ok'")
    root.database.execute("insert into people values (1, %s, 7)", SECRET)
    root.database.execute("update people set mail = mail || 'x'")
    line.tick()
    done = line.run(branch, "worker", "--once")
    assert SECRET not in done.out + done.err
    assert SECRET not in str(branch.database.execute("select * from people"))
    assert (
        branch.database.value(
            "select count(*) from pgq.event_template where ev_data like %s or ev_extra2 like %s",
            f"%{SECRET}%",
            f"%{SECRET}%",
        )
        == 0
    )
