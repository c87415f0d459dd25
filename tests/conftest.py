"""Fixtures and hooks for every test; the fixtures themselves are in tests/fixtures, by topic."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

import click
import hypothesis
import pytest

from londiste.cli import documents
from londiste.daemon import logcontext
from tests.fixtures.cascade import londiste, nodes_of, three  # noqa: F401
from tests.fixtures.cluster import (  # noqa: F401 -- pytest finds fixtures by these names
    cleared,
    cleared_pgq_db,
    cluster,
    cluster16,
    database,
    database16,
    files_of_servers,
    kept_database,
    kept_pgq_db,
    new_cluster,
    new_database,
    own_servers,
    pgq_db,
    pgq_db16,
)
from tests.fixtures.copies import copy_engine, nodes  # noqa: F401
from tests.fixtures.line import command, line  # noqa: F401
from tests.fixtures.one_file import one_file  # noqa: F401
from tests.fixtures.original import original, original_server  # noqa: F401
from tests.fixtures.pgbouncer import open_directory, pooler  # noqa: F401
from tests.fixtures.process import processes, program  # noqa: F401
from tests.fixtures.shapes import server_of, shapes_on  # noqa: F401
from tests.fixtures.stream import spark  # noqa: F401
from tests.support.documents import check, kinds_of
from tests.support.programs import quick
from tests.support.servers.kept_nodes import kept_worlds  # noqa: F401

# Collecting makes objects that stay: two thirds of its time was the search for garbage among them.
gc.disable()

# A loaded machine is no failure of a property.
hypothesis.settings.register_profile("londiste", deadline=None)
hypothesis.settings.load_profile("londiste")

quick.shorten()

# The user's libpq settings must not decide where a test connects, and how.
for _name in [name for name in os.environ if name.startswith("PG")]:
    del os.environ[_name]

# A shell starts what it puts into the background with SIGINT ignored, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: looking through them for garbage finds none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _nothing_is_logged_for_a_test_before() -> Iterator[None]:
    """A command that runs in the test's own process leaves its log on a stream that is closed."""
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if getattr(handler, "from_londiste", False):
            root.removeHandler(handler)
            handler.close()


@pytest.fixture(autouse=True)
def _nothing_of_a_test_before_is_in_lines_of_the_log() -> Iterator[None]:
    """What a command in the test's own process stores for all its lines goes with the test."""
    yield
    logcontext.of_process(**dict.fromkeys(logcontext.FIELDS))
    logcontext.detach(False)


@pytest.fixture(autouse=True)
def _documents_have_their_forms() -> Iterator[None]:
    """Every document that a command prints in the test's own process is of a known type."""
    plain = documents.dumped

    def dumped(document: Any, *, ascii_only: bool) -> str:
        text = plain(document, ascii_only=ascii_only)
        context = click.get_current_context(silent=True)
        printed = json.loads(text)
        if context is not None or "error" in printed:
            check(printed, [] if context is None else kinds_of(context.command))
        return text

    # Not the test's own monkeypatch: what a test sets has to be undone before its fixtures end.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "dumped", dumped)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What tests log may hold halves of characters; xdist could not send such a report."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report
