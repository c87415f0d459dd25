"""``londiste copy status``: progress and durations of copies."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.copy.common import orders, size, summary
from londiste.cli.documents import Rows
from londiste.copy import progress, step_timings
from londiste.copy.status import CopyStatus, TableStatus, collect
from londiste.copy.step_timings import StepTiming
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.errors import UnknownTable
from londiste.replication import sqlapi as tables
from londiste.replication.patterns import parsed, table_meant
from londiste.settings import NodeSettings

_COLUMNS = (
    "table",
    "state",
    "mode",
    "step",
    "rows",
    "bytes",
    "of",
    "chunks",
    "rate",
    "left",
    "more",
)


@dataclass(frozen=True)
class TimedStep(StepTiming):
    """With `--done`: a step of the last copy of a table.

    seconds -- from its beginning to its end, or until now when it is not finished.
    tasks -- pieces that it had (chunks, indexes, batches).
    busy -- seconds of work of all of them together.
    rows, bytes -- what it has moved; catch-up: events.
    concurrency -- average number of pieces at work at a time.
    """

    concurrency: float | None


STEPS = Rows("steps", TimedStep)


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@click.option("--done", is_flag=True, help="Show the duration of each step of the last copies.")
@click.option("--watch", is_flag=True, help="Refresh until no table is being copied.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="With --watch: seconds between two refreshes.",
)
@options.json_output(CopyStatus, STEPS)
def status(
    context: options.Context,
    names: Sequence[str],
    done: bool,
    watch: bool,
    interval: float,
    as_json: bool,
) -> None:
    """Show the progress of copies to this node, or their durations.

    For tables that are not in sync: step, rows, bytes, chunks (done+running/all), rate, and the
    remaining time. With --json and --watch, one JSON document per line and refresh.
    """
    settings = context.settings(NodeSettings)
    wanted = [str(parsed(name)) for name in names]
    with session(settings.db, name="londiste copy status", autocommit=True) as conn:
        known = {str(t.name) for t in tables.get_table_list(conn, settings.queue_name) if t.local}
        for name in wanted:
            if name not in known:
                raise UnknownTable(
                    f"table {name}: not replicated on this node",
                    hint=table_meant(name, map(TableName.parse, known), "londiste tables"),
                )
        if done:
            _show_done(conn, settings, wanted, as_json=as_json)
            return
        while True:
            found = collect(
                conn,
                settings.queue_name,
                settings.consumer,
                remote_extra=settings.remote_extra_connstr,
            )
            if wanted:
                found = replace(found, tables=[t for t in found.tables if t.table in wanted])
            _show(found, as_json=as_json, watching=watch)
            if not watch or not found.tables:
                return
            time.sleep(interval)


def _show(found: CopyStatus, *, as_json: bool, watching: bool) -> None:
    items = found.tables
    if as_json:
        output.as_json(found)
        sys.stdout.flush()
        return
    if watching and sys.stdout.isatty():
        click.clear()
    for line in orders(found.control):
        output.message(line)
    if not items:
        output.message(
            "all tables are in sync; durations of the copies: londiste copy status --done"
        )
        return
    output.table(_COLUMNS, [_row(item) for item in items])
    for item in items:
        if item.waits or item.error:
            output.message(f"{item.table}: {item.waits or item.error}")


def _row(item: TableStatus) -> list[Any]:
    load = item.load
    more = [
        f"{build.index or 'index'}: {build.phase} {_share(build.blocks_done, build.blocks_total)}"
        for build in item.builds
    ]
    if item.analyze:
        phase, blocks, total = item.analyze
        more.append(f"analyze: {phase} {_share(blocks, total)}")
    if item.behind:
        more.append(f"{item.behind.ticks} ticks, {item.behind.events or 0} events behind")
    if item.waits:
        more.append("waits, see below")
    elif item.error:
        more.append("failed, see below")
    return [
        item.table,
        item.state or "waits",
        item.mode or None,
        item.step or None,
        load.rows if load else None,
        size(load.bytes) if load else None,
        size(load.total_bytes) if load else None,
        f"{load.chunks}+{load.running}/{load.total_chunks}" if load else None,
        f"{size(load.rate)}/s" if load and load.rate is not None else None,
        progress.time_left(load) or None if load else None,
        ", ".join(more) or None,
    ]


def _show_done(
    conn: Connection, settings: NodeSettings, wanted: Sequence[str], *, as_json: bool
) -> None:
    found = [
        step
        for step in step_timings.copy_steps(conn, settings.queue_name)
        if not wanted or step.table in wanted
    ]
    if as_json:
        steps = [TimedStep(**vars(step), concurrency=step.at_work) for step in found]
        output.as_json({STEPS.key: steps})
    elif found:
        summary(found)
    else:
        output.message("no table has been copied to this node yet")


def _share(done: int, total: int) -> str:
    return f"{done}/{total} blocks" if total else ""
