"""Counters that a process shares with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from londiste.metrics.catalog import Histogram
from londiste.metrics.tally import FILE, ChildTallies, WorkerTally, in_file, inherited

CHILD = """
import os
from londiste.metrics.tally import FILE, WorkerTally, inherited
tally = WorkerTally("worker", inherited())
assert FILE not in os.environ
tally.batch(10, 0.003)
tally.batch(5, 99.0)
os.kill(os.getpid(), 9)
"""


def test_a_parent_reads_what_killed_children_have_counted() -> None:
    tallies = ChildTallies()
    assert tallies.file("web") == tallies.file("notify") == {}
    given = tallies.file("worker n1")
    env = {**os.environ, **{name: str(number) for name, number in given.items()}}
    for _ in range(2):
        argv = [sys.executable, "-c", CHILD]
        assert subprocess.run(argv, env=env, pass_fds=tuple(given.values())).returncode == -9
        # A daemon that is started again gets the same file.
        assert tallies.file("worker n1") == given
    found = {one.name: one for one in tallies.samples()}
    assert {one.labels["daemon"] for one in found.values()} == {"worker n1"}
    assert found["londiste_worker_batches_total"].value == 4
    assert found["londiste_worker_events_total"].value == 30
    histogram = found["londiste_worker_batch_duration_seconds"].value
    assert isinstance(histogram, Histogram)
    assert (sum(histogram.counts), histogram.counts[2], histogram.counts[-1]) == (4, 2, 2)
    assert histogram.sum == pytest.approx(198.006)


@pytest.mark.parametrize("given", ["x", "-1", "99999", "1" * 30])
def test_a_file_that_is_none_is_ignored(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, given)
    tally = WorkerTally("worker", inherited())
    tally.batch(1, 1.0)
    assert FILE not in os.environ
    assert next(iter(tally.samples())).value == 1


def test_a_file_of_another_size_is_refused_and_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(100)
        with pytest.raises(ValueError, match="not a file of counters"):
            in_file(file.fileno())
        monkeypatch.setenv(FILE, str(file.fileno()))
        inherited()
        os.fstat(file.fileno())
