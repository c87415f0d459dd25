"""Servers, databases and processes of the lives of one run.

Servers are started once.  The databases of a world are made once, with the ledger in sync on every
node, and cloned for each life, which takes a moment.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
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
from tests.nemesis.cast import QUEUE, Cast, Place
from tests.nemesis.worlds import MERGING, SOURCE, World
from tests.nemesis.writer import ALWAYS, APP_QUEUE, SCHEMA
from tests.support.lines import Line
from tests.support.servers import ready_files
from tests.support.servers.authority import Authority
from tests.support.servers.pooler import Pooler
from tests.support.servers.small_disk import SmallDisk

#: The other queue of a world that merges, and the table of which each has a part.
SECOND = "second"
PART = "nemesis.part"
#: Owns the tables of a world without superusers.
OWNER = "nemesis_owner"
_PART_SCHEMA = f"create table {PART} (part text, id int, v text, primary key (part, id))"


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
            place.worker = None
        directory = self.directory / f"life{number}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        cast = Cast(directory, self.servers, places, line, more)
        cast.disk = self.disk if world.small_disk else None
        cast.migrates = world.migrates
        cast.write_settings()
        if cast.defect and not world.migrates:
            from tests.nemesis import defects

            for place in places.values():
                with psycopg.connect(place.database.dsn, autocommit=True) as conn:
                    defects.change(cast.defect, conn)
        try:
            if not world.migrates:
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
            database = create_database(self._server(world.servers[name]), pgq=not world.migrates)
            if world.migrates:
                places[name] = Place(name, database, database.dsn, database.dsn)
                if provider is None:
                    database.execute(SCHEMA)
                    line = Line(database.dsn) if world.line else None
                    places[name].location = line.dsn if line is not None else database.dsn
                continue
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
