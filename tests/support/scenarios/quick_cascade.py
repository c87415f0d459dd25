"""A cascade that is set back to its beginning in a moment, for tests that interrupt many times.

The databases of the nodes are saved once, while nothing runs, and copied from there each time;
commands, workers and the ticker are forked, which takes a few milliseconds.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from londiste.cascade.commands.create_node import NewNode, create_branch, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from tests.fixtures.cluster import Database, Server, create_database
from tests.support.programs import reporting_consumer as reports
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.harness import QUEUE, quoted
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for

SCHEMA = "create table public.written (node text, n bigint, at text, primary key (node, n))"
TABLE = "public.written"


@dataclass
class QuickNode:
    """One node; ``worker`` is the newest process of its worker."""

    name: str
    database: Database
    config: Path
    kind: NodeType
    provider: str | None
    worker: Fork | None = None


@dataclass
class QuickCascade:
    """The nodes and processes of one test."""

    directory: Path
    nodes: dict[str, QuickNode] = field(default_factory=dict)
    ticker: Fork | None = None
    reports: Fork | None = None
    saved: bool = False
    #: What the databases hold, and which of it is replicated.
    schema: str = SCHEMA
    tables: tuple[str, ...] = (TABLE,)
    #: Environment of the workers.
    workers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.processes = Processes(self.directory, {"LONDISTE_TRACEBACK": "1"})
        self.forks = Forks(self.processes)

    # -- nodes ----------------------------------------------------------------------------

    def node(self, name: str, kind: NodeType, server: Server, provider: str | None = None) -> None:
        """Makes a node with the table, empty and in step."""
        self.make(name, kind, create_database(server, pgq=True), provider)

    def make(
        self,
        name: str,
        kind: NodeType,
        database: Database,
        provider: str | None,
        location: str | None = None,
    ) -> None:
        """The same in a database that is there; ``location``: how others reach it."""
        database.execute(self.schema)
        location = location or database.dsn
        new = NewNode(QUEUE, kind, name, database.dsn, location, f"{name}_worker")
        with Connections(name="test") as sites:
            if provider is None:
                steps = create_root(sites, new)
            else:
                create = create_branch if kind is NodeType.BRANCH else create_leaf
                steps = create(sites, new, self.nodes[provider].database.dsn)
            execute(steps, sites)
            options = TableOptions(expect_sync=kind is not NodeType.ROOT)
            execute(add_table.plan(sites, database.dsn, QUEUE, self.tables, options).steps, sites)
        config = self.directory / f"{name}.toml"
        keys = {
            "db": quoted(database.dsn),
            "queue_name": quoted(QUEUE),
            "job_name": quoted(f"{name}_worker"),
            "engine": quoted("local"),
            "poll_interval": "0.1",
            "max_retry_delay": "0.3",
            "local_wm_publish_period": "1",
            "global_wm_publish_period": "1",
        }
        lines = [f"{key} = {value}" for key, value in keys.items()]
        config.write_text("[londiste]\n" + "\n".join(lines) + "\n", encoding="utf-8")
        config.chmod(0o600)
        self.nodes[name] = QuickNode(name, database, config, kind, provider)

    def servers(self) -> list[Server]:
        """The servers, each once."""
        found: list[Server] = []
        for node in self.nodes.values():
            if node.database.cluster not in found:
                found.append(node.database.cluster)
        return found

    # -- processes ------------------------------------------------------------------------

    def londiste(self, name: str, *args: str, seconds: float = 120.0, **env: str) -> Fork:
        """Runs a command with a node's settings to its end, whatever that is."""
        return self.forks.run(self.nodes[name].config, *args, seconds=seconds, **env)

    def do(self, name: str, *args: str, seconds: float = 120.0, **env: str) -> Fork:
        """The same; AssertionError when it fails."""
        fork = self.londiste(name, *args, seconds=seconds, **env)
        assert fork.code() == 0, f"{fork}\n{self.report()}"
        return fork

    def start_worker(self, name: str) -> None:
        """Starts a node's worker."""
        node = self.nodes[name]
        node.worker = self.forks.start(node.config, "worker", **self.workers)

    def start_ticker(self) -> None:
        """One ticker for all databases."""
        config = self.directory / "ticker.toml"
        dsns = ", ".join(quoted(n.database.dsn) for n in self.nodes.values())
        config.write_text(
            f"[ticker]\ndatabases = [{dsns}]\nticker_period = 0.1\nexception_sleep = 0.3\n"
        )
        config.chmod(0o600)
        self.ticker = self.forks.start(config, "ticker")

    def start(self) -> None:
        """Ticker and workers."""
        self.start_ticker()
        for name in self.nodes:
            self.start_worker(name)

    def start_reports(self, name: str, *, register: bool = False) -> None:
        """Starts the consumer of a user at a node, or another one in the place of the first."""
        node = self.nodes[name]
        config = self.directory / "reports.toml"
        if register:
            node.database.execute(reports.SCHEMA)
            config.write_text(
                f"[londiste]\ndb = {quoted(node.database.dsn)}\nqueue_name = {quoted(QUEUE)}\n"
                'job_name = "reports"\nloop_delay = 0.1\nexception_sleep = 0.3\n'
            )
            config.chmod(0o600)
            fork = self.forks.run(config, "--register", program=reports.__name__)
            assert fork.code() == 0, str(fork)
        if self.reports is not None:
            self.reports.kill()
        self.reports = self.forks.start(config, program=reports.__name__)

    def kill_worker(self, name: str) -> None:
        """kill -9, and a new one."""
        self.stop_worker(name)
        self.start_worker(name)

    def stop_worker(self, name: str) -> None:
        """kill -9."""
        worker = self.nodes[name].worker
        assert worker is not None
        worker.kill()

    def report(self) -> str:
        """The ends of all logs."""
        return self.processes.report()

    def close(self) -> None:
        """Ends everything."""
        for fork in self._forks():
            fork.send(signal.SIGKILL)
        self.forks.close()
        self.processes.close()
        for node in self.nodes.values():
            with contextlib.suppress(psycopg.OperationalError):
                node.database.drop()
                node.database.cluster.drop_database(_saved(node))

    # -- back to the beginning ------------------------------------------------------------

    def save(self) -> None:
        """Remembers the databases once every node knows all others.  No process may run yet.

        So the steps of a command are the same each time: none of them depends on what has come
        through the queue meanwhile.
        """
        self.start()
        self.converge()
        for node in self.nodes.values():
            self.wait(
                lambda node=node: self.look(node, _KNOWN) == len(self.nodes),
                f"the locations of all nodes on {node.name}",
            )
        self._stop()
        for node in self.nodes.values():
            self.wait(
                lambda node=node: self.look(node, SESSIONS) == 0,
                f"the end of the sessions on {node.name}",
            )
            node.database.clone(_saved(node))
        self.saved = True

    def _stop(self) -> None:
        for fork in self._forks():
            fork.kill()
        self.reports = None

    def _forks(self) -> list[Fork]:
        workers = [node.worker for node in self.nodes.values()]
        return [fork for fork in (*workers, self.ticker, self.reports) if fork is not None]

    def restore(self) -> None:
        """Sets the databases back and starts ticker and workers anew."""
        self._stop()
        # What a test says when it fails is of its last attempt.
        for path in self.directory.glob("fork*"):
            path.unlink()
        for server in self.servers():
            server.up()
        for node in self.nodes.values():
            cluster, name = node.database.cluster, node.database.name
            cluster.drop_database(name)
            cluster.create_database(name, template=_saved(node))
        self.start()

    # -- what is true ---------------------------------------------------------------------

    def root(self) -> QuickNode:
        """The only root of those that answer."""
        (root,) = [n for n in self.live() if self.look(n, _TYPE) == "root"]
        return root

    def live(self) -> list[QuickNode]:
        """The nodes whose servers run and that are nodes."""
        return [
            n
            for n in self.nodes.values()
            if n.database.cluster.running() and self.look(n, _TYPE) is not None
        ]

    def look(self, node: QuickNode, statement: str) -> Any:
        """One value from a node's database."""
        return node.database.value(statement)

    def converge(self, seconds: float = 180.0) -> None:
        """Waits until every node that answers has what the root has."""
        root = self.root()
        root.database.execute(f"select pgq.force_tick('{QUEUE}')")
        tick = int(root.database.value(f"select pgq.ticker('{QUEUE}')") or 0)
        tick = max(tick, int(self.look(root, "select max(tick_id) from pgq.tick")))
        for node in self.live():
            self.wait(
                lambda node=node: (self.look(node, _POSITION) or 0) >= tick,
                f"tick {tick} on {node.name}",
                seconds,
            )

    def ahead(self, name: str, other: str, ticks: int = 3) -> None:
        """Waits until a node has some ticks more than another one."""
        one, behind = self.nodes[name], self.nodes[other]
        self.wait(
            lambda: self.look(one, _POSITION) >= self.look(behind, _POSITION) + ticks,
            f"{name} ahead of {other}",
        )

    def wait(self, predicate: Any, what: str, seconds: float = 60.0) -> Any:
        """``wait_for``, with the ends of all logs in its message."""
        try:
            return wait_for(predicate, timeout=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def digest(self) -> dict[str, Any]:
        """Who reads from whom, and whatever a change of the cascade leaves behind, per node."""
        found: dict[str, Any] = {}
        for node in self.nodes.values():
            if not node.database.cluster.running():
                found[node.name] = "down"
                continue
            found[node.name] = [row for part in DIGEST for row in node.database.execute(part)]
        return found


_TYPE = "select node_type from pgq_node.node_info"
_KNOWN = "select count(*) from pgq_node.node_location"
SESSIONS = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)
_POSITION = (
    "select s.last_tick_id from pgq_node.local_state s join pgq_node.node_info n"
    " on n.queue_name = s.queue_name and n.worker_name = s.consumer_name"
    " where n.node_type <> 'root' union all select max(tick_id) from pgq.tick t"
    " where exists (select from pgq_node.node_info where node_type = 'root')"
)
DIGEST = (
    "select 'node', node_type, node_name, worker_name from pgq_node.node_info",
    "select 'reads', consumer_name, provider_node, paused, uptodate, cur_error"
    " from pgq_node.local_state order by 2",
    "select 'knows', node_name, dead, node_location from pgq_node.node_location order by 2",
    "select 'gives', subscriber_node, worker_name, watermark_name"
    " from pgq_node.subscriber_info order by 2",
    "select 'consumer', co_name from pgq.consumer c"
    " where exists (select from pgq.subscription s where s.sub_consumer = c.co_id) order by 2",
    "select 'queue', queue_disable_insert, queue_external_ticker from pgq.queue",
    # Where the queue is open, maintenance removes what was in use.
    "select 'closed', count(*)::text from pg_trigger where tgname = 'pgq_node_closed'"
    " and exists (select from pgq.queue where queue_disable_insert)",
    "select 'under way', operation, node_name, new_node from pgq_node.operation",
)


def _saved(node: QuickNode) -> str:
    return f"{node.database.name}_saved"


@contextlib.contextmanager
def running(cascade: QuickCascade) -> Iterator[QuickCascade]:
    """Closes it at the end."""
    try:
        yield cascade
    finally:
        cascade.close()
