"""Prints results to stdout as a table or JSON, and messages to stderr.

Tables are plain columns without colours or frames, so that awk can read them.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from londiste.cli import layout
from londiste.cli.documents import Rows, Steps
from londiste.cli.documents import as_json as as_json
from londiste.cli.errors import pasteable, phrase, printable
from londiste.daemon import logcontext
from londiste.wording import escaped

if TYPE_CHECKING:
    from londiste.monitor.queues.model import Finding

R = TypeVar("R")


log = logging.getLogger(__name__)


class Describes(Protocol):
    """A step that describes in one line what it does."""

    def describe(self) -> str: ...


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
    document: Rows[R],
    rows: Sequence[R],
    *,
    json_wanted: bool,
    empty: str = "",
    columns: Sequence[str] | None = None,
) -> None:
    """Prints the same rows as JSON or as a table.

    empty -- message instead of a table without rows.
    columns -- of the table, if it does not show all.
    """
    if json_wanted:
        as_json({document.key: rows})
    elif empty and not rows:
        message(empty)
    else:
        shown = document.columns if columns is None else columns
        table(shown, [[_value(row, column) for column in shown] for row in rows])


def _value(row: Any, column: str) -> Any:
    return row.get(column) if isinstance(row, Mapping) else getattr(row, column)


def steps(items: Iterable[Describes], *, json_wanted: bool = False) -> None:
    """Prints what a command would do, numbered; the SQL of a step below it.

    As JSON a text for each step, its SQL in the lines behind the first.
    """
    found = [(item.describe(), _sql(item)) for item in items]
    if json_wanted:
        as_json(Steps(steps=["\n".join([text, *more]) for text, more in found]))
        return
    if not found:
        click.echo("nothing to do")
    for number, (text, more) in enumerate(found, 1):
        click.echo(f"{number}. {phrase(text)}")
        for statement in more:
            for line in statement.splitlines():
                click.echo("   " + escaped(line, "\t"))


def _sql(item: Describes) -> list[str]:
    explain = getattr(item, "explain", None)
    return list(explain()) if explain is not None else []


def exact(text: str | bytes) -> None:
    """Prints lines for another program as they are; on a terminal without control characters."""
    if sys.stdout is not None and sys.stdout.isatty():
        text = escaped(text if isinstance(text, str) else text.decode(), "\t\n")
    click.echo(text, nl=False)


def lines(texts: Sequence[str], *, json_wanted: bool = False) -> None:
    """Prints the steps of a plan, one a line, numbered."""
    if json_wanted:
        as_json(Steps(steps=list(texts)))
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
    """A message to stderr, unless ``-q`` is given; in the background to the log.

    Its commands get the options of this call.
    """
    text = phrase(pasteable(text))
    if logcontext.is_detached():
        log.info("%s", text)
    elif not _quiet:
        click.echo(text, err=True)


def next_step(commands: str) -> None:
    """What to type next."""
    message(f"next: {commands}")


def warning(text: str) -> None:
    """A warning to stderr, also with ``-q``; in the background to the log."""
    text = phrase(pasteable(text))
    if logcontext.is_detached():
        log.warning("%s", text)
        return
    click.echo(f"warning: {text}", err=True)


def advise(findings: Iterable[Finding]) -> None:
    """Findings of a command that does something else, as warnings; notices are omitted."""
    for one in findings:
        if one.severity:
            warning(f"{one.what}: {one.why}; {one.do}")


def findings(found: Iterable[Finding], *, ids: bool = False) -> None:
    """Prints findings, with their ids if wanted."""
    for one in found:
        click.echo(f"{one.severity.word}: {cell(one.what)}" + (f" [{one.kind}]" if ids else ""))
        click.echo(f"  why: {cell(one.why)}\n  do:  {cell(one.do)}")


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
