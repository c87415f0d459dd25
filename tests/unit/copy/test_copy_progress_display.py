"""Progress bars and lines of running copies."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from londiste.cli.copy import progress_display
from londiste.cli.copy.progress_display import DisplayedCopy, entries
from londiste.cli.documents import plain
from londiste.copy.progress import ChunkTimes, InFlight, Progress, progress
from londiste.copy.sqlapi.attempts import Attempt
from londiste.copy.sqlapi.control import Control
from londiste.copy.status import Build, CopyLag, CopyStatus, TableStatus
from tests.support.documents import check

ATTEMPT = Attempt("public.a", 1, 30.0, False, 40_000_000, 1000, 4, 2, 500, 20_000_000)
LOAD = progress(ATTEMPT, InFlight(250, 10_000_000, 2), ChunkTimes(2, 20_000_000, 20.0))
ITEMS = [
    TableStatus("public.a", "in-copy", "load", 30.0, load=LOAD),
    TableStatus(
        "public.b",
        "catching-up",
        "indexes",
        builds=(Build("b_pkey", "building index: scanning table", 50, 200, 0, 0, 1.0),),
    ),
    TableStatus("public.c", "catching-up", "analyze", analyze=("acquiring sample rows", 1, 4)),
    TableStatus("public.d", "catching-up", "catch-up", 12.0, behind=CopyLag(3, 400)),
    TableStatus("public.e", None),
    TableStatus("public.f", "in-copy", "partitions", 7.0, load=LOAD),
]


def test_every_step_has_its_words() -> None:
    assert entries(ITEMS) == [
        DisplayedCopy(
            "public.a",
            0.75,
            "750 rows, 30.0 of about 40.0 MB, 75%, chunks 2+2/4, 2.0 MB/s, about 5 s left",
            brief="750 rows, 30.0 of 40.0 MB, about 5 s left",
        ),
        DisplayedCopy(
            "public.b: index b_pkey", 0.25, "building index: scanning table, block 50 of 200"
        ),
        DisplayedCopy("public.c: analyze", 0.25, "acquiring sample rows"),
        DisplayedCopy("public.d: catch-up", None, "12 s so far, 3 ticks, 400 events behind"),
        DisplayedCopy("public.f: partitions", None, "7 s so far"),
    ]


def test_a_copy_without_space_says_so_first() -> None:
    item = TableStatus("public.a", "in-copy", "load", 30.0, load=LOAD, waits="no space")
    assert entries([item])[0].text.startswith("no space; 750 rows")


def test_bars_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **_: Console(file=written, force_terminal=True, width=200),
    )
    with progress_display._Bars() as bars:
        bars(ITEMS)
        assert len(bars._bars) == 5
        bars([ITEMS[0], replace(ITEMS[2], table="public.x\x9b2J")])
        assert list(bars._bars) == ["public.a", "public.x\x9b2J: analyze"]
    assert "750 rows" in written.getvalue()
    assert r"public.x\x9b2J" in written.getvalue() and "\x9b" not in written.getvalue()


def test_the_stream_of_json_has_a_document_per_copy(capsys: pytest.CaptureFixture[str]) -> None:
    progress_display._Json()(ITEMS)
    document, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (document["table"], document["rows"]) == ("public.a", 750)
    check(document, [Progress])
    check({"version": 1, **plain(CopyStatus(Control(), ITEMS))}, [CopyStatus])
