"""A root with subscribers in real databases, worked by real worker processes; ticks by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

from londiste.cascade.commands.create_node import NewNode, create_branch, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.orchestration.steps import Sites, execute
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from tests.fix_cascade import Answer
from tests.fix_cluster import Database
from tests.scenarios.processes import Done, Process, Processes
from tests.waiting import wait_for

QUEUE = "line"

#: ``command(node, "tables")`` -> Answer.
Command: TypeAlias = Callable[..., Answer]


@dataclass
class LineNode:
    """One node; ``worker`` is the newest process of its worker."""

    name: str
    database: Database
    config: Path
    worker: Process | None = None


@dataclass
class Line:
    """Nodes and processes of one test."""

    directory: Path
    make_database: Callable[..., Database]
    processes: Processes
    nodes: dict[str, LineNode] = field(default_factory=dict)

    def node(
        self,
        name: str,
        kind: NodeType,
        provider: LineNode | None = None,
        *,
        schema: str = "",
        on: Any = None,
        **keys: Any,
    ) -> LineNode:
        """Makes a node with the user's tables of ``schema``."""
        database = self.make_database(on=on, pgq=True)
        if schema:
            database.execute(schema)
        new = NewNode(QUEUE, kind, name, database.dsn, database.dsn, f"{name}_worker")
        with Sites(name="test") as sites:
            if provider is None:
                steps = create_root(sites, new)
            elif kind is NodeType.BRANCH:
                steps = create_branch(sites, new, provider.database.dsn)
            else:
                steps = create_leaf(sites, new, provider.database.dsn)
            execute(steps, sites)
        node = LineNode(name, database, self.directory / f"{name}.toml")
        self.nodes[name] = node
        self.configure(node, **keys)
        return node

    def configure(self, node: LineNode, **keys: Any) -> None:
        """Writes the node's settings file."""
        values = {
            "db": node.database.dsn,
            "queue_name": QUEUE,
            "job_name": f"{node.name}_worker",
            "engine": "local",
            "loop_delay": 0.1,
            "exception_sleep": 0.3,
            **keys,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        node.config.write_text("[londiste]\n" + "\n".join(lines) + "\n")
        node.config.chmod(0o600)

    def add(self, node: LineNode, *tables: str, **options: Any) -> None:
        """Replicates tables on a node; below the root without a copy unless asked for."""
        options.setdefault("expect_sync", node is not self.nodes["root"])
        with Sites(name="test") as sites:
            chosen = add_table.plan(
                sites, node.database.dsn, QUEUE, tables, TableOptions(**options)
            )
            execute(chosen.steps, sites)

    def tick(self, node: LineNode | None = None) -> int:
        """Makes a tick on the root."""
        database = (node or self.nodes["root"]).database
        database.execute("select pgq.force_tick(%s)", QUEUE)
        return int(database.value("select pgq.ticker(%s)", QUEUE))

    def position(self, node: LineNode) -> int:
        """The tick that the node's worker has completed."""
        return int(
            node.database.value(
                "select last_tick_id from pgq_node.local_state where consumer_name = %s",
                f"{node.name}_worker",
            )
        )

    def start(self, node: LineNode, **env: str) -> Process:
        """Starts the node's worker."""
        node.worker = self.processes.start(
            f"{node.name}_worker", self._argv(node, "worker"), {"LONDISTE_TRACEBACK": "1", **env}
        )
        return node.worker

    def run(self, node: LineNode, *args: str, env: Mapping[str, str] | None = None) -> Done:
        """Runs a command of the program for a node."""
        return self.processes.run(self._argv(node, *args), env, seconds=60)

    def _argv(self, node: LineNode, *args: str) -> list[str]:
        return [sys.executable, "-m", "londiste", "-c", str(node.config), *args]

    def once(self, node: LineNode) -> None:
        """Lets the node's worker take all there is."""
        done = self.run(node, "worker", "--once")
        assert done.code == 0, str(done)

    def error(self, node: LineNode) -> str | None:
        """What is stored as the worker's last error."""
        text = node.database.value(
            "select cur_error from pgq_node.local_state where consumer_name = %s",
            f"{node.name}_worker",
        )
        return None if text is None else str(text)

    def wait_position(self, node: LineNode, tick: int, seconds: float = 30.0) -> None:
        """Waits until the node's worker has completed a tick."""

        def reached() -> bool:
            try:
                return self.position(node) >= tick
            except psycopg.OperationalError:
                return False

        self.wait(reached, f"tick {tick} on {node.name}", seconds)

    def wait(self, predicate: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
        """``wait_for``, with the ends of all logs in its message."""
        try:
            return wait_for(predicate, timeout=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.processes.report()}") from None


@pytest.fixture
def line(tmp_path: Path, new_database: Callable[..., Database]) -> Iterator[Line]:
    """Nodes and processes of one test; no process survives it."""
    made = Line(tmp_path, new_database, Processes(tmp_path))
    yield made
    assert not made.processes.close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """``command(node, "tables")`` in this process, which takes a fraction of the time."""

    def run(node: LineNode, *args: str) -> Answer:
        capsys.readouterr()
        code = run_command(cli, ["-c", str(node.config), *args])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return run
