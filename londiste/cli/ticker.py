"""``londiste ticker`` and ``londiste tick``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.daemon.logging import Target
from londiste.daemon.pidfile import control
from londiste.daemon.process import process
from londiste.db.connection import session
from londiste.pgq import queues
from londiste.settings import DatabaseSettings, TickerSettings
from londiste.ticker.database import Periods
from londiste.ticker.service import Duty, Service, require, run_once


@click.command()
@click.option("--db", "dsns", multiple=True, metavar="DSN", help="A database; may be repeated.")
@click.option(
    "--discover", is_flag=True, help="Also all other databases of these servers with a queue."
)
@click.option("--once", is_flag=True, help="One round of everything, then end.")
@options.daemon
@options.json_output
@options.pass_context
def ticker(
    ctx: options.Context,
    dsns: Sequence[str],
    discover: bool,
    once: bool,
    daemon: bool,
    reload: bool,
    stop: bool,
    kill: bool,
    as_json: bool,
) -> None:
    """Cut queues into ticks and clean them.

    Runs until it is stopped; one ticker can look after many databases.
    """

    def read() -> TickerSettings:
        return ctx.settings(
            TickerSettings, databases=tuple(dsns) or None, discover=discover or None
        )

    def duty() -> Duty:
        settings = read()
        single = (settings.db,) if settings.db else ()
        return Duty(
            databases=require(settings.databases or single),
            periods=Periods(
                tick=settings.ticker_period,
                retry=settings.retry_period,
                maintenance=settings.maint_period,
                statistics=settings.stats_period,
                longest_pause=settings.exception_sleep,
                lock_timeout=settings.lock_timeout,
            ),
            discover=settings.discover,
        )

    settings = read()
    pid = control(settings.pidfile, reload=reload, stop=stop, kill=kill)
    if pid is not None:
        output.message(f"process {pid} was signalled")
        return
    if once:
        counts = run_once(duty())
        if as_json:
            output.as_json(counts)
        else:
            output.message(
                f"{counts.ticks} ticks, {counts.retries} retries,"
                f" {counts.maintenance} maintenance operations"
            )
        return
    # Wrong settings are reported here, not in the log of a daemon nobody sees start.
    duty()
    with process(
        pid=settings.pidfile,
        log=Target.of(settings),
        background=daemon,
        quiet=ctx.quiet,
        verbose=ctx.verbose,
    ) as signals:
        Service(duty, signals).run()


@click.command()
@click.argument("names", nargs=-1, metavar="[QUEUE]...")
@options.database
@options.json_output
@options.pass_context
def tick(ctx: options.Context, names: Sequence[str], db: str | None, as_json: bool) -> None:
    """Make a tick now.

    In the named queues, or in every queue that makes its own ticks.
    """
    settings = ctx.settings(DatabaseSettings, db=db)
    made: list[dict[str, object]] = []
    with session(settings.db, name="londiste tick", autocommit=True, synchronous=True) as conn:
        wanted = names or [
            queue.queue_name
            for queue in queues.get_queue_info(conn)
            if not queue.queue_external_ticker and not queue.queue_ticker_paused
        ]
        for name in wanted:
            queues.force_tick(conn, name)
            made.append({"queue": name, "tick": queues.ticker(conn, name)})
    output.show(["queue", "tick"], made, json_wanted=as_json)
