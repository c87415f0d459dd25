"""``londiste migrate start``."""

from __future__ import annotations

from collections.abc import Collection

import click
import psycopg

from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.daemon.logging import LogTarget
from londiste.daemon.pidfile import control
from londiste.daemon.process import process
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError, StateError, from_database
from londiste.migrate import daemons, phase, setup
from londiste.migrate.checks import refusals
from londiste.migrate.databases import Pair
from londiste.migrate.phase import Phase
from londiste.monitor.queues.model import Severity
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections

#: All tables were in step, before the switch or after it.
READY = (Phase.IN_STEP, Phase.SWITCHED)


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@click.option("--until-ready", is_flag=True, help="End when all tables are in step.")
@click.option("--no-daemons", is_flag=True, help="Set up only; ticker and workers are yours.")
@options.daemon
@options.explain
@options.json_output
def start(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    until_ready: bool,
    no_daemons: bool,
    daemon: bool,
    reload: bool,
    stop: bool,
    kill: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Set everything up, copy, and keep both databases in step.

    Checks first, and refuses to begin where something critical is found. Then it makes the
    structure of the new database, two nodes, adds all tables and sequences, and stays: it runs the
    ticker and both workers, before the switch and after it, until migrate finish or Ctrl-C. Given
    again it goes on.
    """
    pair = common.the_pair(context, source, target)
    settings = pair.settings
    pid = control(settings.pidfile, reload=reload, stop=stop, kill=kill)
    if pid is not None:
        output.message(f"process {pid} was signalled")
        return
    begin(pair, common.Asked(way, pg_dump), explain, as_json)
    if explain or no_daemons:
        return
    with process(
        pid=settings.pidfile,
        log=LogTarget.of(settings),
        background=daemon,
        quiet=context.quiet,
        verbose=context.verbose,
        stop_timeout=daemons.STOP_SECONDS,
    ) as signals:
        with daemons.kept(pair, verbose=common.verbose(context)) as children:
            reached = stay(pair, signals, children, READY if until_ready else ())
    if as_json:
        output.as_json({"ready": reached in (*READY, Phase.NOT_BEGUN)})


def begin(pair: Pair, asked: common.Asked, explain: bool, as_json: bool) -> None:
    """Checks and sets up what is left, or prints its steps.  Raises StateError."""
    with pair.sites() as sites:
        new = setup.node(sites, pair.new, pair.queue)
        if new is None or new.type is not NodeType.ROOT:
            _set_up(sites, pair, asked, explain, as_json)
        else:
            _add_later(sites, pair, explain, as_json)


def _add_later(sites: Connections, pair: Pair, explain: bool, as_json: bool) -> None:
    """The new database takes the writes: what was made there since goes to the old one, too."""
    switched = phase.look(sites, pair).phase is Phase.SWITCHED
    if explain:
        names = setup.not_replicated(sites.at(pair.new.dsn), pair.queue) if switched else []
        steps = [setup.Later(f"new and old: add table {name}") for name in names]
        output.steps(steps, json_wanted=as_json)
    elif not switched or not setup.add_later(sites, pair, pair.new, _report):
        output.message("the new database takes the writes already: nothing to set up")


def _set_up(
    sites: Connections, pair: Pair, asked: common.Asked, explain: bool, as_json: bool
) -> None:
    found, structure = common.examine(sites, pair, asked)
    forbidding = refusals(found)
    if explain:
        steps: list[output.Describes] = [
            *plan.remaining(setup.first(pair, structure), sites),
            *setup.LATER,
        ]
        output.steps(steps, json_wanted=as_json)
        return
    if forbidding:
        common.say(forbidding)
        raise StateError(
            f"the move cannot begin: {forbidding[0].what}",
            detail=f"{len(forbidding)} critical findings; nothing is changed",
            hint=f"{forbidding[0].do}; londiste migrate check shows all",
        )
    warnings = sum(one.severity is Severity.WARNING for one in found)
    if warnings:
        output.warning(f"there are warnings ({warnings}): londiste migrate check shows them")
    count = setup.set_up(sites, pair, structure, _report)
    if not count:
        output.message("everything is set up already")


def _report(step: plan.Step) -> None:
    output.message(step.describe())


def stay(
    pair: Pair, signals: Signals, children: daemons.Daemons, enough: Collection[Phase]
) -> Phase | None:
    """Keeps the daemons running and says what changes, until a phase is reached.

    enough -- the phases that end it, besides the end of the move.  The last phase that was seen;
    of those that follow the copy, the first, so that a look that fails does not hide it.
    """
    told, troubles = "", set[str]()
    reached: Phase | None = None
    while not signals.stopping:
        daemons.watch(children)
        seen = _look(pair, troubles)
        if seen is not None:
            reached = seen.phase if reached not in READY else reached
            if seen.phase is Phase.NOT_BEGUN:
                output.message("the move is finished: nothing is left to do")
                return reached
            said = f"{seen.phase.value}: {seen.in_step} of {seen.tables} tables in step"
            if said != told:
                output.message(said)
                told = said
                if reached in READY:
                    output.message(f"next: {seen.next}")
            # After the switch it may be the other side that still copies.
            copied = seen.phase is not Phase.SWITCHED or seen.in_step >= seen.tables
            if seen.phase in enough and copied:
                return seen.phase
        signals.wait(daemons.PERIOD)
    output.message("stopped; the databases fall apart until the command is given again")
    return reached


def _look(pair: Pair, told: set[str]) -> phase.Progress | None:
    """How far the move is; None when it cannot be said now, for instance while finish is at work.

    told -- what went wrong the last time: it is said when it does so again.
    """
    try:
        with pair.sites() as sites:
            found = phase.look(sites, pair)
    except (LondisteError, psycopg.Error) as error:
        ours = error if isinstance(error, LondisteError) else from_database(error)
        if ours.message in told:
            output.warning(f"{ours.message}; trying again")
        told.clear()
        told.add(ours.message)
        return None
    told.clear()
    return found
