"""The demo ends with equal databases, and leaves no process or file."""

from __future__ import annotations

import json
import re
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hints import plain
from tests.support.pages.demo_picture import demo_picture
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Process


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_demo_ends_with_equal_tables_and_no_process_left(
    engine: str, cascade: Cascade, temporary: Path
) -> None:
    started = time.monotonic()
    done = cascade.londiste(
        None, "demo", "--json", "--engine", engine, seconds=300, TMPDIR=str(temporary)
    )
    seconds = time.monotonic() - started
    summary = json.loads(done.out)
    assert summary["equal"] is True
    assert summary["tables"] > 3
    assert summary["rows"] > 1000
    assert summary["events"] > 100
    assert summary["seconds"] <= seconds
    # The picture of the README shows this; the last two lines are the summary as a table.
    lines = demo_picture.lines_of(demo_picture.PICTURE.read_text(encoding="utf-8"))[:-2]
    picture = list(map(plain, lines))
    assert demo_picture.form(demo_picture.shown(done.err)) == demo_picture.form(picture)
    assert cascade.processes.living() == {}
    assert [path.name for path in temporary.iterdir() if path.name.startswith("londiste-")] == []


@pytest.mark.slow
def test_kept_servers_are_reached_and_stopped_as_it_says(cascade: Cascade, temporary: Path) -> None:
    done = cascade.londiste(
        None, "demo", "--keep", "--engine", "local", seconds=300, TMPDIR=str(temporary)
    )
    ways = re.findall(r"^(?:root|leaf):  (.+)$", done.err, re.MULTILINE)
    stops = re.findall(r"^stop it: (.+)$", done.err, re.MULTILINE)
    try:
        assert len(ways) == len(stops) == 2
        counts = [
            cascade.processes.run(["sh", "-c", f"{way} -Atc 'select count(*) from shop.audit'"])
            for way in ways
        ]
        assert counts[0].out == counts[1].out and int(counts[0].out) > 0
        (settings,) = re.findall(r"^settings:  (.+)/root.toml, ", done.err, re.MULTILINE)
        cascade.londiste(Path(settings) / "leaf.toml", "tables")
    finally:
        for stop in stops:
            assert cascade.processes.run(["sh", "-c", stop]).code == 0
    cascade.wait(lambda: not list(temporary.glob("*/*/data/postmaster.pid")), "their end")


def started(cascade: Cascade, temporary: Path, *words: str) -> Process:
    """A demo on this host."""
    argv = cascade.command(None, "demo", *words, "--engine", "local")
    return cascade.processes.start("demo", argv, {"TMPDIR": str(temporary)})


def nothing_left(cascade: Cascade, temporary: Path) -> None:
    cascade.wait(lambda: cascade.processes.living() == {}, "the end of its processes")
    cascade.wait(
        lambda: not [path for path in temporary.iterdir() if path.name.startswith("londiste-")],
        "the end of its files",
    )


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_the_console_of_a_demo_answers_and_the_demo_leaves_nothing_when_it_is_stopped(
    number: signal.Signals, cascade: Cascade, temporary: Path
) -> None:
    pytest.importorskip("starlette", reason="needs the extra web")
    demo = started(cascade, temporary, "--web")
    pattern = r"console: (http://127\.0\.0\.1:\d+)"
    address = cascade.wait(lambda: re.search(pattern, demo.said()), "its console", 120)[1]

    def read(page: str) -> str:
        with urllib.request.urlopen(f"{address}/{page}", timeout=20) as answer:
            return str(answer.read().decode())

    nodes = {one["node"] for one in json.loads(read("api/v1/cascade"))["nodes"]}
    assert nodes == {"root", "leaf"}
    assert "<title>Tables" in read("tables")
    cascade.wait(lambda: "shop." in read("api/v1/tables"), "its tables")
    demo.send(number)
    assert demo.wait(30) == (130 if number == signal.SIGINT else -number)
    nothing_left(cascade, temporary)
    with pytest.raises(OSError):
        read("tables")


def test_a_demo_that_is_interrupted_while_its_servers_start_leaves_nothing(
    cascade: Cascade, temporary: Path
) -> None:
    demo = started(cascade, temporary)
    cascade.wait(lambda: "starting two PostgreSQL servers" in demo.said(), "its first line")
    demo.send(signal.SIGINT)
    assert demo.wait(60) == 130, demo.said()
    nothing_left(cascade, temporary)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory that the account of the servers can enter, other than pytest's own."""
    with tempfile.TemporaryDirectory(prefix="ld") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
