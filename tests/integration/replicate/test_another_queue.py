"""``replicate`` where another queue connects databases, or a settings file is about other ones."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg import conninfo

from londiste.cascade.commands.create_node import NewNode, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.names import TableName
from londiste.dsn import masked
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replicate import save, setup
from londiste.replicate.databases import ReplicateSettings, identify
from londiste.replicate.setup import Selection, Share
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from tests.fixtures.cascade import QUEUE, Node, Nodes
from tests.fixtures.cluster import Database
from tests.support.servers.kept_nodes import kept_nodes


@pytest.fixture
@kept_nodes
def pair(nodes_of: Nodes) -> tuple[Node, Node]:
    """Root and leaf of queue ``q`` with table t."""
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute("create table t (id int primary key); create table u (id int primary key)")
        with Connections(name="tests") as sites:
            options = TableOptions(expect_sync=node is leaf)
            execute(add_table.plan(sites, node.dsn, QUEUE, ["t"], options).steps, sites)
    return root, leaf


def _command(pair: tuple[Node, Node], *more: str) -> str:
    """As it is printed."""
    source, target = (masked(node.dsn) for node in pair)
    return shlex.join(["londiste", "replicate", source, target, "--queue", QUEUE, *more])


def _file(path: Path, queue: str, *dsns: str) -> None:
    nodes = [f'[nodes.n{n}]\ndb = "{dsn}"\nrole = "root"\n' for n, dsn in enumerate(dsns)]
    nodes = [nodes[0], *(n.replace('"root"', '"leaf"\nprovider = "n0"') for n in nodes[1:])]
    path.write_text(f'[queue]\nname = "{queue}"\n' + "".join(nodes))


def test_a_settings_file_of_the_directory_counts_only_for_its_databases(
    new_database: Callable[..., Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second, third = (new_database(pgq=False) for _ in range(3))
    first.execute("create table t (id int primary key)")

    def steps(*words: str) -> str:
        assert run(cli, [*words, "--dry-run"]) == 0
        printed = capsys.readouterr()
        return printed.out + printed.err

    other, file = ["replicate", first.dsn, second.dsn], tmp_path / "londiste.toml"
    for text in (
        lambda: _file(file, "shop", first.dsn, third.dsn),
        lambda: file.write_text(f'[londiste]\ndb = "{third.dsn}"\nqueue_name = "shop"\n'),
    ):
        text()
        said = steps(*other)
        assert f"create root of queue {first.name}" in said
        assert "londiste.toml is about other databases: ignored" in said
        # Given, it counts.
        assert "create root of queue shop" in steps("-c", str(file), *other)
    _file(file, "shop", first.dsn, f"{second.dsn} application_name=x")
    said = steps(*other)
    assert "create root of queue shop" in said and "ignored" not in said
    file.write_text('[replicate]\nqueue_name = "shop"\n')
    assert "create root of queue shop" in steps(*other)


def test_status_and_remove_name_the_queue_that_connects_the_databases(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    call = ["replicate", root.dsn, leaf.dsn]
    capsys.readouterr()
    assert run(cli, [*call, "--status"]) == 0
    said = capsys.readouterr().err
    assert f"replicated by queue {QUEUE}: {_command(pair, '--status')}" in said
    assert "not replicated yet" not in said
    assert run(cli, [*call, "--remove"]) == 0
    said = capsys.readouterr().err
    assert "nothing to remove" in said and "independent" not in said
    assert f"still connected by queue {QUEUE}: {_command(pair, '--remove')}" in said
    assert run(cli, [*call, "--queue", QUEUE, "--remove"]) == 0
    assert "removed; the databases are independent" in capsys.readouterr().err


def test_a_table_of_another_queue_is_refused_before_the_first_step(
    pair: tuple[Node, Node], capsys: pytest.CaptureFixture[str]
) -> None:
    root, leaf = pair
    capsys.readouterr()
    call = ["replicate", root.dsn, leaf.dsn]
    assert run(cli, call) == 3
    said = capsys.readouterr().err
    assert f"table public.t of {leaf.db.name}@" in said
    assert f"is filled from queue {QUEUE} already" in said and "nothing was changed" in said
    assert f"hint: {_command(pair)}\n" in said
    assert root.db.value("select count(*) from pgq.queue") == 1
    # Other tables are.
    assert run(cli, [*call, "u", "--dry-run"]) == 0
    assert run(cli, [*call, "--queue", QUEUE, "--dry-run"]) == 0
    # A set-up that works goes on without it.
    replication = identify(ReplicateSettings(), root.dsn, [leaf.dsn])
    share = Share(replication, Selection(("u",)), (TableName("public", "u"),))
    setup.set_up([share], lambda step: None, pytest.fail)
    capsys.readouterr()
    assert run(cli, [*call, "--dry-run"]) == 0
    said = capsys.readouterr().err
    assert f"table public.t is not added: it is filled from queue {QUEUE} already" in said
    assert "exclude it: --exclude public.t" in said
    # Its workers have the strings of the command: who moves a node starts them with new ones.
    front = [f"--set=db={root.dsn}", f"--set=queue_name={replication.queue}"]
    for one in replication.all:
        assert run(cli, [*front, "move-node", one.name, one.location]) == 0
        words = shlex.split(capsys.readouterr().err.partition("for the same tables: ")[2])
        assert words[2:] == [*(side.location for side in replication.all), "--queue", root.db.name]


def test_a_new_address_of_a_provider_is_followed_by_commands_that_are_printed(
    pair: tuple[Node, Node],
    new_database: Callable[..., Database],
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, leaf = pair
    # The target reads from another node.
    assert run(cli, ["replicate", new_database(pgq=False).dsn, leaf.dsn, "--queue", QUEUE]) == 3
    words = shlex.split(capsys.readouterr().err.partition("hint: ")[2].partition(";")[0])
    given = [conninfo.conninfo_to_dict(one) for one in words[2:4]]
    assert given == [conninfo.conninfo_to_dict(node.dsn) for node in pair]
    assert [*words[:2], *words[4:]] == ["londiste", "replicate", "--queue", QUEUE]
    # It knows an address of before.
    gone = "host=127.0.0.1 port=1 dbname=gone"
    leaf.db.execute(
        "update pgq_node.node_location set node_location = %s where node_name = %s", gone, root.name
    )
    assert run(cli, ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE]) == 3
    words = shlex.split(capsys.readouterr().err.partition(" now: londiste ")[2].partition(";")[0])
    assert run(cli, words) == 0
    assert "with the old string" not in capsys.readouterr().err
    assert run(cli, ["replicate", root.dsn, leaf.dsn, "--queue", QUEUE, "--dry-run"]) == 0


def test_a_new_address_of_a_migrated_database_is_one_of_its_command(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (new_database(pgq=True).dsn for _ in range(2))
    for name, dsn, kind in (("old", old, NodeType.ROOT), ("new", new, NodeType.LEAF)):
        node = NewNode("migrate", kind, name, dsn, dsn, f"migrate_{name}")
        with Connections(name="tests") as sites:
            steps = create_root(sites, node) if dsn == old else create_leaf(sites, node, old)
            execute(steps, sites)
    moved = f"{new} connect_timeout=7"
    call = [f"--set=db={old}", "--set=queue_name=migrate", "move-node", "new", moved]
    assert run(cli, call) == 0
    words = shlex.split(capsys.readouterr().err.partition("for the same tables: ")[2])
    assert words == ["londiste", "migrate", "run", "--from", old, "--to", moved]


def test_the_place_that_the_environment_names_is_stored_and_printed(
    new_database: Callable[..., Database],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pair = [new_database(pgq=False) for _ in range(2)]
    places = [conninfo.conninfo_to_dict(one.dsn) for one in pair]
    short = [conninfo.make_conninfo(port=one["port"], dbname=one["dbname"]) for one in places]
    for key in ("host", "user"):
        monkeypatch.setenv(f"PG{key.upper()}", str(places[0][key]))
    capsys.readouterr()
    assert run(cli, ["replicate", *short, "--status"]) == 0
    words = shlex.split(capsys.readouterr().err.partition("start: ")[2])
    assert [conninfo.conninfo_to_dict(one) for one in words[2:4]] == places
    found = identify(ReplicateSettings(), words[2], words[3:4])
    assert [conninfo.conninfo_to_dict(one.location) for one in found.all] == places
    nodes = tomllib.loads(save.text(found, Selection()))["nodes"].values()
    assert [conninfo.conninfo_to_dict(one["db"]) for one in nodes] == places
