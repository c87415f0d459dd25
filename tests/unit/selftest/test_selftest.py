"""Pure parts of ``londiste selftest``: the choice of tables, the book of promises, the report."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.documents import dumped
from londiste.cli.errors import run
from londiste.selftest.promises import PROMISES, Book, Breach
from londiste.selftest.report import (
    PromiseResult,
    Report,
    SelftestFigures,
    SelftestServer,
    StepResult,
    figures,
    page,
    quantile,
)
from londiste.selftest.run import zoo
from londiste.selftest.shapes import SHAPES


def report(**more: object) -> Report:
    server = SelftestServer("shop@db:5432", "18.0", {"fsync": "on"})
    promise = PromiseResult("rows", "All rows.", 3, "broken", "3 <rows>", "table a", "look")
    given = {
        "result": "broken",
        "seed": 7,
        "minutes": 5.0,
        "seconds": 301.0,
        "started": datetime(2027, 1, 31, 8, 25, tzinfo=UTC),
        "londiste": "4",
        "source": server,
        "target": server,
        "settings": {"engine": "local"},
        "tables": ["londiste_selftest.ledger"],
        "promises": [promise],
        "steps": [StepResult("kill the worker", 2, 1.25), StepResult("kill the ticker")],
        "measured": SelftestFigures(),
        **more,
    }
    return Report(**given)  # type: ignore[arg-type]


def test_a_seed_chooses_the_tables_of_a_short_test() -> None:
    assert zoo(3, 0.2) == zoo(3, 0.2)
    assert {t.sql for t in zoo(3, 0.2)} != {t.sql for t in zoo(4, 0.2)}
    assert [t.shape.name for t in zoo(3, 5)] == list(SHAPES)


def test_a_promise_is_held_only_if_it_was_checked_and_the_first_breach_counts() -> None:
    alarms: list[Breach] = []
    book = Book(alarms.append)
    book.checked("rows", "once")
    book.checked("rows")
    assert book.checks["rows"] == 2
    assert (book.result("rows"), book.result("order")) == ("held", "not checked")
    for number in (1, 2):
        book.broke("rows", f"breach {number}", "here", "look")
    assert book.result("rows") == "broken"
    assert [one.what for one in alarms] == ["breach 1"]


def test_latencies_are_values_that_were_measured() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([float(n) for n in range(100)], 0.95) == 95.0
    shown = dict(figures(SelftestFigures(latency_p50=0.0251, latency_p95=0.2, latency_count=9)))
    assert shown["commit to visible"] == "p50 25 ms, p95 200 ms (9 transactions)"
    assert dict(figures(SelftestFigures()))["commit to visible"] == "not measured"


def test_the_page_shows_a_broken_promise_first_and_escapes_what_it_shows() -> None:
    text = page(report())
    assert text.index("Broken: All rows.") < text.index("Faults and commands")
    assert "3 &lt;rows&gt;" in text and "Next: look" in text
    assert "Broken" not in page(report(promises=[]))
    assert json.loads(dumped(report(), ascii_only=True))["promises"][0]["next"] == "look"


def test_the_file_of_another_node_in_the_directory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("londiste.toml").write_text('[londiste]\nregister_only_tables = "a.b"\nno_key = 1\n')
    call = ["selftest", "host=/nowhere dbname=a", "host=/nowhere dbname=b"]
    assert run(cli, call) == 6
    assert run(cli, ["-c", "londiste.toml", *call]) == 2
    assert "no_key" in capsys.readouterr().err


def test_every_promise_is_a_sentence() -> None:
    assert all(
        text.endswith(".") and text[0] in "ABCDEFGHIJKLMNOPQRSTUVWXYZc"
        for text in PROMISES.values()
    )
