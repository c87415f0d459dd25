"""Servers of every supported release."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Server, start_server
from tests.scenarios.conftest import cascade, pytest_runtest_makereport  # noqa: F401
from tests.versions import use_release


@pytest.fixture(scope="session")
def release() -> Iterator[Callable[[int], Server]]:
    """``release(17)`` -- a server of this release, started once; skips where there is none."""
    started: dict[int, Server] = {}

    def find(version: int) -> Server:
        if version not in started:
            use_release(version)
            started[version] = stack.enter_context(start_server(f"release{version}", version))
        return started[version]

    with contextlib.ExitStack() as stack:
        yield find


@pytest.fixture
def own_release(new_cluster: Callable[..., Cluster]) -> Callable[[str, int], Cluster]:
    """``own_release("from", 17)`` -- a server of this release for one test."""

    def start(name: str, version: int) -> Cluster:
        use_release(version)
        return new_cluster(name, version=version)

    return start
