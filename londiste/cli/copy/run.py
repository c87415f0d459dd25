"""``londiste copy run``: the process that copies tables."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click
import psycopg

from londiste import engine
from londiste.cli import options, output
from londiste.cli.copy.status import summary
from londiste.copy import progress, steps
from londiste.copy.backoff import Limits
from londiste.copy.sides import Builds, Job
from londiste.copy.worker import CopyProcess
from londiste.daemon.child import die_with_parent
from londiste.daemon.logging import Target
from londiste.daemon.process import process
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.errors import LondisteError
from londiste.settings import WorkerSettings

#: Seconds between looks at the progress, and between lines of it where no terminal is.
_LOOK = 0.5
_LINE = 10.0


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@click.option("--engine", "chosen", type=click.Choice(engine.NAMES), help="Override the setting.")
@options.json_output
@options.explain
def run(
    context: options.Context,
    names: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Copy tables and bring them into step; the worker starts this by itself.

    Every table that waits for its copy without TABLE.  Ends when all are in step.  With --json
    the progress is printed as one JSON document per line and look.
    """
    of_worker = die_with_parent_if_child()
    settings = context.settings(WorkerSettings, engine=chosen)
    wanted = tuple(TableName.parse(name) for name in names)
    carrier = engine.by_size(settings.engine, settings.spark, settings.spark_from_bytes)
    job = Job(
        db=settings.db,
        queue=settings.queue_name,
        consumer=settings.consumer,
        engine=carrier,
        remote_extra=settings.remote_extra_connstr,
        parallel=settings.parallel_copies,
        chunk_bytes=settings.copy_chunk_bytes,
        lock_timeout_ms=round(settings.lock_timeout * 1000),
        delay=settings.loop_delay,
        builds=Builds(settings.copy_index_jobs, settings.copy_index_memory),
    )
    work = CopyProcess(
        job,
        wanted=wanted,
        parallel=settings.parallel_copies,
        longest_pause=settings.exception_sleep,
        limits=Limits(settings.copy_max_source_sessions, settings.copy_max_replica_lag),
    )
    if explain:
        output.steps(work.plan(), json_wanted=as_json)
        return
    try:
        with process(
            log=Target.of(settings), quiet=context.quiet, verbose=context.verbose
        ) as signals:
            with _shown(settings, as_json=as_json, bars=not of_worker and not context.quiet):
                work.run(signals)
            if output.on_terminal() and not (of_worker or as_json or context.quiet):
                _summary(settings, wanted)
    finally:
        carrier.close()


def _summary(settings: WorkerSettings, wanted: Sequence[TableName]) -> None:
    """What each step took, as ``londiste copy status --done`` prints it."""
    with session(settings.db, name="londiste copy run", autocommit=True) as conn:
        names = {str(name) for name in wanted}
        found = steps.copy_steps(conn, settings.queue_name)
        summary([step for step in found if not names or step.table in names])


def die_with_parent_if_child() -> bool:
    """Whether the worker has started this process; if so it ends with the worker."""
    return die_with_parent()


@contextlib.contextmanager
def _shown(settings: WorkerSettings, *, as_json: bool, bars: bool) -> Iterator[None]:
    """Shows the progress meanwhile: JSON lines, bars on a terminal, or a line now and then."""
    if as_json:
        show: Any = _Json()
    elif bars and output.on_terminal():
        show = _Bars()
    else:
        show = _Lines()
    end = threading.Event()
    thread = threading.Thread(target=_look, args=(settings, show, end), daemon=True)
    with show:
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join(2)


def _look(settings: WorkerSettings, show: Any, end: threading.Event) -> None:
    while not end.wait(show.period):
        # Showing is no reason to fail: the copies themselves report what is wrong.
        with contextlib.suppress(LondisteError, psycopg.Error):
            with session(settings.db, name="londiste copy progress", autocommit=True) as conn:
                while True:
                    show(progress.read(conn, settings.queue_name))
                    if end.wait(show.period):
                        return


class _Json(contextlib.AbstractContextManager["_Json", None]):
    period = _LOOK

    def __exit__(self, *exc: object) -> None:
        return

    def __call__(self, items: list[progress.Progress]) -> None:
        for item in items:
            output.as_json(item)


class _Lines(contextlib.AbstractContextManager["_Lines", None]):
    period = _LINE

    def __exit__(self, *exc: object) -> None:
        return

    def __call__(self, items: list[progress.Progress]) -> None:
        for item in items:
            output.message(progress.line(item))


class _Bars:
    """One bar per table, on stderr."""

    period = _LOOK

    def __init__(self) -> None:
        # Imported here: only a terminal needs it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rows]:,} rows"),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def __call__(self, items: list[progress.Progress]) -> None:
        for item in items:
            if item.table not in self._bars:
                self._bars[item.table] = self._progress.add_task(
                    item.table, total=item.total_bytes, rows=0
                )
            self._progress.update(
                self._bars[item.table],
                completed=item.bytes,
                total=item.total_bytes,
                rows=item.rows,
            )
        running = {item.table for item in items}
        for table in self._bars.keys() - running:
            bar = self._bars[table]
            total = next(t.total for t in self._progress.tasks if t.id == bar)
            self._progress.update(bar, completed=total)
