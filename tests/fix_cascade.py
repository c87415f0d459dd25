"""Real nodes for tests: databases, settings files, and the command line in this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade.commands import create_node
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.db.connection import Connection
from londiste.orchestration import steps as plan
from londiste.orchestration.steps import Sites
from londiste.replication.commands.registry_sync import CopyRegistry
from tests.fix_cluster import Database

QUEUE = "q"


@dataclass(frozen=True)
class Node:
    """A node of queue ``q``; its worker is named ``w_<name>``."""

    name: str
    db: Database

    @property
    def dsn(self) -> str:
        return self.db.dsn

    @property
    def worker(self) -> str:
        return f"w_{self.name}"

    def connect(self, **options: Any) -> Connection:
        return self.db.connect(**options)

    def tick(self) -> int:
        """A new tick on the root; its id."""
        self.db.execute("select pgq.force_tick(%s)", QUEUE)
        return int(self.db.value("select pgq.ticker(%s)", QUEUE))


class Nodes:
    """Makes nodes of queue ``q`` through the same plans as the commands."""

    def __init__(self, new_database: Callable[..., Database], sites: Sites) -> None:
        self._new_database = new_database
        self.sites = sites

    def new(self, name: str, kind: NodeType, db: Database | None = None) -> NewNode:
        """A description of a node in a database of its own."""
        db = db or self._new_database(pgq=True)
        return NewNode(QUEUE, kind, name, db.dsn, db.dsn, f"w_{name}")

    def root(self, name: str = "root") -> Node:
        db = self._new_database(pgq=True)
        node = self.new(name, NodeType.ROOT, db)
        plan.execute(create_node.create_root(self.sites, node), self.sites)
        return Node(name, db)

    def below(self, provider: Node, name: str, kind: NodeType = NodeType.LEAF) -> Node:
        db = self._new_database(pgq=True)
        node = self.new(name, kind, db)
        make = create_node.create_leaf if kind is NodeType.LEAF else create_node.create_branch
        steps = make(self.sites, node, provider.dsn)
        steps.append(CopyRegistry(name, provider.name, provider.dsn, db.dsn, QUEUE))
        plan.execute(steps, self.sites)
        return Node(name, db)


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs commands for a database, in this process, as the entry point does."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._home = home
        self._capsys = capsys

    def __call__(self, db: Database, *args: str, job: str = "") -> Answer:
        settings = self._home / f"{job or db.name}.toml"
        settings.write_text(
            f'[londiste]\ndb = "{db.dsn}"\nqueue_name = "{QUEUE}"\n'
            f'job_name = "{job or "w_" + db.name}"\n'
        )
        self._capsys.readouterr()
        code = run_command(cli, ["-c", str(settings), *args])
        printed = self._capsys.readouterr()
        return Answer(code, printed.out, printed.err)


@pytest.fixture
def nodes_of(new_database: Callable[..., Database]) -> Iterator[Nodes]:
    """``nodes_of.root()``, ``nodes_of.below(root, "leaf")``."""
    with Sites(name="tests") as sites:
        yield Nodes(new_database, sites)


@pytest.fixture
def londiste(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """``londiste(db, "status", "--json")`` -> Answer."""
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def three(nodes_of: Nodes) -> tuple[Node, Node, Node]:
    """root <- one, root <- two; both are branches, and all know each other."""
    root = nodes_of.root()
    one = nodes_of.below(root, "one", NodeType.BRANCH)
    two = nodes_of.below(root, "two", NodeType.BRANCH)
    one.db.execute("select pgq_node.register_location('q', 'two', %s, false)", two.dsn)
    return root, one, two


@contextlib.contextmanager
def silent(*nodes: Node) -> Iterator[None]:
    """Nobody gets into the databases of these nodes."""

    def let(node: Node, words: str) -> None:
        with psycopg.connect(node.db.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f'alter database "{node.db.name}" with allow_connections {words}')
            conn.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                [node.db.name],
            )

    for node in nodes:
        let(node, "false")
    try:
        yield
    finally:
        for node in nodes:
            let(node, "true")
