"""One pair of databases for all tests of a file: a case makes its own tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from londiste.orchestration.connections import Connections
from tests.capture.pair import Pair
from tests.fixtures.cascade import Nodes
from tests.fixtures.cluster import Database, Server, create_database


@pytest.fixture(scope="module")
def pair(cluster: Server) -> Iterator[Pair]:
    """A root and a leaf with a queue between them."""
    made: list[Database] = []

    def database(*, pgq: bool = False) -> Database:
        made.append(create_database(cluster, pgq=pgq))
        return made[-1]

    with Connections(name="tests") as sites:
        nodes = Nodes(database, sites)
        root = nodes.root()
        pair = Pair(root, nodes.below(root, "leaf"))
        yield pair
        pair.close()
    for each in made:
        each.drop()
