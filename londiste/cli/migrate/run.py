"""``londiste migrate run``: runs the whole migration in one command."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.migrate import common
from londiste.cli.migrate.start import READY, begin, stay
from londiste.cli.migrate.switch import carry
from londiste.cli.migrate.verify import compare
from londiste.migrate import daemons, switching
from londiste.migrate.databases import Pair
from londiste.migrate.phase import Phase
from londiste.orchestration.daemons import STOP_SECONDS


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@common.ACCEPT_DEFINERS
@click.option("--switch", is_flag=True, help="Switch writes to the new database at the end.")
@common.TIMEOUT
@common.BLOCK
def run(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    accept_definers: bool,
    switch: bool,
    timeout: float,
    block: float,
) -> int:
    """Check, start, verify and, with --switch, switch: the whole migration in one command.

    Critical findings of migrate check end it immediately. Differing rows or objects end it before
    the switch, with exit code 3. Afterwards it keeps running, as migrate start does, and keeps both
    databases in sync until migrate finish or Ctrl-C. Repeat an interrupted command to continue.
    """
    pair = common.the_pair(context, source, target)
    begin(pair, common.Asked(way, pg_dump, accept_definers), False, False)
    with (
        context.process(
            pair.settings, pid=pair.settings.pidfile, stop_timeout=STOP_SECONDS, announced=False
        ) as signals,
        daemons.kept(pair, verbose=common.verbose(context)) as children,
    ):
        reached = stay(pair, signals, children, (*READY, Phase.SWITCHING), own=READY)
        if signals.stopping or reached in (None, Phase.NOT_BEGUN):
            return 0
        # Both workers must run for the next steps.
        children.wait()
        if reached is Phase.IN_STEP:
            different = compare(context, source, target, timeout)
            if different:
                output.message(f"{different}: nothing was switched")
                return EXIT_DIFFERENT
        if signals.stopping:
            return 0
        if switch and reached is not Phase.SWITCHED:
            _switch(pair, timeout, block)
        elif reached is Phase.IN_STEP:
            output.next_step("londiste migrate switch")
        stay(pair, signals, children, (), own=(Phase.IN_STEP,))
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
