"""Recorded figures, and the page that is written from them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import report
from bench.support import common

RECORDED = report.recorded()


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_table_names_its_machine_and_has_full_rows(name: str) -> None:
    table = RECORDED[name]
    assert "cores" in table["machine"]
    assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_each_table_of_figures_is_recorded() -> None:
    by_hand = report.MARKED.sub("", report.PAGE.read_text(encoding="utf-8"))
    tables = re.findall(r"(?m)^(\|.*)\n\|---", by_hand)
    assert tables == ["| part | tables | ways |"]


def test_a_new_run_replaces_its_tables_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "_KEPT", {})
    file = tmp_path / "latency.json"
    old = {"columns": ["way", "ms"], "rows": [["theirs [C]", "1.0"], ["ours", "2.0"]]}
    file.write_text(json.dumps({"commits": old, "rest": old}))
    common.table(["way", "ms"], [["ours | all", "3.5"]], "commits")
    common.table(["not recorded"], [["1"]])
    common.record(file)
    new = report.recorded(tmp_path)
    assert set(new) == {"latency/commits", "latency/rest"}
    assert new["latency/rest"] == old
    assert new["latency/commits"]["rows"] == [["ours | all", "3.5"]]
    assert "cores" in new["latency/commits"]["machine"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", new["latency/commits"]["date"])
    page = "a\n<!-- figures: latency/commits -->\nold\n<!-- end -->\nb\n"
    made = report.with_tables(page, new)
    assert "| way | ms |\n|---|--:|\n| ours | all | 3.5 |\n<!-- end -->\nb\n" in made
    # A row is a line of the file, so a difference of two runs can be read.
    assert '   ["theirs [C]", "1.0"]' in file.read_text(encoding="utf-8")
    words = ["-m", "bench.latency", "--json", "a", "--rate", "5", "--record", "b"]
    assert common._without_files(words) == ["-m", "bench.latency", "--rate", "5"]
    capsys.readouterr()
