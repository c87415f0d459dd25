"""Real applications are replicated, and moved to another release and back, while they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from psycopg import conninfo

from londiste.embedded.binaries import available_versions
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.scenarios.applications import kinds, running, sums
from tests.scenarios.applications.running import Application
from tests.support.scenarios.harness import Cascade, Node
from tests.support.scenarios.relocation import Move, Proxy

#: In a dump, a sequence that no column owns: Tryton makes them for the numbers of its documents.
FREE_SEQUENCE = re.compile(r"(CREATE|ALTER) SEQUENCE public\.ir_sequence_\d+\s")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers(own_servers: Callable[..., Cluster]) -> tuple[Cluster, Cluster]:
    """One of the oldest release that is here, one of the newest."""
    oldest = 15 if 15 in available_versions() else 16
    return (
        own_servers("from", version=oldest, port=True),
        own_servers("to", version=18, port=True),
    )


@pytest.fixture(scope="module", params=[kinds.DJANGO, kinds.TRYTON], ids=lambda kind: kind.name)
def application(request: pytest.FixtureRequest, servers: tuple[Cluster, Cluster]) -> Application:
    """An application from PyPI, with its database."""
    python = kinds.python_of(request.param, request.config.cache.mkdir("applications"))
    made = Application(request.param, python, *servers, running.new_password())
    made.make()
    return made


@pytest.fixture
def databases(application: Application) -> Iterator[tuple[Database, Database]]:
    """Its database, and an empty one of the same name on the newer server."""
    yield from application.databases()


def _node(cascade: Cascade, name: str, database: Database, *create: str) -> Node:
    """A node of a database that is there, made by the commands that a user types."""
    node = Node(name, database, cascade.directory / f"{name}.toml")
    cascade.write_settings(node, database.dsn)
    cascade.nodes[name] = node
    cascade.londiste(node, "install", "--db", database.dsn)
    cascade.londiste(node, *create, name, _public(database))
    return node


def _public(database: Database) -> str:
    """Its connection string without the password."""
    parts = conninfo.conninfo_to_dict(database.dsn)
    return conninfo.make_conninfo("", **{**parts, "password": None})


def _know_passwords(cascade: Cascade, databases: tuple[Database, ...]) -> None:
    """Nodes do not store passwords: all processes read them from a file."""
    parts = [conninfo.conninfo_to_dict(database.dsn) for database in databases]
    path = cascade.directory / "pgpass"
    path.write_text("".join("{host}:{port}:*:{user}:{password}\n".format(**p) for p in parts))
    path.chmod(0o600)
    cascade.processes.environment["PGPASSFILE"] = str(path)


def _next_release(application: Application, cascade: Cascade, root: Node) -> None:
    """Its migration runs on all nodes, through the queue, in place of its own command."""
    dsn = application.login(root.database.dsn)
    lines = application.run(dsn, *application.kind.script).splitlines()
    script = cascade.directory / "next_release.sql"
    # A script is a transaction of its own.
    script.write_text("\n".join(x for x in lines if x not in ("BEGIN;", "COMMIT;")) + "\n")
    cascade.londiste(root, "execute", str(script))
    application.run(dsn, *application.kind.noted)


def test_an_application_is_replicated_while_it_writes(
    application: Application, databases: tuple[Database, Database], cascade: Cascade
) -> None:
    old, new = databases
    _know_passwords(cascade, databases)
    structures = application.structures(old)
    writer = application.start_writer(cascade, old.dsn)
    writer.wait(2)
    root = _node(cascade, "root", old, "create-root")
    leaf = _node(cascade, "leaf", new, "create-leaf", "--provider", _public(old))
    cascade.start_ticker()
    cascade.start_worker(leaf)
    cascade.londiste(root, "add-table", "--all", *application.kind.add, seconds=300)
    cascade.londiste(leaf, "add-table", "--all", "--create-full", seconds=300)
    # Those of columns come with their tables.
    free = [text for text in structures[0] if FREE_SEQUENCE.match(text)]
    assert bool(free) == application.kind.free_sequences
    if free:
        new.execute("\n".join(free))
        for node in (root, leaf):
            cascade.londiste(node, "add-seq", "--all")
    cascade.wait_sync(leaf)
    writer.wait(5)
    if application.kind.script:
        application.assert_structures(databases, structures)
        _next_release(application, cascade, root)
        structures = application.structures(old)
        writer.wait(5)
    confirmed = writer.stop()
    cascade.wait_root(leaf)
    sums.assert_same_rows(old, new, application.kind.tables)
    assert new.value(application.kind.rounds) == confirmed
    application.assert_structures(databases, structures)
    sums.assert_sequences_go_on(old, new)
    assert cascade.compare(leaf)["equal"]


def test_an_application_is_moved_to_another_release_and_back_while_it_writes(
    application: Application, databases: tuple[Database, Database], cascade: Cascade
) -> None:
    old, new = databases
    proxy = Proxy(old.dsn)
    structures = application.structures(old)
    writer = application.start_writer(cascade, proxy.dsn(old.dsn))
    writer.wait(2)
    move = Move(cascade, old.dsn, new.dsn)
    daemon = move.start("--schema", application.kind.schema)
    move.wait_in_step(new, len(sums.checksums(old)), 300, daemon)
    writer.wait(2)
    assert move.json("verify")["equal"]
    for command, target in (("switch", new), ("back", old), ("switch", new)):
        move.run(command, "--block", "60")
        before = target.value(application.kind.rounds)
        proxy.move(target.dsn)
        writer.wait(3)
        assert target.value(application.kind.rounds) >= before + 3
    confirmed = writer.stop()
    proxy.close()
    answer = move.json("verify")
    assert answer["equal"]
    sums.assert_same_rows(old, new, application.kind.tables)
    for database in databases:
        assert database.value(application.kind.rounds) == confirmed
    application.assert_structures(databases, structures)
    move.run("finish")
    assert daemon.wait() == 0, daemon.said()
    application.assert_structures(databases, structures)
    # The new database was the last to take writes.
    sums.assert_sequences_go_on(new, old)
