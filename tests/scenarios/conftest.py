"""The cascade of a scenario, and the logs of its processes if the test fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from londiste.embedded.java import find_java
from londiste.embedded.postgres import Cluster
from londiste.errors import LondisteError
from tests.fixtures.cluster import Database
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.interrupting import four  # noqa: F401 -- a fixture, found by its name
from tests.support.scenarios.processes import Processes


@pytest.fixture
def cascade(
    tmp_path: Path,
    new_cluster: Callable[..., Cluster],
    new_database: Callable[..., Database],
) -> Iterator[Cascade]:
    """Nodes and processes of one test; no process survives it.

    It asks for ``new_cluster`` because servers of the test's own must outlive its databases.
    """
    cascade = Cascade(tmp_path, new_database)
    yield cascade
    cascade.close()


@pytest.fixture
def spark_processes(tmp_path: Path) -> Iterator[Processes]:
    """Processes of a test that run Spark; none survives it."""
    pytest.importorskip("pyspark")
    try:
        java = find_java()
    except LondisteError as missing:
        pytest.skip(str(missing))
    root = str(Path(__file__).parents[2])
    made = Processes(tmp_path, {"PYTHONPATH": root, "JAVA_HOME": str(java)})
    yield made
    assert made.close() == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cascade = getattr(item, "funcargs", {}).get("cascade")
    if report.failed and isinstance(cascade, Cascade):
        report.sections.append(("logs of the processes", cascade.processes.report()))
    return report
