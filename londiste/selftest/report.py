"""The report of a self-test: as data, as lines and as an HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

NOT_MEASURED = (
    "The throughput of native replication is not measured: CREATE SUBSCRIPTION needs rights that"
    " the test does not ask for."
)


@dataclass(frozen=True)
class SelftestServer:
    """A database and its server.

    database -- without user and password.
    """

    database: str
    version: str
    settings: Mapping[str, str]


@dataclass(frozen=True)
class PromiseResult:
    """A promise, and what became of it.

    result -- `held`, `broken` or `not checked`.
    what, where, next -- of a broken promise: what happened, where, and what to do; else empty.
    """

    promise: str
    text: str
    checks: int
    result: str
    what: str = ""
    where: str = ""
    next: str = ""


@dataclass
class StepResult:
    """A fault or a command, and how often it was tried.

    longest -- seconds until the target was in sync again.
    not_possible -- why it was not tried; else empty.
    """

    step: str
    times: int = 0
    longest: float = 0.0
    not_possible: str = ""


@dataclass(frozen=True)
class SelftestFigures:
    """Figures of the test.

    committed, rolled_back -- transactions of the application.
    copy_seconds -- of the initial copy of all tables, under load.
    burst_rows, burst_seconds -- one large transaction, from commit to visible.
    latency_p50, latency_p95 -- seconds from commit to visible, in times without a fault.
    latency_count -- number of transactions measured.
    """

    committed: int = 0
    rolled_back: int = 0
    transactions_per_second: float = 0.0
    copy_seconds: float = 0.0
    burst_rows: int = 0
    burst_seconds: float = 0.0
    burst_rows_per_second: float = 0.0
    latency_p50: float | None = None
    latency_p95: float | None = None
    latency_count: int = 0


@dataclass(frozen=True)
class Report:
    """The result of a self-test.

    result -- `held`, `broken` or `interrupted`.
    settings -- of Londiste in the test.
    logs -- directory of the programs' logs, if they are kept.
    """

    result: str
    seed: int
    minutes: float
    seconds: float
    started: datetime
    londiste: str
    source: SelftestServer
    target: SelftestServer
    settings: Mapping[str, str]
    tables: Sequence[str]
    promises: Sequence[PromiseResult]
    steps: Sequence[StepResult]
    measured: SelftestFigures
    logs: str | None = None
    notes: Sequence[str] = field(default_factory=list)


def quantile(values: Sequence[float], share: float) -> float | None:
    """Pure: the value that this share of the values does not exceed; None of no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def figures(measured: SelftestFigures) -> list[tuple[str, str]]:
    """Pure: names and values for readers."""
    latency = "not measured"
    if measured.latency_p50 is not None and measured.latency_p95 is not None:
        latency = (
            f"p50 {measured.latency_p50 * 1000:.0f} ms, p95 {measured.latency_p95 * 1000:.0f} ms"
            f" ({measured.latency_count} transactions)"
        )
    return [
        ("transactions", f"{measured.committed} committed, {measured.rolled_back} rolled back"),
        ("rate", f"{measured.transactions_per_second:.0f} transactions/s"),
        ("commit to visible", latency),
        (
            "one large transaction",
            f"{measured.burst_rows} rows in {measured.burst_seconds:.1f} s,"
            f" {measured.burst_rows_per_second:.0f} rows/s",
        ),
        ("initial copy", f"{measured.copy_seconds:.1f} s"),
    ]


def page(report: Report) -> str:
    """Pure: the report as an HTML page."""
    parts = [
        f"<h1>londiste selftest: {_e(report.result)}</h1>",
        f"<p>{_e(report.source.database)} to {_e(report.target.database)},"
        f" {report.started:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s, seed {report.seed},"
        f" londiste {_e(report.londiste)}</p>",
        *_broken(report),
        "<h2>Promises</h2>",
        _table(
            ("promise", "checks", "result"),
            [(p.text, p.checks, p.result) for p in report.promises],
        ),
        "<h2>Faults and commands</h2>",
        _table(
            ("step", "times", "in sync again after at most"),
            [(s.step, s.times, s.not_possible or f"{s.longest:.1f} s") for s in report.steps],
        ),
        "<h2>Figures</h2>",
        _table(("", ""), figures(report.measured)),
        "<h2>Servers and settings</h2>",
        _table(
            ("setting", "source", "target"),
            [
                ("version", report.source.version, report.target.version),
                *(
                    (name, value, report.target.settings.get(name, ""))
                    for name, value in report.source.settings.items()
                ),
            ],
        ),
        _table(("setting of londiste", "value"), list(report.settings.items())),
        "<h2>Tables</h2>",
        f"<p>{_e(', '.join(report.tables))}</p>",
        *(f"<p>{_e(note)}</p>" for note in report.notes),
    ]
    return _FRAME.format(body="\n".join(parts))


def _broken(report: Report) -> Iterator[str]:
    for one in report.promises:
        if one.result == "broken":
            yield (
                f'<p class="broken"><b>Broken: {_e(one.text)}</b><br>{_e(one.what)}<br>'
                f"Where: {_e(one.where)}<br>Next: {_e(one.next)}</p>"
            )


def _table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    first = "".join(f"<th>{_e(word)}</th>" for word in head)
    rest = "\n".join(
        f"<tr>{''.join(f'<td>{_e(value)}</td>' for value in line)}</tr>" for line in lines
    )
    return f"<table><tr>{first}</tr>\n{rest}</table>"


def _e(value: Any) -> str:
    return html.escape(str(value))


_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>londiste selftest</title><style>
body {{ font-family: system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse; margin: 0.5em 0 }}
td, th {{ border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: left }}
.broken {{ border: 2px solid #b00; padding: 0.6em }}
</style></head><body>
{body}
</body></html>
"""
