"""The page about outages has a row for each outage that a test makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra web")

from tests.scenarios.monitor.observers import SOURCES
from tests.scenarios.monitor.test_table_of_outages import ALL, BEGIN, END

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "outages.md"


def test_the_page_has_a_row_for_each_outage() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    names = [re.sub(r" \(limit .*\)", "", row[0].strip()).replace(" ", "_") for row in rows]
    assert names == list(ALL)
    assert len(names) >= 30
    for row in rows:
        cells = [cell.strip() for cell in row[1:]]
        assert len(cells) == len(SOURCES)
        for cell in cells:
            assert cell == "cannot" or re.search(r", \d+ s$", cell), row
            assert not re.match(r"`?ok\b", cell, re.IGNORECASE), row
