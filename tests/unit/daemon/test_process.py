"""The context of a daemon leaves nothing open in a process that continues after it."""

from __future__ import annotations

from pathlib import Path

from londiste.daemon.process import process


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_each_file_of_the_context_is_closed_at_its_end() -> None:
    before = _open_files()
    for _ in range(3):
        with process(quiet=True, announced=False) as signals:
            signals.wait(0)
    assert _open_files() == before
    # A thread that still has the signals may call this.
    signals.wake()
