"""``londiste repair``: repairs differing rows with a reviewed plan."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Steps
from londiste.cli.errors import EXIT_DIFFERENT, pasteable
from londiste.cli.inspect.common import ComparedTable, announce, row
from londiste.compare import compare
from londiste.compare import context as parties
from londiste.compare import repair as repairs
from londiste.compare import repair_plan as plans
from londiste.compare.result import Comparison
from londiste.daemon.files import write_atomically, write_hint
from londiste.db.names import word
from londiste.errors import BadOption, UsageError
from londiste.settings import WorkerSettings


class Planned(TypedDict):
    """The plan: a statement for each differing row.

    plan -- file of the plan.
    """

    equal: bool
    plan: str | None
    statements: list[str]
    tables: list[ComparedTable]


class Repaired(TypedDict):
    """With `--apply`: the comparison afterwards.

    applied -- number of rows.
    stale -- statements of rows that had changed since, and were skipped.
    """

    equal: bool
    plan: str | None
    applied: int
    stale: list[str]
    tables: list[ComparedTable]


@click.command()
@options.pass_context
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--plan", "path", metavar="FILE", help="File of the plan, to write or to apply.")
@click.option("--apply", is_flag=True, help="Apply the plan in one transaction, then compare.")
@options.flag("--overwrite", "Overwrite an existing FILE.", londiste3="--force")
@click.option(
    "--where", default="", metavar="SQL", help="Repair only rows that match this SQL condition."
)
@options.limit("Maximum differing rows per table.", default=10_000)
@options.seconds("--timeout", "Maximum seconds to wait for the worker.")
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Engine of the comparison (default: the setting engine).",
)
@options.explain
@options.json_output(Planned, Repaired, Steps)
def repair(
    context: options.Context,
    tables: tuple[str, ...],
    path: str | None,
    apply: bool,
    overwrite: bool,
    where: str,
    limit: int,
    timeout: float,
    engine: str | None,
    explain: bool,
    as_json: bool,
) -> int:
    """Repair the rows of tables that differ from the root's.

    Compares the tables (without TABLE: every replicated one) and writes a plan for review to FILE
    or stdout, with one statement for each differing row.  --apply runs a new plan, or, without
    TABLE, the plan in FILE; rows that have changed since are skipped.  The exit code is 3 while
    rows differ.
    """
    settings = context.settings(WorkerSettings, engine=engine)
    asked = parties.Asked(tables, timeout, where, limit=limit)
    old = apply and path is not None and not tables and not where and Path(path).exists()
    if path is not None and not old and not explain:
        _writable(Path(path), overwrite)
    if explain:
        return _explain(settings, asked, path, apply=apply, old=old, as_json=as_json)
    compared: Comparison | None = None
    if old:
        assert path is not None
        plan = _read(Path(path), settings.queue_name)
        changes, where = list(plan.changes), plan.where
    else:
        compared = compare.compare_tables(settings, asked, say=output.message, done=announce)
        changes = repairs.planned(settings, compared, asked)
        for line in repairs.left_alone(compared, asked):
            output.message(line)
        do = pasteable(f"londiste repair --apply --plan {word(path) if path else 'THIS-FILE'}")
        text = repairs.written(settings, changes, compared.tick_id, where, command=do)
        if path is not None:
            write(Path(path), text)
            output.message(f"wrote {len(changes)} statements to {path}")
        elif not apply and not as_json:
            output.exact(text)
    equal = compared.equal if compared else not changes
    if not apply or not changes:
        if as_json:
            output.as_json(
                Planned(
                    equal=equal,
                    plan=path,
                    statements=[change.statement for change in changes],
                    tables=[row(r) for r in compared.tables] if compared else [],
                )
            )
        return 0 if equal else EXIT_DIFFERENT
    applied = repairs.apply(
        settings,
        changes,
        timeout=timeout,
        say=output.message,
        where=path if old and path else "",
        condition=where,
    )
    output.message(f"wrote {applied.rows} rows at tick {applied.tick_id}")
    for line in applied.skipped:
        output.message(line)
    names = list(dict.fromkeys(change.table for change in changes))
    again = parties.Asked(names, timeout, where, limit=limit)
    after = compare.compare_tables(settings, again, say=output.message, done=announce)
    if as_json:
        output.as_json(
            Repaired(
                equal=after.equal,
                plan=path,
                applied=applied.rows,
                stale=[change.statement for change in applied.stale],
                tables=[row(r) for r in after.tables],
            )
        )
    elif after.equal:
        output.message(f"equal now: {', '.join(names)}")
    return 0 if after.equal else EXIT_DIFFERENT


def _explain(
    settings: WorkerSettings,
    asked: parties.Asked,
    path: str | None,
    *,
    apply: bool,
    old: bool,
    as_json: bool,
) -> int:
    steps = []
    if old:
        changes = _read(Path(str(path)), settings.queue_name).changes
        tables = ", ".join(dict.fromkeys(change.table for change in changes))
        steps.append(f"read {len(changes)} statements for {tables} from {path}")
    else:
        for table in compare.explain(settings, asked):
            steps.append(f"compare {table.table}, {table.cut}, by {table.found_by}")
        steps.append(f"write a statement for each row that differs to {path or 'stdout'}")
    if apply:
        steps += [
            "pause the worker at a new tick",
            "check the rows of the plan again, on both sides",
            "run the statements of unchanged rows in one transaction",
            "compare the tables again",
        ]
    output.lines(steps, json_wanted=as_json)
    return 0


def _writable(path: Path, overwrite: bool) -> None:
    """Checks the file before the comparison."""
    if path.exists() and not overwrite:
        raise UsageError(
            f"{path}: file exists",
            hint=f"apply it: londiste repair --apply --plan {word(str(path))}; or use --overwrite",
        )
    if not path.parent.is_dir():
        raise BadOption(
            f"--plan {path}: directory {path.parent} does not exist", hint="create the directory"
        )


def write(path: Path, text: str) -> None:
    """Writes the file atomically and readable by its owner only: it contains values of rows."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise BadOption(
            f"--plan {path}: {error.strerror}",
            hint=write_hint(error, "give a file in a directory that you can write"),
        ) from error


def _read(path: Path, queue: str) -> plans.RepairPlan:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(
            f"--plan {path}: {error}", hint="give a plan written by londiste repair"
        ) from None
    plan = plans.parse(text, str(path))
    if plan.queue != queue:
        raise BadOption(
            f"{path}: plan of queue {plan.queue}, not of queue {queue}",
            hint="use the settings of its node",
        )
    return plan
