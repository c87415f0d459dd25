"""Layout of output: tables that fit a terminal, and nouns that agree with their number."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Widths to which long columns are cut, one after the other.
_CUTS = (24, 12)

_NOUNS = (
    "batches|bytes|chunks|columns|consumers|dead letters|delayed events|events|files|findings"
    "|foreign keys|hours|minutes|nodes|objects|partitions|pending events|queues|rows|seconds"
    "|sequences|statements|steps|tables|ticks|times|versions|warnings"
)
_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does"}
_ONE = re.compile(
    rf"(?<![\w.,:/=-])1 ({_NOUNS})\b"
    r"( (?:are|were|have|do|lack|differ|wait|match|hit|contradict)\b)?"
)


def singular(text: str) -> str:
    """``1 tables are missing`` becomes ``1 table is missing``."""
    if "1 " not in text:
        return text
    return _ONE.sub(_agreed, text)


def _agreed(found: re.Match[str]) -> str:
    noun = re.sub("(?<=ch)es$|s$", "", found[1])
    verb = (found[2] or "").strip()
    return f"1 {noun}" + (f" {_VERBS.get(verb, verb + 's')}" if verb else "")


def fit(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> tuple[list[list[str]], list[str]]:
    """The rows, heading first, in at most ``width`` characters; the columns that had no room.

    Long texts are cut first, then columns are left out from the right; two always stay.
    """
    rows = [list(columns), *(list(row) for row in cells)]
    for most in _CUTS:
        for position in sorted(range(len(columns)), key=lambda at: -_widths(rows)[at]):
            excess = _total(rows) - width
            if excess <= 0:
                return rows, []
            wide = max(most, len(columns[position]), _widths(rows)[position] - excess)
            for row in rows:
                row[position] = _cut(row[position], wide)
    hidden: list[str] = []
    while _total(rows) > width and len(rows[0]) > 2:
        hidden.insert(0, rows[0][-1])
        rows = [row[:-1] for row in rows]
    return rows, hidden


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines with aligned columns."""
    widths = _widths(rows)
    return [
        "  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _total(rows: Sequence[Sequence[str]]) -> int:
    widths = _widths(rows)
    return sum(widths) + 2 * (len(widths) - 1)


def _cut(text: str, wide: int) -> str:
    return text if len(text) <= wide else f"{text[: wide - 1]}…"
