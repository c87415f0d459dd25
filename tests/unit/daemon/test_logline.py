"""Log lines have one form, which one regular expression reads."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from datetime import datetime
from pathlib import Path

import pytest

from londiste.daemon import logcontext, logjson
from londiste.daemon.logging import LogTarget, formatter, setup
from londiste.daemon.logline import LINE, has_form
from londiste.daemon.process import process
from londiste.daemon.statistics import BatchStatistics
from londiste.settings import TickerSettings
from londiste.ticker.database import Counts
from londiste.ticker.service import worked

ROOT = Path(__file__).parents[3]


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "londiste.test", "levelname": "INFO", "msg": message, "process": 7, **fields}
    )
    logcontext.Fields().filter(made)
    return made


def parsed(text: str) -> dict[str, str]:
    found = LINE.fullmatch(text)
    assert found is not None, text
    return found.groupdict()


@pytest.mark.parametrize("name", ["main", "a b", 'a"b', "a:b", ": ", "ü", "-", "a\nb", '" x=: '])
def test_a_line_is_read_back_whatever_the_names_are(name: str) -> None:
    for message in ("plain", "a: b", ' queue="x": y', ""):
        text = formatter("text").format(
            record(message, program="worker", node=name, queue=name, levelname="WARNING")
        )
        found = parsed(text)
        assert (found["level"], found["program"], found["pid"]) == ("WARNING", "worker", "7")
        assert found["message"] == message
        assert found["node"] == found["queue"]
        assert datetime.fromisoformat(found["time"]).utcoffset() is not None
        assert has_form(text)


def test_every_line_of_a_traceback_has_the_form() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        text = formatter("text", detailed=True).format(record("failed", exc_info=sys.exc_info()))
    lines = text.splitlines()
    assert len(lines) > 3
    assert [parsed(one)["message"] for one in lines][-2:] == ["ValueError: first", "second"]


def test_fields_of_the_process_are_in_every_line_and_bound_ones_win() -> None:
    logcontext.of_process(program="copy", node="leaf")
    try:
        with logcontext.bound(node="other"):
            assert (record("x").program, record("x").node) == ("copy", "other")  # type: ignore[attr-defined]
        assert record("x").node == "leaf"  # type: ignore[attr-defined]
    finally:
        logcontext.of_process(program=None, node=None)


def test_warnings_and_errors_of_threads_have_the_form(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("broken\nthread")

    try:
        with process(logfile=tmp_path / "log", announced=False):
            warnings.warn("two\nlines", stacklevel=1)
            thread = threading.Thread(target=fail, name="the one")
            thread.start()
            thread.join()
    finally:
        setup(console=False)
    found = [parsed(line)["message"] for line in (tmp_path / "log").read_text().splitlines()]
    assert "two\\x0alines" in found[0]
    assert "thread the one has failed" in found
    assert found[-1] == "thread"


def test_other_lines_have_not_the_form() -> None:
    for text in ("", "Traceback (most recent call last):", "error: x", "2026-01-01 12:00:00 x"):
        assert not has_form(text)


def test_the_setting_chooses_json_with_the_documented_keys(tmp_path: Path) -> None:
    target = LogTarget.of(TickerSettings(log_format="json", logfile=tmp_path / "log"))
    try:
        setup(console=False, target=target)
        logging.getLogger("londiste.test").info("one")
    finally:
        setup(console=False)
    text = (tmp_path / "log").read_text().rstrip("\n")
    assert set(json.loads(text)) == set(logjson.ALWAYS)
    assert has_form(text)


def test_the_page_describes_every_key() -> None:
    page = (ROOT / "docs/howto/logging.md").read_text(encoding="utf-8")
    for key, meaning in {**logjson.ALWAYS, **logjson.SOMETIMES}.items():
        assert f"| `{key}` | {meaning.removesuffix('.')} |" in page, key
    assert re.sub(r"\(\?P<\w+>", "(", LINE.pattern) in page


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (Counts(), False),
        (Counts(ticks=2, maintenance=9), False),
        (Counts(ticks=5), True),
        (Counts(retries=1), True),
    ],
)
def test_a_ticker_of_idle_queues_has_no_statistics(counts: Counts, expected: bool) -> None:
    assert worked(counts, 2 if counts.ticks == 2 else 1) is expected


def test_statistics_are_logged_after_work_or_after_a_long_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("londiste.daemon.statistics.time.monotonic", lambda: now[0])
    caplog.set_level(logging.INFO)
    statistics = BatchStatistics(30, 600)
    for moment, lines in ((31, 0), (599, 0), (600, 1), (640, 1)):
        now[0] = moment
        statistics.log_when_due()
        assert len(caplog.records) == lines, moment
    statistics.count(1, 0.1, {})
    statistics.log_when_due()
    assert len(caplog.records) == 2
