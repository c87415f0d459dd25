"""A cascade on real servers, driven by the commands a user types.

    cascade.root()                       # database, settings, install, create-root
    cascade.leaf(provider=root)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    cascade.add_tables("public.a", "public.b")
    cascade.wait_sync(leaf)
    assert cascade.compare(leaf)["equal"]

Every process is the program itself (``python -m londiste -c FILE …``) with a settings file
in the directory of the test.  ``crash=`` arms a crash point in one process: it kills itself
there once, and leaves a file that says so.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.cluster import Database, Server
from tests.support.scenarios.processes import Done, Process, Processes
from tests.support.waiting import wait_for

QUEUE = "scenario"


@dataclass
class Node:
    """A database that is, or shall become, a node."""

    name: str
    database: Database
    config: Path
    worker: Process | None = None
    workers_started: int = 0


@dataclass
class Cascade:
    """The nodes and processes of one test."""

    directory: Path
    make_database: Callable[..., Database]
    engine: str = "local"
    settings: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    ticker: Process | None = None

    def __post_init__(self) -> None:
        self.processes = Processes(self.directory, {"LONDISTE_TRACEBACK": "1"})

    # -- nodes -------------------------------------------------------------

    def node(
        self, name: str, *, on: Server | None = None, schema: str = "", installed: bool = False
    ) -> Node:
        """A database with a settings file.

        schema -- statements that make the user's tables.
        installed -- our SQL is in it already, cloned with the database: no process is needed.
        """
        database = self.make_database(on=on, pgq=installed)
        if schema:
            database.execute(schema)
        node = Node(name, database, self.directory / f"{name}.toml")
        self.write_settings(node, database.dsn)
        self.nodes[name] = node
        return node

    def write_settings(self, node: Node, dsn: str, **more: str) -> None:
        """The settings file of a node; ``more`` are further keys, values as TOML."""
        keys = {
            "db": quoted(dsn),
            "queue_name": quoted(QUEUE),
            "job_name": quoted(f"{node.name}_worker"),
            "engine": quoted(self.engine),
            "poll_interval": "0.1",
            "max_retry_delay": "0.5",
            "parallel_copies": "2",
            # Where Spark is asked for, small tables shall be copied by it too.
            "spark_min_bytes": "0",
            "local_wm_publish_period": "1",
            "global_wm_publish_period": "1",
            **self.settings,
            **more,
        }
        lines = [f"{key} = {value}" for key, value in keys.items()]
        node.config.write_text("[londiste]\n" + "\n".join(lines) + "\n", encoding="utf-8")
        node.config.chmod(0o600)

    def root(self, name: str = "root", *, on: Server | None = None, schema: str = "") -> Node:
        """A database that is the root of the queue."""
        node = self.node(name, on=on, schema=schema, installed=True)
        self.londiste(node, "create-root", name, node.database.dsn)
        return node

    def leaf(
        self, name: str = "leaf", *, provider: Node, on: Server | None = None, schema: str = ""
    ) -> Node:
        """A database that applies what the provider has."""
        return self._subscriber("create-leaf", name, provider, on, schema)

    def branch(
        self, name: str = "branch", *, provider: Node, on: Server | None = None, schema: str = ""
    ) -> Node:
        """A database that applies, and passes on."""
        return self._subscriber("create-branch", name, provider, on, schema)

    def _subscriber(
        self, command: str, name: str, provider: Node, on: Server | None, schema: str
    ) -> Node:
        node = self.node(name, on=on, schema=schema, installed=True)
        self.londiste(node, command, name, node.database.dsn, "--provider", provider.database.dsn)
        return node

    # -- processes ---------------------------------------------------------

    def command(self, config: Path | None, *args: str) -> list[str]:
        """The command line of the program."""
        return [sys.executable, "-m", "londiste", *(["-c", str(config)] if config else []), *args]

    def londiste(
        self,
        node: Node | Path | None,
        *args: str,
        accept: Sequence[int] | None = (0,),
        seconds: float = 120.0,
        **env: str,
    ) -> Done:
        """Runs a command; AssertionError when its exit code is not in ``accept`` (None: any)."""
        config = node.config if isinstance(node, Node) else node
        done = self.processes.run(self.command(config, *args), env, seconds=seconds)
        if accept is not None and done.code not in accept:
            raise AssertionError(f"{done}\n{self.processes.report()}")
        return done

    def start_ticker(
        self, *nodes: Node, crash: str = "", rotate: bool = True, **keys: str
    ) -> Process:
        """One ticker for the databases of all nodes, or of these.

        rotate -- event tables are rotated every two seconds, so that copies, crashes and long
        transactions meet rotations.
        """
        if rotate:
            for node in nodes or self.nodes.values():
                node.database.execute("update pgq.queue set queue_rotation_period = '2 seconds'")
            keys = {"maint_period": "0.5", **keys}
        config = self.directory / "ticker.toml"
        dsns = ", ".join(quoted(n.database.dsn) for n in nodes or self.nodes.values())
        wanted = {"ticker_period": "0.1", "max_retry_delay": "0.5", **keys}
        lines = [f"{key} = {value}" for key, value in wanted.items()]
        config.write_text(f"[ticker]\ndatabases = [{dsns}]\n" + "\n".join(lines) + "\n")
        config.chmod(0o600)
        self.ticker = self.processes.start(
            "ticker", self.command(config, "ticker"), self._crash_environment("ticker", crash)
        )
        return self.ticker

    def start_worker(self, node: Node, *, crash: str = "") -> Process:
        """The worker of a node; with ``crash`` it (or its copy process) dies there, once."""
        name = f"{node.name}_worker"
        node.worker = self.processes.start(
            name, self.command(node.config, "worker"), self._crash_environment(name, crash)
        )
        node.workers_started += 1
        return node.worker

    def _crash_environment(self, name: str, crash: str) -> dict[str, str]:
        if not crash:
            return {}
        return {"LONDISTE_CRASH": crash, "LONDISTE_CRASH_MARK": str(self._crash_mark(name, crash))}

    def _crash_mark(self, name: str, crash: str) -> Path:
        """The file that exists as soon as the process of this name has died at this point."""
        return self.directory / f"crashed.{name}.{crash.replace(':', '.')}"

    def wait_crash(self, process: Process | None, crash: str, seconds: float = 60.0) -> None:
        """Waits until a process, or a copy that it started, has killed itself at the point."""
        assert process is not None
        mark = self._crash_mark(process.name, crash)
        self.wait(mark.exists, f"a crash of {process.name} at {crash}", seconds)

    def stop(self, process: Process | None) -> None:
        """Stops a daemon politely; it must end with 0."""
        assert process is not None
        code = process.stop()
        assert code == 0, f"{process.name} ended with {code}:\n{self.processes.report()}"

    # -- tables ------------------------------------------------------------

    def add_tables(self, *args: str, nodes: Sequence[Node] | None = None) -> None:
        """``add-table`` on all nodes, from the root downwards."""
        for node in nodes or list(self.nodes.values()):
            self.londiste(node, "add-table", *args)

    def tables(self, node: Node) -> list[dict[str, Any]]:
        """What ``tables --json`` says."""
        answer = json.loads(self.londiste(node, "tables", "--json").out)["tables"]
        assert isinstance(answer, list)
        return answer

    def states(self, node: Node) -> dict[str, str | None]:
        """The states of the local tables, read from the catalog (no process is started)."""
        return dict(
            node.database.execute(
                "select table_name, merge_state from londiste.table_info"
                " where queue_name = %s and local",
                QUEUE,
            )
        )

    def wait_state(self, node: Node, table: str, *states: str, seconds: float = 60.0) -> str:
        """Waits until a table is in one of these states (text up to the colon)."""

        def reached() -> str | None:
            state = self.states(node).get(table)
            return state if state and state.partition(":")[0] in states else None

        found = self.wait(reached, f"{table} in {' or '.join(states)}", seconds)
        return str(found)

    def wait_sync(self, node: Node, seconds: float = 300.0) -> None:
        """``wait-sync``: every table of the node is ok.  A busy machine starts Spark in 40 s."""
        self.londiste(node, "wait-sync", seconds=seconds)

    def wait_root(self, node: Node, seconds: float = 120.0) -> None:
        """``wait-root``: the node has everything the root has now."""
        self.londiste(node, "wait-root", seconds=seconds)

    def compare(self, node: Node, *args: str, seconds: float = 120.0) -> dict[str, Any]:
        """What ``compare --json`` says."""
        done = self.londiste(node, "compare", "--json", *args, accept=(0, 3), seconds=seconds)
        answer = json.loads(done.out)
        assert isinstance(answer, dict)
        assert (done.code == 0) == answer["equal"], str(done)
        return answer

    def completed_tick(self, node: Node) -> int:
        """The last tick that the node's worker has finished."""
        tick = node.database.value(
            "select s.last_tick_id from pgq_node.local_state s join pgq_node.node_info n"
            " on n.queue_name = s.queue_name and n.worker_name = s.consumer_name"
            " where s.queue_name = %s",
            QUEUE,
        )
        return int(tick or 0)

    def wait_progress(self, node: Node, batches: int = 2, seconds: float = 60.0) -> None:
        """Waits until the node's worker has moved on."""
        before = self.completed_tick(node)
        self.wait(
            lambda: self.completed_tick(node) >= before + batches,
            f"{batches} more ticks than {before} on {node.name}",
            seconds,
        )

    def assert_spark_copied(self) -> None:
        """The engine Spark was asked for, and it has really started."""
        assert "starting Spark" in self.processes.everything_said()

    # -- the end -----------------------------------------------------------

    def wait(self, predicate: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        """``wait_for``, with the ends of all logs in its message."""
        try:
            return wait_for(predicate, timeout=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.processes.report()}") from None

    def close(self) -> None:
        """Ends all processes; AssertionError when one of them left a descendant."""
        left = self.processes.close()
        assert not left, f"processes left behind: {left}"


def quoted(value: str) -> str:
    """A TOML string."""
    return json.dumps(value, ensure_ascii=False)


def shared_file(name: str) -> Path | None:
    """A data file beside the repository, if it is there."""
    path = Path(os.path.realpath(__file__)).parents[4] / "shared" / "data" / name
    return path if path.exists() else None
