"""A provider with another history, or that others do not reach, is refused before any step."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.scenarios.processes import Done
from tests.support.servers.kept_nodes import kept_nodes

MADE = "create table a (id int primary key)"


@kept_nodes
def _cascade(line: Line) -> tuple[LineNode, LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=MADE)
    branch = line.node("branch", NodeType.BRANCH, root, schema=MADE)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=MADE)
    for _ in range(2):
        line.tick()
        line.once(branch)
        line.once(leaf)
    return root, branch, leaf


def _change(line: Line, leaf: LineNode, *more: str) -> Done:
    return line.here(leaf, "change-provider", "--node", "leaf", "--provider", "root", *more)


def _another_history(line: Line, root: LineNode, leaf: LineNode) -> None:
    """The root as after a restore, when it has created other ticks since."""
    root.database.execute(
        "update pgq.tick set tick_time = tick_time - interval '1 s' where tick_id >= %s",
        line.position(leaf),
    )


def test_it_is_refused_before_anything_is_recorded(line: Line) -> None:
    root, _branch, leaf = _cascade(line)
    _another_history(line, root, leaf)
    for more in (("--dry-run",), ()):
        refused = _change(line, leaf, *more)
        assert refused.code == 3, str(refused)
        assert "has events that root does not have" in refused.err
        assert "is another tick" in refused.err
        assert "--rollback" not in refused.err
        state = "select paused from pgq_node.local_state where consumer_name = 'leaf_worker'"
        assert leaf.database.value(state) is False
    # The command of the hint is not refused for a change that is under way.
    dropped = line.here(leaf, "drop-node", "leaf")
    assert dropped.code == 0, str(dropped)


def test_a_root_that_is_older_is_refused_at_once(line: Line) -> None:
    root, _branch, leaf = _cascade(line)
    root.database.execute("delete from pgq.tick where tick_id >= %s", line.position(leaf))
    refused = _change(line, leaf, "--dry-run")
    assert refused.code == 3 and "the newest tick of the root is" in refused.err, str(refused)


def test_a_change_that_had_begun_is_undone_first(line: Line) -> None:
    root, _branch, leaf = _cascade(line)
    # Its worker does not run, and does not answer.
    begun = _change(line, leaf, "--timeout", "0.1")
    assert begun.code == 6, str(begun)
    _another_history(line, root, leaf)
    refused = _change(line, leaf)
    assert refused.code == 3 and "is another tick" in refused.err, str(refused)
    (hint,) = (one for one in refused.err.splitlines() if one.startswith("hint: "))
    assert hint.index("--rollback") < hint.index("drop-node")
    undone = _change(line, leaf, "--rollback", "--timeout", "0")
    assert undone.code == 0, str(undone)
    assert line.here(leaf, "drop-node", "leaf").code == 0


PAUSED = "select paused from pgq_node.local_state where consumer_name = 'leaf_worker'"
RECORDS = "select count(*) from pgq_node.operation"


def test_a_name_that_another_program_has_is_refused_before_the_worker_is_paused(line: Line) -> None:
    root, branch, leaf = _cascade(line)
    root.database.execute("select pgq.register_consumer(%s, 'leaf_worker')", QUEUE)
    branch.database.execute("select pgq.register_consumer(%s, 'root_worker')", QUEUE)
    for call in (
        ("change-provider", "--node", "leaf", "--provider", "root"),
        ("takeover", "root", "--node", "branch"),
        ("switchover", "--to", "branch"),
    ):
        refused = line.here(leaf, *call, "--timeout", "0")
        assert refused.code == 2, str(refused)
        assert refused.err.startswith("error: node "), str(refused)
        assert "_worker is registered already" in refused.err, str(refused)
        for node in (root, branch, leaf):
            assert node.database.value(RECORDS) == 0
        assert leaf.database.value(PAUSED) is False


def test_a_change_that_is_refused_when_the_worker_is_paused_is_undone(line: Line) -> None:
    root, _branch, leaf = _cascade(line)
    line.tick()
    root.database.execute("delete from pgq.tick where tick_id = %s", line.position(leaf))
    refused = _change(line, leaf, "--timeout", "0")
    assert refused.code == 3 and "pause worker leaf_worker" in refused.err, str(refused)
    assert "the change of node leaf is undone" in refused.err
    assert "choose another provider" in refused.err
    assert (leaf.database.value(PAUSED), leaf.database.value(RECORDS)) == (False, 0)
    # A worker that was paused before stays paused.
    assert line.here(leaf, "pause", "--timeout", "0").code == 0
    assert _change(line, leaf, "--timeout", "0").code == 3
    assert (leaf.database.value(PAUSED), leaf.database.value(RECORDS)) == (True, 0)


def _located(nodes: tuple[LineNode, ...], name: str, location: str) -> None:
    for node in nodes:
        node.database.execute(
            "select pgq_node.register_location(%s, %s, %s, false)", QUEUE, name, location
        )


def test_a_provider_that_its_stored_location_does_not_lead_to_is_refused(line: Line) -> None:
    nodes = root, branch, leaf = _cascade(line)
    change = ("change-provider", "--node", "leaf", "--provider", "root", "--timeout", "0")
    switch = ("switchover", "--timeout", "0", "--block", "0")
    nocheck = "; or --nocheck if only other hosts can use it"
    for node, call in ((branch, switch), (root, change)):
        for location, found, way in (
            ("host=127.0.0.1 port=1 dbname=gone", "does not answer", nocheck),
            (leaf.database.dsn, "leads to node leaf", ""),
        ):
            _located(nodes, node.name, location)
            refused = line.here(node, *call)
            assert refused.code == 3, str(refused)
            assert refused.err.startswith(f"error: node {node.name}: its stored location {found}")
            assert f"hint: londiste move-node {node.name} CONNECTION{way}\n" in refused.err
            assert all(one.database.value(RECORDS) == 0 for one in nodes)
            assert leaf.database.value(PAUSED) is False
        shown = line.here(node, *call, "--nocheck", "--dry-run")
        assert shown.code == 0, str(shown)
        _located(nodes, node.name, node.database.dsn)


def test_the_old_root_learns_where_the_new_one_is(line: Line) -> None:
    root, branch, _leaf = _cascade(line)
    _located((root,), "branch", "host=127.0.0.1 port=1 dbname=gone")
    shown = line.here(branch, "switchover", "--dry-run")
    assert shown.code == 0, str(shown)
    steps = shown.out.splitlines()
    assert any("root: register location of branch" in step for step in steps[:1]), str(shown)
