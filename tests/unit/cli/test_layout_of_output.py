"""Tables fit the terminal's width, and nouns agree with their number."""

from __future__ import annotations

from typing import TypedDict

import pytest

from londiste.cli import output
from londiste.cli.documents import Rows
from londiste.cli.hints import Given
from londiste.cli.layout import aligned, fit, singular

COLUMNS = ["table", "state", "rows", "error"]
ROWS = [
    ["public.orders", "ok", "1000", "-"],
    ["public.a_table_with_a_rather_long_name", "in-copy", "7", "no such column: " + "x" * 60],
]


@pytest.mark.parametrize("width", [200, 80, 60, 40, 20])
def test_a_table_is_not_wider_than_the_terminal(width: int) -> None:
    rows, hidden = fit(COLUMNS, ROWS, width)
    assert max(map(len, aligned(rows))) <= width or len(rows[0]) == 2
    assert [*rows[0], *hidden] == COLUMNS
    if width >= 60:
        assert not hidden
        # A short column is not cut for a long one.
        assert [row[1] for row in rows] == ["state", "ok", "in-copy"]
    if width == 200:
        assert rows[1:] == ROWS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 events", "1 event"),
        ("wrote 1 rows at tick 7", "wrote 1 row at tick 7"),
        ("1 tables are not in sync", "1 table is not in sync"),
        ("1 events lack a key, 2 events too", "1 event lacks a key, 2 events too"),
        ("1 batches; 11 batches; 0.1 seconds", "1 batch; 11 batches; 0.1 seconds"),
        ("0/1 tables in sync", "0/1 tables in sync"),
        ("1 dead letters", "1 dead letter"),
        ("tick-1 events", "tick-1 events"),
    ],
)
def test_a_noun_agrees_with_its_number(text: str, wanted: str) -> None:
    assert singular(text) == wanted


def test_an_empty_list_says_so_and_what_to_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("londiste.cli.errors._call", Given())
    rows = Rows("rows", TypedDict("A", {"a": int}))
    output.show(rows, [], json_wanted=False, empty="no queues: londiste queue create QUEUE")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "no queues: londiste queue create QUEUE\n")
    output.show(rows, [], json_wanted=True, empty="no queues")
    assert capsys.readouterr().out == '{"version": 1, "rows": []}\n'
    output.show(rows, [{"a": 1}], json_wanted=False, empty="no queues")
    assert capsys.readouterr().out == "a\n1\n"
