"""Two sources merged into one database with a standby: leaves and a combined queue.

one, two      roots of the queues "one" and "two"
first         a leaf of each, which merges into queue "all"; root of that
second        the same, waiting behind; branch of "all"
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from londiste.cascade.commands.create_node import NewNode, create_branch, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from tests.fixtures.cluster import Database, Server
from tests.support.scenarios import oracles
from tests.support.scenarios.processes import Done, Process, Processes
from tests.support.servers.kept_nodes import Kept, kept_nodes
from tests.support.waiting import wait_for

SCHEMA = """
create table t (part text, id int, v text, primary key (part, id));
create table log (part text, n bigint, primary key (part, n));
"""
PARTS = ("one", "two")
TABLES = ("public.t", "public.log")
ALL = "all"


@dataclass
class Place:
    """A database, by its name in the cascade."""

    name: str
    database: Database


class Combined:
    """The databases, settings files and processes of one test.

    The settings of queue q at a place have the name ``q@place``.
    """

    def __init__(
        self,
        directory: Path,
        make_database: Callable[..., Database],
        *,
        servers: dict[str, Server] | None = None,
        rows: int = 200,
        begun: bool = True,
    ) -> None:
        self.directory = directory
        self.make_database = make_database
        self.cluster: Server | None = None
        self.kept = Kept()
        self.nodes: dict[str, Place] = {}
        self.own: list[Database] = []
        self.processes = Processes(directory, {"LONDISTE_TRACEBACK": "1"})
        self.workers: dict[str, Process] = {}
        self.at: dict[str, Database] = {}
        #: Queues and places of the settings files.
        self.configured: list[tuple[str, str]] = []
        if begun:
            self.begin(servers or {}, rows)

    def begin(self, servers: dict[str, Server], rows: int) -> None:
        """Makes the databases, the roots and the branch."""
        for place in (*PARTS, "first", "second"):
            database = self.make_database(on=servers.get(place), pgq=True)
            database.execute(SCHEMA)
            self.resumed(Place(place, database), database)
        for part in PARTS:
            self.at[part].execute(
                "insert into t select %s, i, 'old' from generate_series(1, %s) i", part, rows
            )
            self._make(part, part, create_root)
        self._make(ALL, "first", create_root)
        self._make(ALL, "second", create_branch, self.at["first"].dsn)

    def resumed(self, node: Place, database: Database) -> Place:
        """The place of a test before, which is this database now."""
        self.at[node.name] = database
        self.nodes[node.name] = Place(node.name, database)
        return self.nodes[node.name]

    def leave(self) -> None:
        """Nobody is left in the databases."""

    def merge(self, place: str, *parts: str) -> None:
        """Makes the leaves of a place, all if none are named."""
        for part in parts or PARTS:
            self._make(part, place, create_leaf, self.at[part].dsn, combined=ALL)

    def _make(
        self, queue: str, place: str, make: Any, *provider: str, combined: str | None = None
    ) -> None:
        kinds = {create_root: NodeType.ROOT, create_branch: NodeType.BRANCH}
        dsn = self.at[place].dsn
        worker = f"{queue}_{place}"
        new = NewNode(queue, kinds.get(make, NodeType.LEAF), place, dsn, dsn, worker, combined)
        with Connections(name="test") as sites:
            execute(make(sites, new, *provider), sites)
            if kinds.get(make) is NodeType.ROOT:
                # So busy sources make no more batches than this many workers can do at a time.
                self.at[place].execute(
                    "select pgq.set_queue_config(%s, 'ticker_max_lag', '100 milliseconds')", queue
                )
        self.configure(queue, place)

    def configure(self, queue: str, place: str) -> Path:
        """Writes the settings of a node."""
        self.configured.append((queue, place))
        keys = {
            "db": self.at[place].dsn,
            "queue_name": queue,
            "job_name": f"{queue}_{place}",
            "engine": "local",
            "poll_interval": 0.1,
            "max_retry_delay": 0.5,
            "local_wm_publish_period": 1,
            "global_wm_publish_period": 1,
        }
        path = self.config(f"{queue}@{place}")
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        path.write_text("[londiste]\n" + "\n".join(lines) + "\n")
        path.chmod(0o600)
        return path

    def config(self, node: str) -> Path:
        return self.directory / f"{node}.toml"

    # -- programs --------------------------------------------------------------------------

    def run(self, node: str, *args: str, accept: tuple[int, ...] = (0,)) -> Done:
        """A command, in a process of its own."""
        done = self.processes.run(self._argv(node, *args))
        assert done.code in accept, f"{done}\n{self.processes.report()}"
        return done

    def background(self, node: str, *args: str) -> Process:
        """A command that is not waited for."""
        return self.processes.start(f"{node} {args[0]}", self._argv(node, *args))

    def here(self, node: str, *args: str) -> None:
        """A command that must succeed, in this process: a fraction of the time."""
        code = run_command(cli, ["-c", str(self.config(node)), *args])
        assert code == 0, (node, args, self.processes.report())

    def start(self, *names: str, **env: str) -> dict[str, Process]:
        """Starts workers, all if none are named."""
        everyone = [f"{q}@{p}" for p in ("first", "second") for q in (*PARTS, ALL)]
        for name in names or everyone:
            self.workers[name] = self.processes.start(name, self._argv(name, "worker"), env)
        return self.workers

    def stop(self, name: str) -> int:
        return self.workers[name].stop()

    def start_ticker(self) -> None:
        dsns = ", ".join(json.dumps(database.dsn) for database in self.at.values())
        path = self.directory / "ticker.toml"
        path.write_text(
            f"[ticker]\ndatabases = [{dsns}]\nticker_period = 0.1\nexception_sleep = 0.5\n"
        )
        path.chmod(0o600)
        argv = [sys.executable, "-m", "londiste", "-c", str(path), "ticker"]
        self.processes.start("ticker", argv)

    def _argv(self, node: str, *args: str) -> list[str]:
        return [sys.executable, "-m", "londiste", "-c", str(self.config(node)), *args]

    # -- what is there ---------------------------------------------------------------------

    def add_tables_at(self, place: str) -> None:
        """On the sources, and on the leaves of a place as if the rows were there."""
        for part in PARTS:
            self.here(f"{part}@{part}", "add-table", *TABLES)
        for part in PARTS:
            self.here(f"{part}@{place}", "add-table", *TABLES, "--expect-sync")

    def add_tables(self, *tables: str) -> None:
        """Adds tables on the sources, then where they merge, then on the stand-by."""
        for part in PARTS:
            self.here(f"{part}@{part}", "add-table", *(tables or TABLES))
            # The leaves learn it from their own queue or, as here, from who asks.
            for place in ("first", "second"):
                for table in tables or TABLES:
                    self.at[place].execute("select londiste.global_add_table(%s, %s)", part, table)
        self.here("one@first", "add-table", *(tables or TABLES), "--merge-all")
        self.here(f"{ALL}@second", "add-table", *(tables or TABLES))
        for part in PARTS:
            self.here(f"{part}@second", "add-table", *(tables or TABLES))

    def states(self, place: str) -> set[object]:
        query = "select t.merge_state from londiste.table_info i, londiste.get_tables(i.queue_name,"
        query += " array[i.table_name]) t where i.local"
        return {state for (state,) in self.at[place].execute(query)}

    def wait_sync(self, seconds: float = 90.0) -> None:
        self.wait(
            lambda: self.states("first") == {"ok"} == self.states("second"),
            "all tables ok",
            seconds,
        )

    def position(self, part: str, place: str) -> int:
        query = "select worker_last_tick from pgq_node.get_node_info(%s)"
        return int(self.at[place].value(query, part))

    def kind(self, place: str) -> object:
        return self.at[place].value("select node_type from pgq_node.get_node_info(%s)", ALL)

    def error(self, queue: str, place: str) -> str:
        query = "select cur_error from pgq_node.local_state where queue_name = %s"
        return str(
            self.at[place].value(query + " and consumer_name = %s", queue, f"{queue}_{place}")
        )

    def wait_even(self, *places: str, seconds: float = 60.0) -> None:
        """Until these places, both if none is named, have what the sources have now."""
        ticks = {}
        for part in PARTS:
            # The ticker makes the one behind it.
            ticks[part] = int(self.at[part].value("select pgq.force_tick(%s)", part)) + 1
        self.wait(
            lambda: all(
                self.position(part, place) >= tick
                for part, tick in ticks.items()
                for place in places or ("first", "second")
            ),
            f"ticks {ticks}",
            seconds,
        )

    def assert_equal(self) -> None:
        """Each source's rows are at both places, and no others."""
        self.wait_even()
        oracles.assert_same_rows(self.at["first"], self.at["second"], TABLES)
        self.assert_complete("first")

    def compare(self) -> None:
        """The program finds the stand-by equal to the root, and there each part to its source.

        Sources may write meanwhile.
        """
        root, branch = ("first", "second") if self.kind("first") == "root" else ("second", "first")
        asked: list[tuple[str, ...]] = [(f"{ALL}@{branch}",)]
        asked += [(f"{p}@{root}", *TABLES, "--where", f"part = '{p}'") for p in PARTS]
        for node, *args in asked:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                argv = ["-c", str(self.config(node)), "compare", *args, "--json"]
                code = run_command(cli, argv)
            assert code == 0, (node, out.getvalue(), self.processes.report())
            found = json.loads(out.getvalue())
            assert found["equal"], (node, found)
            rows = {table["table"]: table["rows_root"] for table in found["tables"]}
            assert set(rows) == set(TABLES) and all(rows.values()), (node, rows)

    def assert_complete(self, place: str) -> None:
        """A place has the rows of all sources, and no others."""
        for table in TABLES:
            wanted = sum((oracles.rows(self.at[part], table) for part in PARTS), Counter())
            assert oracles.rows(self.at[place], table) == wanted, f"{table} at {place}"

    def wait(self, predicate: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        try:
            return wait_for(predicate, timeout=seconds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.processes.report()}") from None

    def close(self) -> None:
        left = self.processes.close()
        assert not left, f"processes left behind: {left}"


class Source:
    """Writes at a source: numbers one after the other, and changes of the rows that were there."""

    def __init__(self, part: str, database: Database, rows: int = 200) -> None:
        self.part = part
        self.written = 0
        self._database = database
        self._rows = rows
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Source:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def wait(self, count: int, seconds: float = 60.0) -> None:
        """Until so many more are written."""
        target = self.written + count
        wait_for(
            lambda: self.written >= target or self._error, timeout=seconds, what=f"{count} numbers"
        )
        assert self._error is None, self._error

    def stop(self) -> int:
        self.__exit__()
        assert self._error is None, self._error
        return self.written

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                # Its server may be one that the test ends.
                with contextlib.suppress(psycopg.OperationalError):
                    self._write()
                self._stop.wait(0.1)
        except BaseException as error:
            self._error = error

    def _write(self) -> None:
        with psycopg.connect(self._database.dsn, autocommit=True) as conn:
            last = "select coalesce(max(n), 0) from log where part = %s"
            (self.written,) = conn.execute(last, [self.part]).fetchone() or (0,)
            while not self._stop.is_set():
                n = self.written + 1
                with conn.transaction():
                    conn.execute("insert into log values (%s, %s)", [self.part, n])
                    conn.execute(
                        "update t set v = %s where part = %s and id = %s",
                        [f"v{n}", self.part, n % self._rows + 1],
                    )
                    conn.execute("insert into t values (%s, %s, 'new')", [self.part, 10_000 + n])
                    conn.execute(
                        "delete from t where part = %s and id = %s", [self.part, 9_990 + n]
                    )
                self.written = n
                self._stop.wait(0.003)


@kept_nodes
def _begun(combined: Combined, rows: int, *merged: str) -> tuple[tuple[str, str], ...]:
    combined.begin({}, rows)
    for place in merged:
        combined.merge(place)
    if merged:
        combined.add_tables_at("first")
    return tuple(combined.configured)


@contextlib.contextmanager
def kept_combined(
    directory: Path, cluster: Server, kept: Kept, *merged: str, rows: int = 3
) -> Iterator[Combined]:
    """A cascade that tests share: sources merge at these places, and first has their tables."""

    def nowhere(**given: Any) -> Database:
        raise AssertionError("kept databases are made elsewhere")

    made = Combined(directory, nowhere, begun=False)
    made.cluster, made.kept = cluster, kept
    for queue, place in dict.fromkeys(_begun(made, rows, *merged)):
        made.configure(queue, place)
    try:
        yield made
    finally:
        made.close()
        for database in made.own:
            database.drop()
