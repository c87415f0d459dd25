"""``londiste migrate run``."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.migrate import common
from londiste.cli.migrate.start import READY, begin, stay
from londiste.cli.migrate.switch import carry
from londiste.cli.migrate.verify import compare
from londiste.daemon.logging import LogTarget
from londiste.daemon.process import process
from londiste.migrate import daemons, switching
from londiste.migrate.databases import Pair
from londiste.migrate.phase import Phase


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@click.option("--switch", is_flag=True, help="Let the new database take the writes, too.")
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for each wait while writes go on.",
)
@click.option(
    "--block",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for which nobody may be able to write; then the switch is undone.",
)
def run(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    switch: bool,
    timeout: float,
    block: float,
) -> int:
    """Check, start, verify and, with --switch, switch: the whole move in one command.

    What migrate check finds critical ends it at once, and rows that differ end it before the
    switch, with exit code 3. Then it stays, as migrate start does, and keeps both databases in
    step until migrate finish or Ctrl-C. Killed, the same command goes on where it was.
    """
    pair = common.the_pair(context, source, target)
    begin(pair, common.Asked(way, pg_dump), False, False)
    with (
        process(
            pid=pair.settings.pidfile,
            log=LogTarget.of(pair.settings),
            background=False,
            quiet=context.quiet,
            verbose=context.verbose,
            stop_timeout=daemons.STOP_SECONDS,
        ) as signals,
        daemons.kept(pair, verbose=common.verbose(context)) as children,
    ):
        reached = stay(pair, signals, children, (*READY, Phase.SWITCHING))
        if signals.stopping or reached in (None, Phase.NOT_BEGUN):
            return 0
        # Both workers have to be at work for what follows.
        children.wait()
        if reached is Phase.IN_STEP:
            different = compare(context, source, target, timeout)
            if different:
                output.message("nothing is switched")
                return EXIT_DIFFERENT
        if signals.stopping:
            return 0
        if switch and reached is not Phase.SWITCHED:
            _switch(pair, timeout, block)
        elif reached is Phase.IN_STEP:
            output.message("the new database can take the writes: londiste migrate switch")
        stay(pair, signals, children, ())
    return 0


def _switch(pair: Pair, timeout: float, block: float) -> None:
    with pair.sites() as sites:
        found = switching.prepare(
            sites,
            pair,
            pair.new,
            timeout=timeout,
            block=block,
            force=False,
            warn=output.warning,
        )
        if found is not None:
            carry(sites, pair, pair.new, found)
