"""A branch that was restored, or whose provider was, and the leaf below it."""

from __future__ import annotations

import re
import shlex

from londiste.cascade.model import NodeType
from londiste.pgq import rebase
from tests.fixtures.line import Line, LineNode
from tests.support.scenarios.processes import Done
from tests.support.servers.kept_nodes import kept_nodes

MADE = "create table a (id int primary key)"
ROWS = "select id from a order by id"


@kept_nodes
def _cascade(line: Line) -> tuple[LineNode, LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=MADE)
    line.add(root, "public.a")
    branch = line.node("branch", NodeType.BRANCH, root, schema=MADE)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=MADE)
    for node in (branch, leaf):
        _pass(line, branch, leaf)
        line.add(node, "public.a")
    _written(line, root, branch, leaf, 1)
    return root, branch, leaf


def _pass(line: Line, *nodes: LineNode) -> None:
    line.tick()
    for node in nodes:
        line.once(node)


def _written(line: Line, root: LineNode, branch: LineNode, leaf: LineNode, number: int) -> None:
    root.database.execute("insert into a values (%s)", number)
    _pass(line, branch, leaf)


def _refused(line: Line, node: LineNode, *more: str) -> Done:
    done = line.here(node, "worker", *more)
    assert done.code == 3, str(done)
    return done


def _hint(done: Done) -> str:
    (found,) = (one for one in done.err.splitlines() if one.startswith("hint: "))
    return found


def test_a_leaf_below_a_branch_from_its_backup_continues_without_a_copy(line: Line) -> None:
    root, branch, leaf = _cascade(line)
    backup = f"{branch.database.name}_backup"
    branch.database.clone(backup)
    _written(line, root, branch, leaf, 2)
    branch.database.cluster.drop_database(branch.database.name)
    branch.database.cluster.create_database(branch.database.name, template=backup)
    branch.database.cluster.drop_database(backup)
    # The leaf is ahead of its provider for now.
    assert "it is older than the data" in _refused(line, leaf, "--once").err
    assert "--rewind" in _hint(_refused(line, branch, "--once"))
    rewound = line.here(branch, "worker", "--rewind")
    assert rewound.code == 0, str(rewound)
    line.once(branch)
    assert "worker --rewind" in _hint(_refused(line, leaf, "--once"))
    rewound = line.here(leaf, "worker", "--rewind")
    assert rewound.code == 0, str(rewound)
    _written(line, root, branch, leaf, 3)
    for node in (branch, leaf):
        assert node.database.execute(ROWS) == [(1,), (2,), (3,)]


def test_a_branch_with_another_history_is_told_to_be_created_again(line: Line) -> None:
    root, branch, _leaf = _cascade(line)
    root.database.execute(
        "update pgq.tick set tick_time = tick_time - interval '1 s' where tick_id >= %s",
        line.position(branch),
    )
    assert "--force-resync" not in _hint(_refused(line, branch, "--once"))
    refused = _refused(line, branch, "--rewind")
    assert "is another tick" in refused.err
    # The order that a branch refuses is nobody's advice.
    assert "--force-resync" not in _hint(refused)
    where = shlex.quote(root.database.dsn)
    assert f"londiste create-branch branch --provider {where}" in _hint(refused)
    assert _hint(_refused(line, branch, "--rewind", "--force-resync")) == _hint(refused)
    assert branch.database.execute(ROWS) == [(1,)]


def test_nodes_past_the_end_of_a_dump_are_named_with_what_works(line: Line) -> None:
    """Idle ticks after the dump of a root suffice, when its ticker was not stopped."""
    root, branch, leaf = _cascade(line)
    last = line.position(branch)
    _pass(line, branch, leaf)
    assert line.position(leaf) > last
    # As if the database had come here by a dump from before.
    root.database.execute(
        f"update pgq.subscription set sub_last_tick = {last}, sub_next_tick = null,"
        " sub_batch = null;"
        f"delete from pgq.tick where tick_id > {last};"
        f"select setval('pgq.event_1_tick_seq', {last});"
        "update pgq.cluster_identity set row_xmin = 0, system_identifier = 0"
    )
    rebase.rebase(root.database.dsn)
    moved = line.here(root, "move-node", "root", root.database.dsn)
    assert moved.code == 0, str(moved)
    assert "node branch cannot continue at tick" in moved.err
    assert "node leaf" not in moved.err
    hint = _hint(_refused(line, branch, "--rewind"))
    # The leaf has the foreign ticks, too: no provider but the branch has them.
    assert "change-provider" not in hint
    drops = re.findall(r"londiste (drop-node) (\w+)", hint)
    assert [name for _, name in drops] == ["leaf", "branch"]
    for drop in drops:
        done = line.here(root, *drop)
        assert done.code == 0, str(done)
