"""Servers of every supported release."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Server
from tests.scenarios.conftest import cascade, pytest_runtest_makereport  # noqa: F401
from tests.versions import use_release


@pytest.fixture(scope="session")
def release(server_of: Callable[[int], Server]) -> Callable[[int], Server]:
    """``release(17)`` -- a server of this release, fetched and started once; may skip."""

    def find(version: int) -> Server:
        use_release(version)
        return server_of(version)

    return find


@pytest.fixture
def own_release(new_cluster: Callable[..., Cluster]) -> Callable[[str, int], Cluster]:
    """``own_release("from", 17)`` -- a server of this release for one test."""

    def start(name: str, version: int) -> Cluster:
        use_release(version)
        return new_cluster(name, version=version)

    return start
