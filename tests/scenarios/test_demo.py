"""The demo does what it promises, and leaves nothing behind."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.harness import Cascade


@pytest.mark.slow
@pytest.mark.timeout(400)
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
    assert cascade.processes.living() == {}
    assert [path.name for path in temporary.iterdir() if path.name.startswith("londiste-")] == []


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory that the account of the servers can enter, other than pytest's own."""
    with tempfile.TemporaryDirectory(prefix="ld") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
