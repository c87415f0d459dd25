"""Logging failures do not stop the process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.daemon.logging import setup

log = logging.getLogger("londiste.test")


@pytest.fixture(autouse=True)
def no_handlers_left() -> Iterator[None]:
    yield
    setup(console=False)


def test_a_log_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    setup(logfile=path, console=False)
    log.info("before")
    path.rename(tmp_path / "log.1")
    log.info("after")
    assert "before" in (tmp_path / "log.1").read_text()
    assert "after" in path.read_text()
    # As the first: for its owner and group.
    assert path.stat().st_mode & 0o027 == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_full_disk_is_said_once_and_ends_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    setup(logfile=Path("/dev/full"), console=False)
    for number in range(3):
        log.info("message %d", number)
    assert capfd.readouterr().err == "logfile /dev/full: [Errno 28] No space left on device\n"


def test_a_directory_that_has_gone_is_said_once_and_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gone" / "log"
    path.parent.mkdir()
    setup(logfile=path, console=False)
    path.unlink()
    path.parent.rmdir()
    log.info("one")
    log.info("two")
    assert capfd.readouterr().err.count("No such file or directory") == 1
    path.parent.mkdir()
    log.info("three")
    assert path.read_text().count("\n") == 1
