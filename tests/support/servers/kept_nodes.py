"""Nodes that several tests begin with: made for the first of them, cloned for the others."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import psycopg
import pytest

from tests.fixtures.cluster import Database, Server, template

Maker = TypeVar("Maker", bound=Callable[..., Any])

#: The tests of a file come one after the other; each of these takes memory of the server.
MOST = 2

_numbers = itertools.count(1)


class AnyNode(Protocol):
    """A node in a database."""

    name: str

    @property
    def database(self) -> Database: ...


class Beginning(Protocol):
    """Who makes nodes for a test: a line, or the nodes of queue ``q``."""

    make_database: Callable[..., Database]
    cluster: Server | None
    kept: Kept
    nodes: dict[str, Any]
    #: Databases of this test that go with it.
    own: list[Database]

    def resumed(self, node: Any, database: Database) -> AnyNode:
        """The node of a test before, which is in this database now."""

    def leave(self) -> None:
        """Ends the sessions in the databases."""


@dataclass
class _World:
    """Nodes with the databases of which they are clones; ``answer`` is what their maker said."""

    nodes: list[AnyNode]
    saved: list[Database]
    answer: Any

    def drop(self) -> None:
        for database in self.saved:
            if database.cluster.running():
                database.drop()


@dataclass
class Kept:
    """The nodes of the tests before, newest last."""

    worlds: dict[Hashable, _World] = field(default_factory=dict)

    def get(self, key: Hashable, line: Beginning, make: Callable[[], Any]) -> Any:
        """What ``make`` has answered, with the nodes of this test in place of those it has made.

        Every test gets databases of the same names, since connection strings are stored in them.
        """
        world = self.worlds.pop(key, None)
        if world is None:
            while len(self.worlds) >= MOST:
                self.worlds.pop(next(iter(self.worlds))).drop()
            world = self._made(line, make)
        self.worlds[key] = world
        here = {}
        for node, saved in zip(world.nodes, world.saved, strict=True):
            database = Database(node.database.cluster, node.database.name)
            database.cluster.create_database(database.name, template=saved.name)
            line.own.append(database)
            # A clone is taken for a restored database: its captures pack no rows until maintenance.
            database.execute("select pgq.maint_open_ways()")
            here[node.name] = line.resumed(node, database)
        return _here(world.answer, here)

    def _made(self, line: Beginning, make: Callable[[], Any]) -> _World:
        assert not line.nodes, "kept nodes are the first ones"
        made: list[Database] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(line, "make_database", _database_of(line, made))
            try:
                answer = make()
            except BaseException:
                # Skipped, too.
                for database in made:
                    database.drop()
                raise
        line.leave()
        nodes = list(line.nodes.values())
        line.nodes.clear()
        saved = []
        for node in nodes:
            server, name = node.database.cluster, f"{node.database.name}_kept"
            node.database.clone(name)
            node.database.drop()
            saved.append(Database(server, name))
            # A ticker that serves all databases leaves them alone.
            with psycopg.connect(server.dsn(), autocommit=True) as conn:
                conn.execute(f'alter database "{name}" with allow_connections false'.encode())
        return _World(nodes, saved, answer)


def _database_of(line: Beginning, made: list[Database]) -> Callable[..., Database]:
    def make(*, on: Server | None = None, pgq: bool = False) -> Database:
        server = on or line.cluster
        assert server is not None
        name = f"ldk_{os.getpid()}_{next(_numbers)}"
        server.create_database(name, template=template(server) if pgq else None)
        made.append(Database(server, name))
        return made[-1]

    return make


def _here(answer: Any, nodes: dict[str, AnyNode]) -> Any:
    if isinstance(answer, tuple):
        return tuple(_here(one, nodes) for one in answer)
    return nodes.get(answer.name, answer) if hasattr(answer, "database") else answer


@pytest.fixture(scope="session")
def kept_worlds(cluster: Server) -> Iterator[Kept]:
    """Nodes that stay between tests."""
    made = Kept()
    yield made
    for world in made.worlds.values():
        world.drop()


def kept_nodes(maker: Maker) -> Maker:
    """For a function or fixture that makes nodes: each of its forms is made once.

    It answers nodes, or a tuple with nodes, and starts no process that stays.  Its arguments but
    the line, or ``nodes_of``, and commands are part of what is kept.
    """

    @functools.wraps(maker)
    def nodes(*args: Any, **keys: Any) -> Any:
        given = [*args, *keys.values()]
        (line,) = [one for one in given if hasattr(one, "kept")]
        form = [
            repr(getattr(one, "param", "") if isinstance(one, pytest.FixtureRequest) else one)
            for one in given
            if one is not line and not (isinstance(one, pytest.CaptureFixture) or callable(one))
        ]
        key = (maker.__module__, maker.__qualname__, *keys, *form)
        return line.kept.get(key, line, lambda: maker(*args, **keys))

    return nodes  # type: ignore[return-value]
