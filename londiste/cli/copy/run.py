"""``londiste copy run``: the process that copies tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste import engine
from londiste.cli import options, output
from londiste.cli.copy.common import summary
from londiste.cli.copy.progress_display import shown
from londiste.cli.documents import Steps
from londiste.cli.tables.common import sync_progress
from londiste.copy import step_timings
from londiste.copy.load_throttle import Limits
from londiste.copy.process import CopyProcess
from londiste.copy.progress import Progress
from londiste.copy.sessions import Builds, CopyJob, CopyStandby
from londiste.daemon.child import die_with_parent
from londiste.db.connection import session
from londiste.db.names import TableName, argument
from londiste.errors import NodeBusy, StateError
from londiste.replication import sqlapi as tables
from londiste.replication.patterns import parsed
from londiste.replication.tablesync import states as sync
from londiste.replication.tablesync import wait
from londiste.settings import WorkerSettings


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@click.option(
    "--engine",
    "chosen",
    type=click.Choice(engine.NAMES),
    help="Engine for this run (default: the setting engine).",
)
@options.json_output(Progress, Steps)
@options.explain
def run(
    context: options.Context,
    names: tuple[str, ...],
    chosen: str | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Copy tables and bring them in sync; the worker starts this automatically.

    Without TABLE: every table whose copy the worker has started.  Exits when all are in sync.
    With TABLE and without a running worker, it does the worker's part, too.  With --json, prints
    the progress as one JSON document per line and poll.
    """
    of_worker = die_with_parent_if_child()
    settings = context.settings(WorkerSettings, engine=chosen)
    wanted = tuple(parsed(name) for name in names)
    if wanted and not (explain or as_json) and _copied_with_worker(context, settings, wanted):
        return
    carrier = engine.by_size(
        settings.engine,
        settings.spark,
        settings.spark_min_bytes,
        ahead=0 if explain else settings.parallel_copies,
    )
    job = CopyJob(
        db=settings.db,
        queue=settings.queue_name,
        consumer=settings.consumer,
        engine=carrier,
        remote_extra=settings.remote_extra_connstr,
        parallel=settings.parallel_copies,
        chunk_bytes=settings.copy_chunk_bytes,
        lock_timeout_ms=round(settings.lock_timeout * 1000),
        delay=settings.poll_interval,
        builds=Builds(settings.index_jobs, settings.copy_index_memory),
        resumable_from=settings.resumable_copy_min_bytes,
        standby=CopyStandby(settings.read_from, settings.read_from_wait)
        if settings.read_from
        else None,
        answer_seconds=settings.answer_seconds,
    )
    work = CopyProcess(
        job,
        wanted=wanted,
        parallel=settings.parallel_copies,
        longest_pause=settings.max_retry_delay,
        limits=Limits(
            settings.copy_max_source_sessions,
            settings.copy_max_replica_lag,
            settings.copy_full_speed,
        ),
    )
    if explain:
        output.steps(work.plan(), json_wanted=as_json)
        return
    try:
        with context.process(settings, announced=of_worker) as signals:
            with shown(settings, as_json=as_json, bars=not of_worker and not context.quiet):
                work.run(signals)
            if output.on_terminal() and not (of_worker or as_json or context.quiet):
                _summary(settings, wanted)
    finally:
        carrier.close()


def _summary(settings: WorkerSettings, wanted: Sequence[TableName]) -> None:
    """Duration of each step, as ``londiste copy status --done`` prints it."""
    with session(settings.db, name="londiste copy run", autocommit=True) as conn:
        names = {str(name) for name in wanted}
        found = step_timings.copy_steps(conn, settings.queue_name)
        summary([step for step in found if not names or step.table in names])


def _copied_with_worker(
    context: options.Context, settings: WorkerSettings, wanted: Sequence[TableName]
) -> bool:
    """Copies the tables if the copy of one of them waits for the worker; whether it did.

    Where no worker runs, it does a worker's work until nothing is left.  Where one runs, it waits
    until that has brought the tables in sync.

    Raises StateError for a table that cannot be copied yet.
    """
    states = _states(settings)
    for name in wanted:
        if name in states and isinstance(states[name], sync.Ok):
            output.message(
                f"table {name} is in sync; to copy it again: londiste resync {argument(name)}"
            )
    if not any(isinstance(states.get(name), sync.Missing) for name in wanted):
        return False
    # Not imported where the worker starts this process.
    from londiste.cli.worker_once import run_once
    from londiste.replication.worker.worker import Worker

    try:
        with context.process(settings) as signals:
            argv = [*context.program(), "copy"]
            run_once(Worker(lambda: context.settings(WorkerSettings), signals, copy_argv=argv))
    except NodeBusy:
        output.message("the worker that runs copies the tables")
        with (
            session(settings.db, name="londiste copy run", autocommit=True) as conn,
            sync_progress(conn, settings.queue_name) as progress,
        ):
            wait.wait_sync(
                conn,
                settings.queue_name,
                timeout=None,
                only=wanted,
                progress=progress,
                trouble=output.warning,
            )
        return True
    states = _states(settings)
    for name in wanted:
        if isinstance(states.get(name), sync.Missing):
            raise StateError(
                f"table {name}: its copy has not started",
                detail="its provider does not have the whole table yet",
                hint="wait for the provider's copy: londiste status",
            )
    return True


def _states(settings: WorkerSettings) -> dict[TableName, sync.SyncState]:
    with session(settings.db, name="londiste copy run", autocommit=True) as conn:
        found = tables.get_table_list(conn, settings.queue_name)
    return {table.name: sync.from_text(table.state) for table in found if table.local}


def die_with_parent_if_child() -> bool:
    """Whether the worker has started this process; if so it ends with the worker."""
    return die_with_parent()
