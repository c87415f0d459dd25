"""Servers, databases and processes of the lives of one run.

Servers are started once.  The databases of a world are made once, with the ledger in sync on every
node, and cloned for each life, which takes a moment.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from londiste.cascade.commands.create_node import NewNode, create_branch, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.embedded.binaries import available_versions
from londiste.embedded.homes import throwaway_home
from londiste.embedded.postgres import Cluster
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication.commands import add_table
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.model import TableOptions
from tests.fixtures.cluster import SETTINGS, Database, create_database, memory_directory
from tests.nemesis.worlds import MERGING, SOURCE, World
from tests.nemesis.writer import ALWAYS, APP_QUEUE, SCHEMA
from tests.support.lines import Line
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.processes import Processes
from tests.support.servers import ready_files
from tests.support.servers.authority import Authority
from tests.support.servers.pooler import Pooler
from tests.support.servers.small_disk import SmallDisk

QUEUE = "nemesis"
#: The other queue of a world that merges, and the table of which each has a part.
SECOND = "second"
PART = "nemesis.part"
#: Its ticks; those of the application's queue have the same numbers.
TICKS = (
    "(select t.* from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue"
    f" where q.queue_name = '{QUEUE}')"
)
#: Owns the tables of a world without superusers.
OWNER = "nemesis_owner"
#: In every connection string of a settings file; no output may contain it.
SECRET = "hush7secret"
_PROGRAM = "tests.nemesis.program"
_PART_SCHEMA = f"create table {PART} (part text, id int, v text, primary key (part, id))"


@dataclass
class Place:
    """The database of a node, and the processes that serve it.

    dsn -- of programs and applications; the database's own is that of a superuser.
    """

    name: str
    database: Database
    dsn: str
    location: str
    pooler: Pooler | None = None
    queue: str = QUEUE
    config: Path = field(default_factory=Path)
    worker: Fork | None = None
    env: dict[str, str] = field(default_factory=dict)


class Stage:
    """All of it; ``close`` leaves nothing behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._home = throwaway_home(memory_directory())
        self.servers: dict[str, Cluster] = {}
        #: Of the world that has one; None where this host mounts no file systems.
        self.disk: SmallDisk | None = None
        self._worlds: dict[str, tuple[dict[str, Place], Line | None]] = {}

    def close(self) -> None:
        for places, line in self._worlds.values():
            if line is not None:
                line.close()
            for place in places.values():
                if place.pooler is not None:
                    place.pooler.stop()
        for server in self.servers.values():
            server.remove()
        if self.disk is not None:
            self.disk.unmount()
        shutil.rmtree(self._home / "poolers", ignore_errors=True)
        with contextlib.suppress(OSError):
            self._home.rmdir()

    def _server(self, name: str) -> Cluster:
        """A server, started when the first world needs it."""
        if name not in self.servers:
            settings = {**SETTINGS, "max_connections": "80", "deadlock_timeout": "200ms"}
            version = min(available_versions()) if name == "C" else 18
            with ready_files.copied():
                self.servers[name] = Cluster.start(
                    self._home, f"nemesis{name}", version=version, settings=settings
                )
        return self.servers[name]

    def up(self) -> None:
        for server in self.servers.values():
            server.up()

    @contextlib.contextmanager
    def life(self, number: int, world: World, more: dict[str, Any]) -> Iterator[Cast]:
        """The nodes of a world as at the beginning, with all daemons running."""
        self.up()
        if world.name not in self._worlds:
            self._worlds[world.name] = self._make(world)
        places, line = self._worlds[world.name]
        for place in places.values():
            if place.name != MERGING:
                self._again(world, place.database)
            if place.pooler is not None:
                place.pooler.up()
        directory = self.directory / f"life{number}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        cast = Cast(directory, self.servers, places, line, more)
        cast.disk = self.disk if world.small_disk else None
        cast.write_settings()
        if cast.defect:
            from tests.nemesis import defects

            for place in places.values():
                with psycopg.connect(place.database.dsn, autocommit=True) as conn:
                    defects.change(cast.defect, conn)
        try:
            cast.start_all()
            yield cast
        finally:
            if line is not None:
                line.mend()
            cast.close()

    def _make(self, world: World) -> tuple[dict[str, Place], Line | None]:
        places: dict[str, Place] = {}
        line = None
        for name, provider in world.providers.items():
            database = create_database(self._server(world.servers[name]), pgq=True)
            pooler, dsn = None, _owned(database) if world.owner else database.dsn
            if world.pooler and Pooler.program() is not None:
                pooler, dsn = self._pooled(database, tls=world.tls)
            location = dsn
            with psycopg.connect(dsn, autocommit=True) as conn:
                conn.execute(SCHEMA.encode())
            database.execute("select pgq.create_queue(%s)", APP_QUEUE)
            database.execute("select pgq.register_consumer(%s, 'app')", APP_QUEUE)
            if world.line and provider is None:
                line = Line(dsn)
                location = line.dsn
            places[name] = Place(name, database, dsn, location, pooler)
            if world.merges:
                database.execute(_PART_SCHEMA)
            _make_node(world, places, name)
        if world.merges:
            self._make_second(places)
        for place in places.values():
            if place.name == MERGING:
                continue
            if place.pooler is not None:
                # It keeps sessions that nobody uses.
                place.pooler.stop()
            if world.small_disk:
                self._on_small_disk(place.database)
            place.database.clone(f"{place.database.name}_saved")
        return places, line

    def _make_second(self, places: dict[str, Place]) -> None:
        """Another root on the server of the root, whose leaf is in the database of the leaf."""
        database = create_database(self._server("A"), pgq=True)
        database.execute(f"create schema nemesis; {_PART_SCHEMA}")
        leaf = places["leaf"]
        places[SOURCE] = Place(SOURCE, database, database.dsn, database.dsn, queue=SECOND)
        places[MERGING] = Place(
            MERGING, leaf.database, leaf.dsn, leaf.location, leaf.pooler, queue=SECOND
        )
        with Connections(name="nemesis") as sites:
            for name, kind in ((SOURCE, NodeType.ROOT), (MERGING, NodeType.LEAF)):
                dsn = places[name].dsn
                new = NewNode(SECOND, kind, name, dsn, dsn, f"{name}_worker")
                if kind is NodeType.LEAF:
                    execute(create_leaf(sites, new, database.dsn), sites)
                    known = CopyRegistry(name, SOURCE, database.dsn, dsn, SECOND)
                    execute([known], sites)
                    continue
                execute(create_root(sites, new), sites)
                options = TableOptions()
                execute(add_table.plan(sites, dsn, SECOND, [PART], options).steps, sites)

    def _pooled(self, database: Database, *, tls: bool) -> tuple[Pooler, str]:
        """A pooler of sessions, and the connection string that leads through it."""
        directory = self._home / "poolers"
        directory.mkdir(exist_ok=True)
        pooler = Pooler("session", directory, size=60)
        if not tls or Authority.program() is None:
            pooler.start(database)
            return pooler, pooler.dsn(database)
        authority = Authority(directory, f"ca{pooler.port}")
        pooler.start(
            database,
            more={**authority.server(f"db{pooler.port}.test"), "client_tls_sslmode": "require"},
        )
        return pooler, conninfo.make_conninfo(
            pooler.dsn(database),
            host=f"db{pooler.port}.test",
            hostaddr="127.0.0.1",
            sslmode="verify-full",
            sslrootcert=str(authority.certificate),
        )

    def _on_small_disk(self, database: Database) -> None:
        """Moves a database, and its copies to come; its write-ahead log stays."""
        if self.disk is None:
            disk = SmallDisk(self._home / "disk", 160)
            if disk.mount():
                return
            self.disk = disk
        self.disk.take(database)

    def _again(self, world: World, database: Database) -> None:
        server = database.cluster
        server.drop_database(database.name)
        server.create_database(database.name, template=f"{database.name}_saved")
        if world.owner:
            _owned(database)


def _owned(database: Database) -> str:
    """Gives a database to a role with the rights that the documentation asks for; its DSN."""
    if not database.value("select count(*) from pg_roles where rolname = %s", OWNER):
        database.execute(f"create role {OWNER} login")
        database.execute(f"grant londiste_writer to {OWNER}")
        database.execute(f"grant set on parameter session_replication_role to {OWNER}")
    database.execute(f"alter database {database.name} owner to {OWNER}")
    return conninfo.make_conninfo(database.dsn, user=OWNER)


def _make_node(world: World, places: dict[str, Place], name: str) -> None:
    place, provider = places[name], world.providers[name]
    kind = (
        NodeType.ROOT
        if provider is None
        else NodeType.LEAF
        if name in world.leaves
        else NodeType.BRANCH
    )
    dsn = place.dsn
    location = conninfo.make_conninfo(place.location, connect_timeout=3)
    new = NewNode(QUEUE, kind, name, dsn, location, f"{name}_worker")
    with Connections(name="nemesis") as sites:
        if provider is None:
            steps = create_root(sites, new)
        else:
            create = create_branch if kind is NodeType.BRANCH else create_leaf
            steps = create(sites, new, places[provider].dsn)
        execute(steps, sites)
        options = TableOptions(expect_sync=kind is not NodeType.ROOT)
        keyed = [t for t in ALWAYS if t != "nemesis.ledger"]
        keyed += [PART] if world.merges and provider is None else []
        execute(add_table.plan(sites, dsn, QUEUE, keyed, options).steps, sites)
        options = TableOptions(expect_sync=kind is not NodeType.ROOT, insert_only=True)
        execute(add_table.plan(sites, dsn, QUEUE, ["nemesis.ledger"], options).steps, sites)


class Cast:
    """The nodes and processes of one life."""

    def __init__(
        self,
        directory: Path,
        servers: dict[str, Cluster],
        places: dict[str, Place],
        line: Line | None,
        more: dict[str, Any],
    ) -> None:
        self.directory, self.servers, self.places = directory, servers, places
        self.line, self.more = line, more
        self.processes = Processes(directory)
        self.forks = Forks(self.processes)
        self.ticker: Fork | None = None
        self.defect = more.get("defect", "")
        self.commands: list[Fork] = []
        self.closed = False
        self.disk: SmallDisk | None = None
        #: Of the life: all of them, replicated or not.
        self.tables: list[Any] = []
        #: Workers that another one has replaced.
        self.doubles: list[Fork] = []

    def write_settings(self) -> None:
        for place in self.places.values():
            place.env = {}
            place.config = self.directory / f"{place.name}.toml"
            keys = {
                "db": conninfo.make_conninfo(place.dsn, password=SECRET),
                "queue_name": place.queue,
                "job_name": f"{place.name}_worker",
                "engine": "local",
                "poll_interval": 0.1,
                "max_retry_delay": 0.3,
                "local_wm_publish_period": 1,
                "global_wm_publish_period": 1,
                "response_timeout": 2,
                **self.more.get("settings", {}),
            }
            _write(place.config, "londiste", keys)
        given = dict.fromkeys(p.dsn for p in self.places.values())
        dsns = [conninfo.make_conninfo(dsn, password=SECRET) for dsn in given]
        keys = {
            "databases": dsns,
            "ticker_period": self.more.get("tick", 0.1),
            "max_retry_delay": 0.3,
            **({"maint_period": 0.5} if self.more.get("rotate") else {}),
        }
        _write(self.directory / "ticker.toml", "ticker", keys)
        if self.more.get("rotate"):
            for place in self.places.values():
                place.database.execute("update pgq.queue set queue_rotation_period = '2 seconds'")

    # -- processes -------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        return {"NEMESIS_DEFECT": self.defect} if self.defect else {}

    def start_ticker(self) -> None:
        self.ticker = self.forks.start(
            self.directory / "ticker.toml", "ticker", program=_PROGRAM, **self.environment()
        )

    def start_worker(self, name: str, **env: str) -> None:
        place = self.places[name]
        place.worker = self.forks.start(
            place.config, "worker", program=_PROGRAM, **self.environment(), **env
        )

    def start_all(self) -> None:
        self.start_ticker()
        for name in self.places:
            self.start_worker(name)

    def daemons(self) -> dict[str, Fork]:
        found = {p.name: p.worker for p in self.places.values() if p.worker is not None}
        return {**found, **({"ticker": self.ticker} if self.ticker is not None else {})}

    def revive(self) -> list[str]:
        """Starts the daemons that a signal has ended; what those that ended otherwise said."""
        wrong = []
        for name, fork in self.daemons().items():
            code = fork.code()
            if code is None:
                continue
            if self.doubles and _met_another(fork):
                # ``end_doubles`` starts it.
                continue
            if code >= 0:
                wrong.append(f"{name} ended by itself with {code}: {fork.err[-1500:]}")
            self.start_ticker() if name == "ticker" else self.start_worker(name)
        return wrong

    def end_doubles(self) -> None:
        """A worker that was replaced has to end by itself, or to wait; or it was quicker."""
        for fork in self.doubles:
            fork.send(9)
            fork.wait(30)
        if self.doubles:
            for name, fork in self.daemons().items():
                if _met_another(fork):
                    self.start_worker(name)
        self.doubles.clear()

    def command(self, node: str, *argv: str, **env: str) -> Fork:
        """Starts a command."""
        fork = self.forks.start(
            self.places[node].config, *argv, program=_PROGRAM, **self.environment(), **env
        )
        self.commands.append(fork)
        return fork

    def copies(self) -> list[int]:
        """Processes that copy."""
        return self.processes.find("copy")

    def close_database(self, node: str) -> None:
        """Nobody can connect to the database of a node, and nobody is connected."""
        database = self.places[node].database
        with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f"alter database {database.name} allow_connections false".encode())
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                [database.name],
            )

    def open_database(self, node: str) -> None:
        """It answers again."""
        database = self.places[node].database
        with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f"alter database {database.name} allow_connections true".encode())

    def close(self) -> list[str]:
        """Ends all processes; what was left of them."""
        if self.closed:
            return []
        self.closed = True
        for fork in self.daemons().values():
            fork.send(9)
        self.end_doubles()
        self.forks.close()
        return self.processes.close()

    def value(self, node: str, statement: str, *parameters: Any) -> Any:
        return self.places[node].database.value(statement, *parameters)

    def rows(self, node: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.places[node].database.execute(statement, *parameters)

    def connect(self, node: str, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.places[node].database.dsn, autocommit=True, connect_timeout=5, **more
        )


def _met_another(fork: Fork) -> bool:
    """Whether a worker ended because another one works for its node."""
    return fork.code() == 3 and "another worker runs" in fork.err


def _write(path: Path, section: str, keys: dict[str, Any]) -> None:
    lines = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in keys.items()]
    path.write_text(f"[{section}]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o600)
