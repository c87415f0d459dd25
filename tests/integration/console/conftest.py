"""A Chromium, and a cascade of two nodes with its console, shared by the tests of a file."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.db.names import escaped
from tests.fixtures.cluster import Database, Server, create_database
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.scenarios.processes import Process, Processes

#: Names that would be markup, if a page did not escape them.
HOSTILE = "<script>alert(1)</script>"
#: A name that is a pattern of all tables, if it is not escaped.
PATTERN = "*"
SCHEMA = f"""
    create table orders (id int primary key, note text);
    create table "{HOSTILE}" (id int primary key);
    create table "{PATTERN}" (id int primary key);
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The Chromium of the system."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # The sandbox of Chromium refuses root.
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = driver.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@dataclass
class Pair:
    """A root, a leaf, their daemons, and the console."""

    line: Line
    root: LineNode
    leaf: LineNode
    make_database: Callable[..., Database]

    def console(self, name: str = "web", **keys: Any) -> tuple[str, Process]:
        """Starts a console with these settings: (address, process)."""
        config = self.line.directory / f"{name}.toml"
        lines = [f"{key} = {value}" for key, value in {"refresh": 0.3, **keys}.items()]
        text = self.leaf.config.read_text() + "\n[web]\nlisten = '127.0.0.1:0'\n"
        config.write_text(text + "\n".join(lines) + "\n")
        config.chmod(0o600)
        argv = [sys.executable, "-m", "londiste", "-c", str(config), "web"]
        process = self.line.processes.start(name, argv)
        found = self.line.wait(
            lambda: re.search(r"console: (http://\S+)", process.said()), "the address"
        )
        return str(found[1]), process


@pytest.fixture(scope="module")
def pair(
    cluster: Server, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Pair]:
    """A pair that replicates tables, one with a hostile name, with worker and ticker.

    The module may name another type of the second node: ``SECOND = NodeType.BRANCH``.
    """
    second = getattr(request.module, "SECOND", NodeType.LEAF)
    made: list[Database] = []

    def make(*, on: Server | None = None, pgq: bool = False) -> Database:
        made.append(create_database(on or cluster, pgq=pgq))
        return made[-1]

    directory: Path = tmp_path_factory.mktemp("console")
    line = Line(directory, make, Processes(directory))
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node(second.value, second, root, schema=SCHEMA)
    for node in (root, leaf):
        line.add(node, "orders", HOSTILE, escaped(PATTERN))
    root.database.execute(
        "select pgq.set_queue_config(%s, 'ticker_idle_period', '1 s'),"
        " pgq.set_queue_config(%s, 'ticker_max_lag', '100 ms')",
        QUEUE,
        QUEUE,
    )
    argv = [sys.executable, "-m", "londiste", "--set", "ticker_period=0.2", "ticker"]
    line.processes.start("ticker", [*argv, "--db", root.database.dsn])
    # That of the root publishes the watermark; without it the cascade has a finding.
    line.start(root)
    line.start(leaf)
    yield Pair(line, root, leaf, make)
    try:
        assert not line.processes.close()
    finally:
        for database in made:
            database.drop()


@pytest.fixture(scope="module")
def console(pair: Pair) -> str:
    """The address of a console that changes nothing."""
    # A point each second: a chart has a line when it has two.
    return pair.console(history_hours=0.2)[0]


@pytest.fixture
def browse(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page in a browser of its own; a script error or refused content fails the test."""
    contexts = []
    wrong: list[str] = []

    def said(message: Any) -> None:
        # Chromium reports each answer that is an error, too.
        if message.type == "error" and "responded with a status of" not in message.text:
            wrong.append(message.text)

    def opened(url: str, **options: Any) -> Any:
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on("console", said)
        page.set_default_timeout(60_000)
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
