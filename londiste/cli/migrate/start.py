"""``londiste migrate start``: sets up a migration and keeps both databases in sync."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TypedDict

import click
import psycopg

from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.cli.documents import Steps
from londiste.cli.migrate import common
from londiste.cli.sync_view import ViewLine, shown, sync_view
from londiste.daemon.pidfile import running
from londiste.daemon.signals import Signals, stopped
from londiste.errors import LondisteError, StateError, from_database
from londiste.migrate import daemons, phase, setup
from londiste.migrate.checks import refusals
from londiste.migrate.databases import Pair
from londiste.migrate.phase import Phase
from londiste.monitor.queues.model import Severity
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import PERIOD, STOP_SECONDS, Daemons
from londiste.replicate import state
from londiste.replicate.state import NodeState

#: All tables were in sync, before the switch or after it.
READY = (Phase.IN_STEP, Phase.SWITCHED)


class Ready(TypedDict):
    """At the end: whether all tables were in sync."""

    ready: bool


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@common.ACCEPT_DEFINERS
@click.option("--until-ready", is_flag=True, help="Exit when all tables are in sync.")
@click.option("--no-daemons", is_flag=True, help="Set up only; run ticker and workers yourself.")
@options.daemon
@options.explain
@options.json_output(Ready, Steps)
def start(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    accept_definers: bool,
    until_ready: bool,
    no_daemons: bool,
    daemon: options.DaemonCall,
    explain: bool,
    as_json: bool,
) -> None:
    """Set up, copy, and keep both databases in sync.

    Checks first and refuses to start with critical findings. Then creates the structure of the new
    database and two nodes, and adds all tables and sequences. It keeps running, with the ticker and
    both workers, before and after the switch, until migrate finish or Ctrl-C. Repeat an interrupted
    command to continue.
    """
    pair = common.the_pair(context, source, target)
    settings = context.in_background(pair.settings, daemon)
    if explain and (daemon.stop or daemon.kill or daemon.reload):
        output.steps(_signalling(settings.pidfile, daemon), json_wanted=as_json)
        return
    if daemon.signalled(settings.pidfile):
        return
    begin(pair, common.Asked(way, pg_dump, accept_definers), explain, as_json)
    if explain or no_daemons:
        return
    with context.process(
        settings,
        pid=settings.pidfile,
        background=daemon.background,
        stop_timeout=STOP_SECONDS,
        announced=daemon.background,
    ) as signals:
        with daemons.kept(pair, verbose=common.verbose(context)) as children:
            reached = stay(pair, signals, children, READY if until_ready else ())
    if as_json:
        output.as_json(Ready(ready=reached in (*READY, Phase.NOT_BEGUN)))


def _signalling(path: Path | None, daemon: options.DaemonCall) -> list[plan.Later]:
    """What the call would signal."""
    pid = running(path) if path is not None else None
    if pid is None:
        return []
    return [plan.Later(f"send SIGHUP to process {pid}" if daemon.reload else f"stop process {pid}")]


def begin(pair: Pair, asked: common.Asked, explain: bool, as_json: bool) -> None:
    """Checks, and executes the remaining steps of the set-up or prints them.  Raises StateError."""
    with pair.sites() as sites:
        new = setup.node(sites, pair.new, pair.queue)
        if new is None or new.type is not NodeType.ROOT:
            _set_up(sites, pair, asked, explain, as_json)
        else:
            _add_later(sites, pair, explain, as_json)
        if not explain:
            there = [s for s in (pair.old, pair.new) if setup.node(sites, s, pair.queue)]
            for side in there:
                # Who repeats the command may have removed their cause.
                state.forget_errors_of(sites.at(side.dsn), pair.queue, side.worker)


def _add_later(sites: Connections, pair: Pair, explain: bool, as_json: bool) -> None:
    """The new database takes the writes: what was made there since goes to the old one, too."""
    switched = phase.look(sites, pair).phase is Phase.SWITCHED
    if explain:
        names = setup.not_replicated(sites.at(pair.new.dsn), pair.queue) if switched else []
        steps = [plan.Later(f"new and old: add table {name}") for name in names]
        output.steps(steps, json_wanted=as_json)
    elif not switched or not setup.add_later(sites, pair, pair.new, _report):
        output.message("the new database already takes the writes: nothing to set up")


def _set_up(
    sites: Connections, pair: Pair, asked: common.Asked, explain: bool, as_json: bool
) -> None:
    found, structure = common.examine(sites, pair, asked)
    forbidding = refusals(found)
    if explain:
        steps: list[output.Describes] = [
            *plan.remaining(setup.first(pair, structure), sites),
            *setup.later(sites, pair),
        ]
        output.steps(steps, json_wanted=as_json)
        return
    if forbidding:
        output.findings(forbidding)
        raise StateError(
            f"migration cannot start: {forbidding[0].what}",
            detail=f"{len(forbidding)} critical findings; nothing was changed",
            hint=f"{forbidding[0].do}; londiste migrate check shows all findings",
        )
    warnings = sum(one.severity is Severity.WARNING for one in found)
    if warnings:
        output.warning(f"there are warnings ({warnings}): londiste migrate check shows them")
    count = setup.set_up(sites, pair, structure, _report)
    if not count:
        output.message("already set up, nothing to do")


def _report(step: plan.Step) -> None:
    output.message(step.describe())


def stay(
    pair: Pair,
    signals: Signals,
    children: Daemons,
    enough: Collection[Phase],
    *,
    own: Collection[Phase] = (),
) -> Phase | None:
    """Keeps the daemons running and prints changes, until a phase is reached.

    enough -- the phases that end it, besides the end of the move.  The last phase that was seen;
    of those that follow the copy, the first, so that a failed poll does not hide it.
    own -- phases after which the command itself takes the next step, or has taken it.
    Raises StateError when no phase of ``enough`` is reached without an operator.
    """
    troubles = dict[str, int]()
    reached: Phase | None = None
    with sync_view(quiet=output.is_quiet()) as view:
        while not signals.stopping:
            children.look()
            seen, found = _look(pair, troubles)
            if seen is not None:
                reached = seen.phase if reached not in READY else reached
                if seen.phase is Phase.NOT_BEGUN:
                    output.message("the migration is finished")
                    return reached
                copies, lines = shown(found)
                said = f"{seen.phase.value}: {seen.in_step} of {seen.tables} tables in sync"
                told = reached in READY and seen.phase not in own
                advice = [f"next: {seen.next}"] if told else []
                view(copies, [*lines, *(ViewLine(text, text) for text in (said, *advice))])
                # After the switch it may be the other side that still copies.
                copied = seen.phase is not Phase.SWITCHED or seen.in_step >= seen.tables
                if seen.phase in enough and copied:
                    return seen.phase
                if enough and (held := state.stop_waiting(found, "the same command")):
                    raise held
            signals.wait(PERIOD)
    output.message(f"{stopped(signals)}; changes are not replicated until the command runs again")
    return reached


def _look(pair: Pair, told: dict[str, int]) -> tuple[phase.Progress | None, list[NodeState]]:
    """The state of the migration and its nodes; None when it is unknown, as during finish.

    told -- what went wrong the last time, and how often in a row: it is reported when it recurs,
    once.
    """
    nodes: list[NodeState] = []
    try:
        with pair.sites() as sites:
            found = phase.look(sites, pair)
            if found.root is not None:
                root = pair.side(found.root)
                nodes = state.look(sites, pair.queue, root, [pair.other(root)])
    except (LondisteError, psycopg.Error) as error:
        ours = from_database(error)
        times = told.get(ours.message, 0) + 1
        if times == 2:
            output.warning(f"{ours.message}; retrying")
        told.clear()
        told[ours.message] = times
        return None, []
    told.clear()
    return found, nodes
