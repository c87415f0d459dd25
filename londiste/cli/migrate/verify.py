"""``londiste migrate verify``: compares both databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import click

from londiste.cli import errors, options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.inspect.common import ComparedTable, FailedTable, announce, failures, row
from londiste.cli.migrate import common
from londiste.compare import compare as run
from londiste.compare import context as parties
from londiste.compare.result import Comparison
from londiste.errors import LondisteError, StateError
from londiste.migrate import daemons, drift, phase
from londiste.migrate.databases import NEW, OLD
from londiste.monitor.catalog import ShownFinding, shown
from londiste.monitor.queues.model import Finding, Severity
from londiste.wording import shortened


@dataclass(frozen=True)
class Differences:
    """What differs between the two databases.

    tables -- those whose rows differ.  objects -- critical differences of structure and sequences,
        in words.
    """

    tables: Sequence[str] = ()
    objects: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.objects)

    def __str__(self) -> str:
        if not self.objects:
            return "rows differ"
        rows = "rows and " if self.tables else ""
        return f"{rows}objects of the two databases differ ({shortened(self.objects)})"


class Verified(TypedDict):
    """The result of the comparison.

    rows_root, rows_here -- of the database that takes the writes, and of the other one.
    failed -- tables that could not be compared; the document is then that of the error, too.
    """

    equal: bool
    tick: int
    tables: list[ComparedTable]
    failed: list[FailedTable]
    findings: list[ShownFinding]


@click.command()
@options.pass_context
@common.databases
@options.seconds("--timeout", "Maximum seconds to wait for the worker.")
@options.json_output(Verified)
def verify(
    context: options.Context,
    source: str | None,
    target: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Compare rows, structure and sequences of both databases.

    Compares rows at one tick while writes continue, without table locks. The exit code is 3 when
    rows differ, or when a sequence is behind. It is also 3 when a column, key, index, constraint,
    trigger or sequence exists on one side only. If a table cannot be compared, the results of the
    others are printed before its error.
    """
    return EXIT_DIFFERENT if compare(context, source, target, timeout, as_json) else 0


def compare(
    context: options.Context,
    source: str | None,
    target: str | None,
    timeout: float,
    as_json: bool = False,
) -> Differences:
    """Compares both databases and prints the result."""
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        seen = phase.look(sites, pair)
        if seen.phase not in (phase.Phase.IN_STEP, phase.Phase.SWITCHED):
            raise StateError(
                f"nothing to compare in phase {seen.phase.value}",
                detail=f"{seen.in_step} of {seen.tables} tables are in sync",
                hint=seen.next,
            )
        below = pair.side(OLD if seen.root == NEW else NEW)
        conn = {side.name: sites.at(side.dsn) for side in (pair.old, pair.new)}
        above = pair.other(below).name
        found = drift.differences(
            drift.look(conn[above]), drift.look(conn[below.name]), (above, below.name)
        )
    if not as_json:
        output.findings(found)
    kept: list[Comparison] = []
    with daemons.at_work(pair, verbose=common.verbose(context)):
        try:
            result = run.compare_tables(
                pair.worker_settings(below),
                parties.Asked(timeout=timeout),
                say=output.message,
                done=announce,
                failing=kept.append,
            )
        except LondisteError:
            for result in kept:
                with errors.also_told(**_document(result, found)):
                    if not as_json:
                        _print(result)
                    raise
            raise
        with pair.sites() as sites:
            late = drift.wait_for_sequences(
                sites.at(pair.other(below).dsn),
                sites.at(below.dsn),
                pair.queue,
                timeout=timeout,
                name=below.name,
            )
    stopping = [one.what for one in (*found, *late) if one.severity is Severity.CRITICAL]
    if as_json:
        output.as_json(_document(result, [*found, *late]))
    else:
        output.findings(late)
        _print(result)
    written = [r for r in result.tables if not r.equal and (r.differences or not r.pairing.lacking)]
    if written:
        output.message(
            f"{len(written)} tables differ; check for sessions that write on {below.name}"
        )
    return Differences([r.table for r in result.tables if not r.equal], stopping)


def _document(result: Comparison, found: Sequence[Finding]) -> Verified:
    critical = any(one.severity is Severity.CRITICAL for one in found)
    return Verified(
        equal=result.equal and not critical,
        tick=result.tick_id,
        tables=[row(one) for one in result.tables],
        failed=failures(result),
        findings=shown(found),
    )


def _print(result: Comparison) -> None:
    output.table(
        ["table", "equal", "rows_root", "rows_here"],
        [
            *([r.table, r.equal, r.rows_root, r.rows_node] for r in result.tables),
            *([name, "failed", "-", "-"] for name in result.failed),
        ],
    )
