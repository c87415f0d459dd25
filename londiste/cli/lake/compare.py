"""``londiste lake compare``: compares tables of a lake with the database."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.lake.common import lake_options, settings_of
from londiste.db.names import argument
from londiste.lake import compare as comparing


class DifferingRow(TypedDict):
    """A row that differs.

    kind -- missing, extra or differ.
    columns -- those that differ.
    """

    kind: str
    key: list[str | None]
    columns: list[str]


class FoundRows(TypedDict):
    """Numbers of rows, and some of those that differ."""

    rows_here: int
    rows_lake: int
    missing: int
    extra: int
    differ: int
    differences: list[DifferingRow]


class ComparedTable(TypedDict):
    """A table of the lake.

    damaged -- files that are not as they were written; no row was compared then.
    torn -- rows of a history that contradict each other.
    """

    table: str
    mode: str
    tick: int
    key: list[str]
    damaged: list[str]
    torn: int
    found: FoundRows | None
    equal: bool


class Compared(TypedDict):
    """The result of the comparison."""

    equal: bool
    tables: list[ComparedTable]


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@lake_options
@options.limit("Maximum differing rows to print per table.", default=1000)
@options.seconds("--timeout", "Maximum seconds to wait for a tick.")
@options.json_output(Compared)
@options.pass_context
def compare(
    ctx: options.Context,
    /,
    tables: tuple[str, ...],
    limit: int,
    timeout: float,
    as_json: bool,
    **given: Any,
) -> int:
    """Compare tables of a lake with the database at one tick while replication runs.

    Reads every file, verifies its checksum and compares every row.  Takes no table locks and writes
    nothing.  The exit code is 3 when a table differs.
    """
    settings = settings_of(ctx, given)
    results = []
    for table in comparing.chosen(settings, tables):
        result = comparing.compare(settings, table, limit=limit, timeout=timeout)
        results.append(result)
        _announce(result)
    equal = all(result.equal for result in results)
    if as_json:
        tables_compared: list[Any] = [{**vars(one), "equal": one.equal} for one in results]
        output.as_json(Compared(equal=equal, tables=tables_compared))
    else:
        output.table(
            ["table", "mode", "tick", "equal", *_NUMBERS, "damaged"],
            [[r.table, r.mode, r.tick, r.equal, *_numbers(r), len(r.damaged)] for r in results],
        )
    return 0 if equal else EXIT_DIFFERENT


_NUMBERS = ("rows_here", "rows_lake", "missing", "extra", "differ")


def _announce(result: comparing.Result) -> None:
    """What is wrong with a table, on stderr."""
    for text in result.damaged:
        output.message(f"{result.table}: damaged: {text}")
    if result.damaged:
        output.message(
            f"{result.table}: no row was compared; londiste lake resync {argument(result.table)}"
            " reads the"
            " table again"
        )
    if result.torn:
        output.message(f"{result.table}: {result.torn} rows of the history contradict each other")
    for one in result.found.differences if result.found is not None else ():
        key = ", ".join(f"{n}={v}" for n, v in zip(result.key, one.key, strict=True))
        more = f" in {', '.join(one.columns)}" if one.columns else ""
        output.message(f"{result.table}: {one.kind}{more}: {key}")


def _numbers(result: comparing.Result) -> list[int | None]:
    return [getattr(result.found, name, None) for name in _NUMBERS]
