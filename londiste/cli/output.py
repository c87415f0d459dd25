"""Prints results to stdout as a table or JSON, and messages to stderr.

Tables are plain columns without colours or frames, so that awk can read them.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from londiste.cli import layout
from londiste.cli.errors import pasteable, phrase, printable

if TYPE_CHECKING:
    from londiste.monitor.queues.model import Finding


class Describes(Protocol):
    """A step that describes in one line what it does."""

    def describe(self) -> str: ...


def as_json(value: Any) -> None:
    """Prints one JSON document to stdout."""
    # What the terminal's encoding does not have would break the document.
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    utf8 = codecs.lookup(encoding).name == "utf-8"
    click.echo(json.dumps(value, default=_plain, ensure_ascii=not utf8))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows in aligned columns, without colours or frames, so that ``awk`` can read it.

    On a terminal it is as wide as the terminal at most.
    """
    cells = [[cell(value) for value in row] for row in rows]
    hidden: list[str] = []
    lines = [list(columns), *cells]
    if sys.stdout is not None and sys.stdout.isatty():
        lines, hidden = layout.fit(columns, cells, shutil.get_terminal_size().columns)
    for line in layout.aligned(lines):
        click.echo(line)
    if hidden:
        message(f"no room for {', '.join(hidden)}: use a wider terminal, a pipe or --json")


def show(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    json_wanted: bool,
    empty: str = "",
) -> None:
    """Prints the same rows as JSON (a list of objects) or as a table of ``columns``.

    empty -- message instead of a table without rows.
    """
    if json_wanted:
        as_json([{column: row.get(column) for column in columns} for row in rows])
    elif empty and not rows:
        message(pasteable(empty))
    else:
        table(columns, [[row.get(column) for column in columns] for row in rows])


def steps(items: Iterable[Describes], *, json_wanted: bool = False) -> None:
    """Prints what a command would do, numbered; the SQL of a step below it.

    As JSON a text for each step, its SQL in the lines behind the first.
    """
    found = [(item.describe(), _sql(item)) for item in items]
    if json_wanted:
        as_json(["\n".join([text, *more]) for text, more in found])
        return
    if not found:
        click.echo("nothing to do")
    for number, (text, more) in enumerate(found, 1):
        click.echo(f"{number}. {phrase(text)}")
        for statement in more:
            for line in statement.splitlines():
                click.echo(f"   {_harmless(line)}")


def _sql(item: Describes) -> list[str]:
    explain = getattr(item, "explain", None)
    return list(explain()) if explain is not None else []


def _harmless(line: str) -> str:
    """A line as it is, but for control characters."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line)


def lines(texts: Sequence[str], *, json_wanted: bool = False) -> None:
    """Prints the steps of a plan, one a line, numbered."""
    if json_wanted:
        as_json(texts)
        return
    if not texts:
        click.echo("nothing to do")
    for number, text in enumerate(texts, 1):
        click.echo(f"{number}. {phrase(text)}")


_quiet = False


def be_quiet(quiet: bool) -> None:
    """With ``-q`` messages are left out; warnings and errors are not."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether messages are left out."""
    return _quiet


def message(text: str) -> None:
    """A message to stderr, unless ``-q`` is given."""
    if not _quiet:
        click.echo(phrase(text), err=True)


def next_step(commands: str) -> None:
    """What to type next, with the options of this call."""
    message(pasteable(f"next: {commands}"))


def warning(text: str) -> None:
    """A warning to stderr, also with ``-q``."""
    click.echo(f"warning: {phrase(text)}", err=True)


def advise(findings: Iterable[Finding]) -> None:
    """Findings of a command that does something else, as warnings; notices are omitted."""
    for one in findings:
        if one.severity:
            warning(f"{one.what}: {one.why}; {one.do}")


def cell(value: Any) -> str:
    """One value of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return interval(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, Enum):
        return str(value.value)
    return printable(str(value))


def interval(value: timedelta) -> str:
    """``1d2h3m4s``, without the parts that are zero."""
    seconds = int(value.total_seconds())
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    if seconds or not parts:
        parts.append(f"{seconds}s")
    return sign + "".join(parts)


def on_terminal() -> bool:
    """Progress bars make sense: stderr is a terminal."""
    return sys.stderr.isatty()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")
