"""Durations and limits of copies, formatted for output."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from londiste.cli import output
from londiste.copy.sqlapi.control import Control
from londiste.copy.step_timings import StepTiming

_DONE = ("table", "step", "seconds", "tasks", "at a time", "rows", "bytes", "rate")


def summary(found: Sequence[StepTiming]) -> None:
    """Prints the steps per table, and the sums of each step over all tables."""
    rows = [_done_row(step.table, step) for step in found]
    names = list(dict.fromkeys(step.table for step in found))
    if len(names) > 1:
        for name in dict.fromkeys(step.step for step in found):
            rows.append(_sum_row(name, [step for step in found if step.step == name]))
    output.table(_DONE, rows)


def _done_row(table: str, step: StepTiming) -> list[Any]:
    return [
        table,
        step.step if step.finished else f"{step.step} (not finished)",
        f"{step.seconds:.2f}",
        step.tasks if step.finished else None,
        f"{step.at_work:.1f}" if step.at_work is not None else None,
        step.rows,
        size(step.bytes) if step.bytes is not None else None,
        f"{size(step.bytes / step.seconds)}/s" if step.bytes and step.seconds > 0 else None,
    ]


def _sum_row(name: str, of: Sequence[StepTiming]) -> list[Any]:
    """One step of all tables: from the first beginning to the last end."""
    begin = min(step.started_at for step in of)
    end = max(step.started_at + timedelta(seconds=step.seconds) for step in of)
    seconds = (end - begin).total_seconds()
    busy = sum(step.busy or 0.0 for step in of)
    rows = [step.rows for step in of if step.rows is not None]
    moved = [step.bytes for step in of if step.bytes is not None]
    return [
        "all",
        name,
        f"{seconds:.2f}",
        sum(step.tasks for step in of),
        f"{busy / seconds:.1f}" if busy and seconds > 0 else None,
        sum(rows) if rows else None,
        size(sum(moved)) if moved else None,
        f"{size(sum(moved) / seconds)}/s" if moved and seconds > 0 else None,
    ]


def orders(control: Control) -> list[str]:
    """The pause and the limits of the copies, one a line; empty without any."""
    lines = []
    if control.paused:
        lines.append(
            f"paused since {output.cell(control.changed_at)}; resume: londiste copy resume"
        )
    if control.bytes_per_second is not None:
        lines.append(f"at most {size(control.bytes_per_second)}/s")
    if control.tasks is not None:
        lines.append(f"at most {control.tasks} chunks at a time")
    if control.full_speed:
        lines.append(
            "full speed even if writers of the provider wait; give way: londiste copy throttle"
            " --off"
        )
    if control.held_bytes_per_second is not None:
        lines.append(f"throttled to {size(control.held_bytes_per_second)}/s: {control.held_reason}")
    return lines


def size(count: float) -> str:
    """A human-readable size: 12.3MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f}B" if unit == "B" else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}TB"
