"""Charts of the figures in docs/benchmarks.md, as SVG.

A chart names a table of the page by words of its heading line; no figure is written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

#: Of bars, in turns; visible on light and on dark pages.
_COLOURS = ("#2f6fab", "#c77d2e", "#4c9a62", "#8a5fb0")
_TEXT = "#808080"


@dataclass(frozen=True)
class Chart:
    """A chart of columns of one table.

    table -- words that the heading line of the table contains.
    columns -- headings of the columns of figures, each a bar of its colour.
    label -- number of columns that make the label of a row.
    title, unit -- of the chart.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    title: str
    unit: str
    label: int = 1


CHARTS = (
    Chart("replay", "| workload | way | s |", ("s",), "Replay of 500,000 changes", "s", label=2),
    Chart(
        "copy",
        "| way | 2,000,000 rows |",
        ("2,000,000 rows", "5,000,000 rows"),
        "Initial copy until the tables are ok",
        "s",
    ),
    Chart(
        "compare",
        "| | 10,000,000 rows, s |",
        ("10,000,000 rows, s", "1,000,000 rows, s"),
        "Compare",
        "s",
    ),
    Chart("latency", "| way | p50 ms | p95 ms | p99 ms |", ("p50 ms", "p95 ms"), "Latency", "ms"),
    Chart("drain", "| way | events/s | × job", ("events/s",), "Draining 1,000,000 events", ""),
)


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def number(text: str) -> float | None:
    """The figure of a cell; None if it has none."""
    found = re.match(r"\**(\d[\d,]*(?:\.\d+)?)", text)
    return float(found[1].replace(",", "")) if found else None


def rows(page: str, chart: Chart) -> Iterator[tuple[str, list[tuple[str, float | None]]]]:
    """The labels of the rows of a chart's table, with the cells and their figures.

    Raises ValueError if the page has no such table.
    """
    lines = page.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(chart.table)), None)
    if start is None:
        raise ValueError(f"chart {chart.name}: no table begins with {chart.table}")
    heading = cells(lines[start])
    places = [heading.index(column) for column in chart.columns]
    above = [""] * chart.label
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        row = cells(line)
        above = [new or old for new, old in zip(row[: chart.label], above, strict=True)]
        yield (
            ", ".join(above).replace("`", ""),
            [(row[place], number(row[place])) for place in places],
        )


def svg(page: str, chart: Chart) -> str:
    """The chart as SVG: horizontal bars with their figures."""
    found = list(rows(page, chart))
    most = max(value for _, bars in found for _, value in bars if value is not None)
    width, left, bar = 720, 270, 16
    parts: list[str] = []
    y = 34
    for label, bars in found:
        middle = y + bar * len(bars) / 2 + 4
        parts.append(_text(left - 8, middle, label, "end"))
        for place, (words, value) in enumerate(bars):
            if value is not None:
                length = max(1.0, value / most * (width - left - 110))
                parts.append(
                    f'<rect x="{left}" y="{y + 1}" width="{length:.1f}" height="{bar - 2}"'
                    f' fill="{_COLOURS[place]}"/>'
                )
                figure = f"{words.replace('*', '')} {chart.unit}".strip()
                parts.append(_text(left + length + 6, y + bar - 4, figure, "start"))
            y += bar
        y += 8
    if len(chart.columns) > 1:
        for place, column in enumerate(chart.columns):
            x = left + place * 170
            parts.append(
                f'<rect x="{x}" y="{y + 2}" width="10" height="10" fill="{_COLOURS[place]}"/>'
            )
            parts.append(_text(x + 16, y + 11, column, "start"))
        y += 20
    title = _text(left, 20, f"{chart.title}{', ' if chart.unit else ''}{chart.unit}", "start")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 6}" role="img"'
        f' font-family="sans-serif" font-size="12"><title>{escape(chart.title)}</title>'
        f"{title}{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, words: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{_TEXT}">{escape(words)}</text>'


def with_charts(page: str, charts: Sequence[Chart] = CHARTS) -> str:
    """The page with an image after the table of each chart."""
    lines = page.splitlines()
    for chart in charts:
        start = next(n for n, line in enumerate(lines) if line.startswith(chart.table))
        rest = range(start, len(lines))
        end = next((n for n in rest if not lines[n].startswith("|")), len(lines))
        words = f"{chart.title}: the figures of the table above"
        lines[end:end] = ["", f"![{words}](charts/{chart.name}.svg)"]
    return "\n".join(lines) + "\n"
