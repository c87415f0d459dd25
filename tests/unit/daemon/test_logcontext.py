"""Log lines name their job, queue, batch and tick."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from londiste.daemon import logcontext
from londiste.daemon.logging import setup
from londiste.daemon.loop import as_londiste, report
from londiste.errors import StateError

log = logging.getLogger("somebody.else")


class Kept(logging.Handler):
    """Keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(logcontext.Fields())
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    root = logging.getLogger()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    setup(console=False)


def test_records_of_any_logger_have_what_is_bound(kept: Kept) -> None:
    log.warning("outside")
    with logcontext.bound(job="j", queue="q"):
        with logcontext.bound(batch=5, tick=7, queue="inner"):
            log.warning("inside")
        log.warning("between")
    first, second, third = ([getattr(r, f) for f in logcontext.FIELDS] for r in kept.records)
    assert first == [None] * 7
    assert second == [None, None, "j", "inner", None, 5, 7]
    assert third == [None, None, "j", "q", None, None, None]


def test_threads_of_a_pool_do_not_see_each_others_fields(kept: Kept) -> None:
    together = threading.Barrier(4)

    def work(number: int) -> None:
        with logcontext.bound(batch=number):
            together.wait(60)
            log.warning("%d", number)

    with logcontext.bound(queue="q"), ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        log.warning("main")
    seen = {r.getMessage(): (r.queue, r.batch) for r in kept.records}  # type: ignore[attr-defined]
    assert seen == {**{str(n): (None, n) for n in range(4)}, "main": ("q", None)}


def test_a_thread_can_be_given_the_fields_of_its_starter(kept: Kept) -> None:
    with logcontext.bound(queue="q"):
        thread = threading.Thread(target=logcontext.carried(lambda: log.warning("x")))
    thread.start()
    thread.join()
    assert kept.records[0].queue == "q"  # type: ignore[attr-defined]


def test_an_error_is_reported_with_the_batch_it_happened_in(kept: Kept) -> None:
    try:
        with logcontext.bound(queue="q"):
            try:
                with logcontext.bound(batch=3):
                    raise ValueError("broken")
            except ValueError as error:
                raise StateError("no good") from error
    except StateError as error:
        report(as_londiste(error))
    record = kept.records[-1]
    assert (record.queue, record.batch) == ("q", 3)  # type: ignore[attr-defined]


def test_extra_of_a_caller_wins_and_harms_nothing(kept: Kept) -> None:
    with logcontext.bound(queue="q"):
        log.warning("x", extra={"queue": "own"})
    assert kept.records[0].queue == "own"  # type: ignore[attr-defined]


def test_the_plain_log_shows_what_is_bound_when_it_is_verbose(tmp_path: Path) -> None:
    ours = logging.getLogger("londiste.test")
    for verbose in (0, 1):
        setup(logfile=tmp_path / f"log{verbose}", console=False, verbose=verbose)
        ours.info("unbound")
        with logcontext.bound(queue="q", batch=3):
            ours.info("bound")
    unbound, bound = (tmp_path / "log0").read_text().splitlines()
    assert unbound.endswith(" node=- queue=-: unbound")
    assert bound.endswith(" node=- queue=q: bound")
    unbound, bound = (tmp_path / "log1").read_text().splitlines()
    assert unbound.endswith(" node=- queue=-: londiste.test: unbound")
    assert bound.endswith(" node=- queue=q: londiste.test: bound [batch=3]")


def test_the_fields_of_an_error_that_is_its_own_cause_are_found() -> None:
    with pytest.raises(ValueError) as caught:
        with logcontext.bound(queue="q"):
            try:
                raise ValueError("x")
            except ValueError as error:
                raise error from error
    assert logcontext.of(caught.value)["queue"] == "q"
