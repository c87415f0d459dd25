"""``londiste compare``: compares tables with the root's at one tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import click

from londiste.cli import errors, options, output
from londiste.cli.documents import Rows
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.inspect.common import ComparedTable, FailedTable, announce, failures, row
from londiste.compare import accept, audit
from londiste.compare import compare as run
from londiste.compare import context as parties
from londiste.compare import result as found
from londiste.errors import LondisteError, UsageError
from londiste.replication import renamed_tables
from londiste.replication.coverage import Audited
from londiste.settings import WorkerSettings
from londiste.wording import shortened


class Compared(TypedDict):
    """The result of the comparison at one tick.

    failed -- tables that could not be compared; the document is then that of the error, too.
    """

    equal: bool
    tick: int
    tables: list[ComparedTable]
    failed: list[FailedTable]


class Coverage(TypedDict):
    """With `--status` and `--continuous`: the audit.

    equal -- all rows were compared, and none differs.
    coverage -- of all these tables in the last 24 hours; null: no audit has run.
    """

    equal: bool
    coverage: Audited | None
    tables: list[audit.Coverage]


EXPLAINED = Rows("tables", run.ExplainedTable)


@click.command()
@options.pass_context
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--count-only", is_flag=True, help="Compare row counts only.")
@click.option(
    "--where", default="", metavar="SQL", help="Compare only rows that match this SQL condition."
)
@options.limit("Maximum differing rows to report per table.", default=1000)
@click.option("--resume", is_flag=True, help="Continue an interrupted comparison.")
@options.seconds("--timeout", "Maximum seconds to wait for the worker.")
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Engine of the comparison (default: the setting engine; with --continuous: local).",
)
@click.option(
    "--continuous", is_flag=True, help="Audit tables continuously, range by range, until stopped."
)
@click.option("--once", is_flag=True, help="With --continuous: audit every range once, then exit.")
@click.option(
    "--share",
    metavar="FRACTION",
    type=click.FloatRange(0.001, 1.0),
    help="With --continuous: fraction of time spent reading (default: audit_share, else 0.2).",
)
@click.option("--status", is_flag=True, help="Show coverage and findings of --continuous.")
@options.explain
@options.json_output(Compared, EXPLAINED, Coverage)
def compare(
    context: options.Context,
    tables: tuple[str, ...],
    count_only: bool,
    where: str,
    limit: int,
    resume: bool,
    timeout: float,
    engine: str | None,
    continuous: bool,
    once: bool,
    share: float | None,
    status: bool,
    explain: bool,
    as_json: bool,
) -> int:
    """Compare tables with the root's at one tick while replication runs.

    Without TABLE: every replicated table; * and ? match several.  Takes no locks on tables.  The
    exit code is 3 when a table differs, with --status also when rows were not compared.
    """
    if (continuous or status) and (where or count_only or resume):
        raise UsageError(
            "--continuous and --status exclude --where, --count-only and --resume",
            hint="omit --where, --count-only and --resume",
        )
    if once and not continuous:
        raise UsageError("--once requires --continuous", hint="londiste compare --continuous")
    # A range is too small for a job of Spark.
    engine = engine or ("local" if continuous else None)
    settings = context.settings(WorkerSettings, engine=engine)
    share = share or settings.audit_share or 0.2
    asked = parties.Asked(tables, timeout, where, count_only, limit, resume)
    if status:
        return _status(settings, tables, as_json)
    if explain:
        plans = run.explain(settings, asked)
        columns = ["table", "here", "found_by", "cut", "where", "skipped_columns"]
        output.show(EXPLAINED, plans, json_wanted=as_json, columns=columns)
        return 0
    if continuous and once:
        if not audit.once(settings, asked, share=share, say=output.message):
            output.message("not all ranges were compared; what was: londiste compare --status")
            raise KeyboardInterrupt
        return _status(settings, tables, as_json)
    if continuous:
        with context.process(settings, announced=False) as signals:
            audit.Audit(settings, asked, signals, share=share).run()
        return 0
    whole = not where and not count_only
    before = accept.doubts(settings) if whole else {}
    kept: list[found.Comparison] = []
    try:
        result = run.compare_tables(
            settings, asked, say=output.message, done=announce, failing=kept.append
        )
    except LondisteError:
        for result in kept:
            with errors.also_told(**_document(result)):
                if not as_json:
                    _print(result, count_only)
                _accept(settings, result, before)
                raise
        raise
    if as_json:
        output.as_json(_document(result))
    else:
        _print(result, count_only)
    _accept(settings, result, before)
    return 0 if result.equal else EXIT_DIFFERENT


def _document(result: found.Comparison) -> Compared:
    return Compared(
        equal=result.equal,
        tick=result.tick_id,
        tables=[row(r) for r in result.tables],
        failed=failures(result),
    )


def _print(result: found.Comparison, count_only: bool) -> None:
    output.table(
        ["table", "equal", "rows_root", "rows_here", "missing", "extra", "differs"],
        [
            *(
                [r.table, r.equal, r.rows_root, r.rows_node, *_counts(r, count_only)]
                for r in result.tables
            ),
            *([name, "failed", *["-"] * 5] for name in result.failed),
        ],
    )


def _accept(
    settings: WorkerSettings, result: found.Comparison, before: Mapping[str, accept.Doubt]
) -> None:
    """Ends the findings about rewritten and other tables that are equal; tells what it cannot end.

    On the root the finding also says that all other nodes are equal, which nobody has compared.
    """
    equal = (one for one in result.tables if one.equal and one.table in before)
    for one in sorted(equal, key=lambda one: one.table):
        name = one.table
        doubt = before[name]
        statement = renamed_tables.accept(settings.queue_name, name)
        if reason := accept.unproven(one):
            output.message(
                f"table {name} {doubt.what}, and the finding stays: {'; '.join(reason)}; or, if you"
                f" know that they are equal: {statement}"
            )
            continue
        told = f"table {name} {doubt.what} and is equal"
        match accept.accept(settings, before, name):
            case accept.Accepted.CHANGED:
                output.message(f"table {name} was changed during the comparison: compare it again")
                continue
            case accept.Accepted.ENDED:
                said = f"{told}: the finding of this node has ended"
                root = f"; on the root, when all other nodes are equal: {statement}"
            case accept.Accepted.DENIED:
                said = f"{told}: {statement} on this node ends the finding"
                root = "; so it does on the root when all other nodes are equal"
        output.message(f"{said}{root if doubt.rewritten else ''}")


def _counts(result: found.TableResult, count_only: bool) -> list[str]:
    if count_only:
        return ["-", "-", "-"]
    return [f"{n}+" if result.more else str(n) for n in result.counts().values()]


def _status(settings: WorkerSettings, tables: tuple[str, ...], as_json: bool) -> int:
    covered, together = audit.coverage(settings, tables)
    unknown = [table.table for table in covered if not 0 < table.compared == table.ranges]
    equal = not unknown and not any(table.differing for table in covered)
    if as_json:
        output.as_json(Coverage(equal=equal, coverage=together, tables=covered))
    else:
        output.table(
            ["table", "ranges", "compared", "oldest", "rows", "differing"],
            [[t.table, t.ranges, t.compared, t.oldest, t.rows, t.differing] for t in covered],
        )
        output.message(str(together or "no audit has run: londiste compare --continuous"))
        if unknown:
            output.message(f"not compared as a whole: {shortened(unknown)}")
        for table in covered:
            for finding in table.findings:
                output.message(f"{table.table} {finding['kind']}: {finding['key']}")
    return 0 if equal else EXIT_DIFFERENT
