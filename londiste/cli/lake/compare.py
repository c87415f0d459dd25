"""``londiste lake compare``: compares tables of a lake with the database."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake import compare as comparing


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@lake_options
@options.limit("Maximum differing rows to print per table.", default=1000)
@options.seconds("--timeout", "Maximum seconds to wait for a tick.")
@options.json_output
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
        output.as_json({"equal": equal, "tables": [_as_json(result) for result in results]})
    else:
        output.table(
            ["table", "mode", "tick", "equal", "rows", "rows in lake", *_KINDS, "damaged files"],
            [[r.table, r.mode, r.tick, r.equal, *_numbers(r), len(r.damaged)] for r in results],
        )
    return 0 if equal else EXIT_DIFFERENT


_KINDS = ("missing", "extra", "differ")


def _announce(result: comparing.Result) -> None:
    """What is wrong with a table, on stderr."""
    for text in result.damaged:
        output.message(f"{result.table}: damaged: {text}")
    if result.damaged:
        output.message(
            f"{result.table}: no row was compared; londiste lake resync {result.table} reads the"
            " table again"
        )
    if result.torn:
        output.message(f"{result.table}: {result.torn} rows of the history contradict each other")
    for one in result.found.differences if result.found is not None else ():
        key = ", ".join(f"{n}={v}" for n, v in zip(result.key, one.key, strict=True))
        more = f" in {', '.join(one.columns)}" if one.columns else ""
        output.message(f"{result.table}: {one.kind}{more}: {key}")


def _numbers(result: comparing.Result) -> list[int | None]:
    if result.found is None:
        return [None] * 5
    found = result.found
    return [found.rows_here, found.rows_lake, found.missing, found.extra, found.differ]


def _as_json(result: comparing.Result) -> dict[str, Any]:
    return {**dataclasses.asdict(result), "equal": result.equal}
