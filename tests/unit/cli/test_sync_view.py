"""View of nodes that come into sync: lines without a terminal, and a frame with bars."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from londiste.cli import output, sync_view
from londiste.cli.copy.progress_display import DisplayedCopy
from londiste.cli.sync_view import Lines, ViewLine
from londiste.cli.tables.common import sync_line
from londiste.db.names import TableName
from londiste.replication.model import ReplicatedTable

COPY = DisplayedCopy("public.a", 0.5, "750 rows, 30.0 of about 40.0 MB, about 5 s left")


def test_a_line_is_printed_when_its_key_changes_and_numbers_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    now = 100.0
    monkeypatch.setattr(output, "message", said.append)
    monkeypatch.setattr(sync_view.time, "monotonic", lambda: now)
    view = Lines()
    view([COPY], [ViewLine("b: 1 tick", "behind")])
    view([COPY], [ViewLine("b: 2 ticks", "behind")])
    assert said == ["b: 1 tick"]
    view([COPY], [ViewLine("b: in sync", "in sync")])
    assert said == ["b: 1 tick", "b: in sync"]
    now = 111.0
    view([COPY], [ViewLine("b: in sync", "in sync")])
    assert said[2:] == [f"public.a: {COPY.text}"]
    now = 122.0
    view([], [ViewLine("b: in sync, more", "in sync")])
    assert said[3:] == ["b: in sync, more"]


def test_tables_are_counted_without_names_of_states() -> None:
    def table(name: str, state: str | None) -> ReplicatedTable:
        found = TableName("public", name)
        return ReplicatedTable(found, found, True, state)

    states = [("a", "ok"), ("b", None), ("c", "in-copy"), ("d", "wanna-sync:7"), ("e", None)]
    assert sync_line([table(*one) for one in states]) == (
        "1 of 5 tables in sync; public.b waits for its copy, public.c is being copied,"
        " public.d catches up and 1 more"
    )
    assert sync_line([table("a", "ok")]) == "1 of 1 table in sync"


def test_a_frame_has_a_bar_for_each_copy_and_the_lines_below() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100, color_system=None)
    lines = [ViewLine("node: 1 of 2 tables in sync\x1b", 1)]
    console.print(sync_view._frame([COPY], lines))
    first, second = written.getvalue().splitlines()
    assert first.startswith("public.a ━") and first.endswith("about 5 s left")
    assert second.rstrip() == "node: 1 of 2 tables in sync\\x1b"
