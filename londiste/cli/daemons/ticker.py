"""``londiste ticker``: the daemon that creates ticks and runs maintenance."""

from __future__ import annotations

from collections.abc import Sequence

import click
from psycopg import conninfo

from londiste.cli import options, output
from londiste.daemon.pidfile import running
from londiste.dsn import parsed
from londiste.errors import BadOption
from londiste.metrics.endpoint import listening
from londiste.metrics.tally import TickerTally, inherited
from londiste.settings import TickerSettings
from londiste.settings.loading import taken_over
from londiste.ticker.rounds import Counts, Periods
from londiste.ticker.service import Duty, Service, run_once, try_out


@click.command()
@click.option(
    "--db",
    "dsns",
    multiple=True,
    metavar="DSN",
    help="Connection string of a database; repeatable.",
)
@click.option(
    "--discover",
    is_flag=True,
    help="Include all other databases of these servers that have a queue.",
)
@click.option("--once", is_flag=True, help="Run ticks and maintenance once, then exit.")
@options.daemon
@options.json_output(Counts)
@options.pass_context
def ticker(
    ctx: options.Context,
    dsns: Sequence[str],
    discover: bool,
    once: bool,
    daemon: options.DaemonCall,
    as_json: bool,
) -> None:
    """Run the ticker: create ticks and maintain queues.

    Runs until it is stopped; one ticker can serve many databases.
    """

    def read() -> TickerSettings:
        return ctx.settings(
            TickerSettings, databases=tuple(dsns) or None, discover=discover or None
        )

    known: list[TickerSettings] = []

    def duty() -> Duty:
        settings = taken_over(known[0], read(), ()) if known else read()
        known[:] = [settings]
        databases, sources = places(settings)
        return Duty(
            databases=databases,
            sources=sources,
            check_period=settings.check_period,
            periods=Periods(
                tick=settings.ticker_period,
                retry=settings.retry_period,
                maintenance=settings.maint_period,
                statistics=settings.stats_period,
                keepalive=settings.keepalive_stats,
                longest_pause=settings.max_retry_delay,
                lock_timeout=settings.lock_timeout,
                lifetime=settings.connection_lifetime,
            ),
            discover=settings.discover,
        )

    settings = ctx.in_background(read(), daemon)
    if daemon.signalled(settings.pidfile, by_run=True):
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
    wanted = duty()
    if daemon.background and settings.pidfile and running(settings.pidfile) is None:
        try_out(wanted)
    with (
        listening(settings) as endpoint,
        ctx.process(settings, pid=settings.pidfile, background=daemon.background) as signals,
    ):
        tally = TickerTally("ticker", inherited())
        service = Service(duty, signals, tally)
        if endpoint is not None:
            from londiste.metrics.daemons import of_ticker

            endpoint.serve(of_ticker(service, tally))
        service.run()


def places(settings: TickerSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The databases to serve, and those that only list the other databases of their server.

    Raises BadOption when there is neither.
    """
    databases = settings.databases or ((settings.db,) if settings.db else ())
    base = settings.base_connstr
    if settings.database_list:
        names = settings.database_list
        return (*databases, *(base_database(base or "", name) for name in names)), ()
    if base or (base is not None and not databases):
        return databases, (base_database(base, settings.initial_database),)
    if not databases:
        raise BadOption(
            "no database given for the ticker",
            hint="set databases in the file (-c FILE), give --db DSN,"
            " or base_connstr for all databases of a server",
        )
    return databases, ()


def base_database(base: str, name: str) -> str:
    """The database of a server, by the server's connection string.  Raises BadOption."""
    return conninfo.make_conninfo("", **{**parsed(base, "base_connstr"), "dbname": name})
