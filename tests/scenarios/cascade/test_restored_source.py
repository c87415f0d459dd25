"""Servers restored from a copy of their files: status reports every missing row."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line, LineNode

SCHEMA = "create table a (id int primary key)"
CONTENTS = "select id from a order by id"
New = Callable[..., Cluster]


class Files:
    """The files of a stopped server, kept aside."""

    def __init__(self, server: Cluster, directory: Path) -> None:
        self.server = server
        self.kept = directory / f"{server.name}.kept"
        server.stop()
        self._copy(server.data, self.kept)
        server.up()

    def put_back(self, into: Cluster | None = None) -> None:
        """The server, or another one, goes on from these files."""
        server = into or self.server
        server.stop()
        shutil.rmtree(server.data)
        self._copy(self.kept, server.data)
        server.up()

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        # Owners and modes as well: a server is particular about them.
        subprocess.run(["cp", "-a", source, target], check=True)


def pair(line: Line, new_cluster: New, kind: NodeType = NodeType.LEAF) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA, on=new_cluster("root"))
    leaf = line.node("leaf", kind, root, schema=SCHEMA, on=new_cluster("leaf"))
    line.add(root, "public.a")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.a")
    write(line, root, leaf, 1)
    return root, leaf


def write(line: Line, root: LineNode, leaf: LineNode | None, *rows: int) -> int:
    """Rows in a batch of their own, which the leaf takes."""
    tick = 0
    for row in rows:
        root.database.execute("insert into a values (%s)", row)
        tick = line.tick()
    if leaf is not None:
        line.once(leaf)
    return tick


def server_of(node: LineNode) -> Cluster:
    server = node.database.cluster
    assert isinstance(server, Cluster)
    return server


def test_a_restored_source_is_not_taken_for_the_one_of_before(
    new_cluster: New, line: Line, tmp_path: Path
) -> None:
    root, leaf = pair(line, new_cluster)
    backup = Files(server_of(root), tmp_path)
    write(line, root, leaf, 2, 3)
    backup.put_back()
    # Past the number at which the leaf stands, with other rows.
    newest = write(line, root, None, 4, 5, 6)
    assert newest > line.position(leaf)
    done = line.run(leaf, "worker", "--once")
    assert done.code == 3 and "--rewind" in done.err, str(done)

    before = leaf.database.execute("select * from pgq.known_source")
    for _ in range(2):
        done = line.run(leaf, "worker", "--rewind")
        assert done.code == 3, str(done)
        assert "is another tick" in done.err and "worker --rewind --force-resync" in done.err
        assert "Traceback" not in done.err
    assert leaf.database.execute("select * from pgq.known_source") == before
    assert line.run(leaf, "worker", "--once").code == 3
    assert leaf.database.execute(CONTENTS) == [(1,), (2,), (3,)]

    done = line.run(leaf, "worker", "--rewind", "--force-resync")
    assert done.code == 0, str(done)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    line.wait(lambda: in_step(line, leaf), "the copy", 60)
    root.database.execute("insert into a values (7)")
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute(CONTENTS) == root.database.execute(CONTENTS)
    assert line.error(leaf) is None


def in_step(line: Line, leaf: LineNode) -> bool:
    line.tick()
    return (
        leaf.database.value("select merge_state from londiste.table_info where table_name ~ 'a$'")
        == "ok"
    )


@pytest.mark.slow
def test_a_restored_node_says_so_while_nothing_happens_and_goes_on_by_a_decision(
    new_cluster: New, line: Line, tmp_path: Path
) -> None:
    root, leaf = pair(line, new_cluster)
    backup = Files(server_of(leaf), tmp_path)
    write(line, root, leaf, 2, 3)
    # With the next look the provider is told of the last batch.
    line.once(leaf)
    backup.put_back()
    done = line.run(leaf, "worker", "--once")
    assert done.code == 3 and "has finished all batches up to tick" in done.err, str(done)
    assert "has lost its position" in line.run(leaf, "worker", "--once").err
    assert "has lost its position" in line.run(leaf, "status").out
    done = line.run(leaf, "worker", "--rewind")
    assert done.code == 0, str(done)
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == root.database.execute(CONTENTS)
    assert line.error(leaf) is None


def cloned(line: Line, node: LineNode, server: Cluster, directory: Path) -> LineNode:
    """A copy of the files of a node on another server, with the settings of the original.

    The original does not answer at its location from there, so that only the provider sees both.
    """
    Files(server_of(node), directory).put_back(into=server)
    copy = LineNode(node.name, Database(server, node.database.name), directory / "copy.toml")
    line.configure(copy)
    copy.database.execute(
        "update pgq_node.node_location set node_location = node_location || '_gone'"
        f" where node_name = '{node.name}'"
    )
    return copy


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(NodeType.LEAF, marks=pytest.mark.slow), NodeType.BRANCH]
)
def test_the_hint_for_a_copy_makes_it_a_node_of_its_own_and_the_original_continues(
    new_cluster: New, line: Line, tmp_path: Path, kind: NodeType
) -> None:
    root, node = pair(line, new_cluster, kind)
    copy = cloned(line, node, new_cluster("copy"), tmp_path)
    line.start(node)
    write(line, root, None, 2)
    line.wait_position(node, line.tick())
    refused = line.run(copy, "worker", "--once")
    assert refused.code == 3 and "another worker reads queue line" in refused.err, str(refused)
    subscribers = "select * from pgq_node.get_subscriber_info('line')"
    positions = "select consumer_name from pgq.get_consumer_info('line') order by 1"
    nodes = "select node_name, worker_name, node_type from pgq_node.node_info"
    before = [root.database.execute(text) for text in (subscribers, positions)]
    original = node.database.execute(nodes)
    (statement,) = re.findall(
        "in the database of the copy only: (select .*?), then, with settings of another name and"
        f" job_name: londiste create-{kind.value}",
        refused.err,
    )
    copy.database.execute(statement)
    assert copy.database.execute(nodes) == []
    assert copy.database.value("select count(*) from londiste.table_info") == 0
    assert copy.database.value("select count(*) from pgq.queue") == 0
    assert [root.database.execute(text) for text in (subscribers, positions)] == before
    assert node.database.execute(nodes) == original

    copy.name = "copy"
    line.configure(copy)
    provider = ["--provider", root.database.dsn]
    for command in ([f"create-{kind.value}", "copy", *provider], ["add-table", "a"]):
        done = line.run(copy, *command)
        assert done.code == 0, str(done)
    line.start(copy)
    line.wait(lambda: in_step(line, copy), "the copy of the rows", 60)
    root.database.execute("insert into a values (3)")
    tick = line.tick()
    for one in (node, copy):
        line.wait_position(one, tick)
        assert one.database.execute(CONTENTS) == [(1,), (2,), (3,)]
        assert line.error(one) is None


def test_two_nodes_with_one_name_are_noticed_at_once(
    new_cluster: New, line: Line, tmp_path: Path
) -> None:
    root, leaf = pair(line, new_cluster)
    copy = cloned(line, leaf, new_cluster("copy"), tmp_path)
    worker = line.start(leaf)
    write(line, root, None, 2)
    line.wait_position(leaf, line.tick())
    line.wait(
        lambda: root.database.value(
            "select count(*) from pg_stat_activity where application_name like 'londiste worker%'"
        ),
        "the session on the provider",
    )
    done = line.run(copy, "worker", "--once")
    assert done.code == 3, str(done)
    assert "node leaf: another worker reads queue line from root" in done.err
    assert "a copy of this node" in done.err
    assert copy.database.execute(CONTENTS) == [(1,)]
    assert "another worker reads" in (line.error(copy) or "")
    worker.stop()

    # The other one has gone; what it has taken is missing here, and stays so.
    for _ in range(2):
        done = line.run(copy, "worker", "--once")
        assert done.code == 3, str(done)
        assert "has finished all batches up to tick" in done.err
    other = line.start(copy)
    write(line, root, None, 3)
    line.wait(lambda: "has lost its position" in other.said(), "the error")
    assert "recovered after" not in other.said()
    assert "has finished all batches up to tick" in (line.error(copy) or "")
    other.stop()
    line.once(leaf)
    assert leaf.database.execute(CONTENTS) == [(1,), (2,), (3,)]
