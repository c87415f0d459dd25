"""A node that would get other rows or values from another provider: refused, or copied again."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line, LineNode
from tests.integration.forwarding.test_filtered_branch import in_step

SCHEMA = """
create table secret (id int primary key, mail text);
create table part (id int primary key, n int);
create table plain (id int primary key);
"""
MASKED = SCHEMA.replace("mail text", "mail uuid")
RULES = 'rules={"id": "keep", "mail": "hash"}'
FILL = """
insert into secret select i, '0r1ginal' || i from generate_series(1, 20) i;
insert into part select i, i from generate_series(1, 20) i;
insert into plain select i from generate_series(1, 20) i;
"""
TABLES = ("secret", "part", "plain")


def rows(node: LineNode) -> list[object]:
    return [
        node.database.execute(f"select * from (select * from {t}) x order by id") for t in TABLES
    ]


def texts(node: LineNode) -> list[object]:
    return node.database.execute("select id, mail::text from secret order by id")


def provider(node: LineNode) -> str:
    return str(node.database.value("select provider_node from pgq_node.get_node_info('line')"))


def test_a_node_that_moves_past_a_branch_that_holds_less_is_refused_or_copied_again(
    line: Line, command: Command
) -> None:
    def run(node: LineNode, *args: str) -> str:
        done = command(node, *args)
        assert done.code == 0, str(done)
        return done.out + done.err

    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    less = line.node("less", NodeType.BRANCH, root, schema=MASKED, obfuscator_key="k3y-of-test")
    # Takes both: masks and originals.
    sub = line.node("sub", NodeType.BRANCH, less, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, sub, schema=SCHEMA)
    line.add(root, *TABLES)
    root.database.execute(FILL)
    run(less, "add-table", "secret", "--handler", "obfuscate", "--handler-arg", RULES)
    run(less, "add-table", "part", "--where", "n < 10")
    run(less, "add-table", "plain")
    in_step(line, less)
    for node in (sub, leaf):
        run(node, "add-table", *TABLES)
        in_step(line, less, node)
    assert texts(leaf) == texts(less) != texts(root)
    before = rows(leaf)

    for more in ((), ("--dry-run",)):
        refused = command(sub, "change-provider", "--provider", "root", *more)
        assert refused.code == 3, str(refused)
        assert "node sub would get different rows or values from root than from less" in refused.err
        assert "public.part: now branch less: rows where n < 10; then all" in refused.err
        assert "public.secret: now branch less: handler obfuscate" in refused.err
        assert "plain" not in refused.err
        assert "--allow-resync" in refused.err
        # A root cannot filter for one of the nodes below it.
        assert "change-handler" not in refused.err
    assert provider(sub) == "less"
    assert sub.database.value("select count(*) from pgq_node.operation") == 0
    assert sub.database.value("select bool_and(merge_state = 'ok') from londiste.table_info")
    # What comes to it is not what a root has to have.
    refused = command(root, "switchover", "--to", "sub")
    assert refused.code == 3
    assert "sub gets only a subset of table public.part" in refused.err
    assert "branch less: rows where n < 10" in refused.err

    told = run(sub, "change-provider", "--provider", "root", "--allow-resync")
    assert "leaf: copy table public.secret again" in told
    assert "plain" not in told
    root.database.execute(
        "update secret set mail = 'new' where id = 3; insert into part values (99, 99)"
    )
    in_step(line, sub, leaf)
    assert rows(sub) == rows(leaf) == rows(root) != before

    # And back: originals go, in the rows and in what the branch tells.
    refused = command(leaf, "takeover", "sub", "--node", "less")
    assert refused.code == 3
    assert "public.part: now all rows; then branch less: rows where n < 10" in refused.err
    assert provider(sub) == "root"
    run(leaf, "takeover", "sub", "--node", "less", "--allow-resync")
    assert provider(sub) == "less"
    root.database.execute("delete from secret where id = 4; delete from part where id = 4")
    in_step(line, less, sub, leaf)
    assert rows(leaf) == rows(sub) != rows(root)
    assert texts(leaf) == texts(less)
    told_below = sub.database.value(
        "select count(*) from pgq.event_template where ev_extra1 = 'public.secret'"
        " and ev_data like '%0r1ginal%'"
    )
    assert told_below == 0
    # Nothing else comes where only the way is another.
    run(leaf, "change-provider", "--provider", "less")
    assert leaf.database.value("select bool_and(merge_state = 'ok') from londiste.table_info")

    # A branch that is gone cannot be asked what it held.
    for node in (root, sub, leaf):
        node.database.execute(
            "update pgq_node.node_location set node_location = %s where node_name = 'less'",
            "host=127.0.0.1 port=1 dbname=gone",
        )
    for args in (("takeover", "less", "--failover"), ("change-provider", "--provider", "root")):
        refused = command(sub, *args)
        assert refused.code == 3, str(refused)
        assert "node less does not respond: its filters of the tables of" in refused.err
        assert "--allow-resync" in refused.err
        # A root cannot filter for one of the nodes below it.
        assert "change-handler" not in refused.err
    assert provider(sub) == "less"
