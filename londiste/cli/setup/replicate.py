"""``londiste replicate``: replicates a database into others by one command."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from londiste.cli import errors, options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.setup import live_state, preflight
from londiste.cli.sync_view import sync_view
from londiste.daemon import pidfile
from londiste.daemon.process import process
from londiste.daemon.signals import EXIT_INTERRUPTED, stopped
from londiste.dsn import describe_dsn, with_environment
from londiste.errors import BadOption, NodeUnreachable, StateError
from londiste.orchestration import daemons, steps
from londiste.replicate import daemons as ours
from londiste.replicate import queue_list, remaining, remove, save, setup
from londiste.replicate.asked import Asked
from londiste.replicate.databases import (
    MAX_QUEUES,
    ReplicateSettings,
    Replication,
    connecting_queues,
    require_state,
    state_file,
    unreachable,
)
from londiste.replicate.setup import Selection, Share
from londiste.settings import databases_of


@click.command()
@options.pass_context
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--also", multiple=True, metavar="DSN", help="Further target; repeatable.")
@click.option(
    "--exclude", multiple=True, metavar="TABLE", help="Exclude a table or pattern; repeatable."
)
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="NAME",
    help="Replicate only tables of this schema; repeatable.",
)
@click.option(
    "--where",
    default="",
    metavar="CONDITION",
    help="Replicate only rows that match this SQL condition.",
)
@click.option(
    "--queue", metavar="NAME", help="Name of the queue (default: of the source database)."
)
@click.option(
    "--queues",
    type=click.IntRange(1, MAX_QUEUES),
    metavar="NUMBER",
    help=f"Split the tables over 1 to {MAX_QUEUES} queues, each with own workers. Default: 1.",
)
@click.option(
    "--allow-code",
    is_flag=True,
    help="Accept functions and rules of the source; they run with the rights of TARGET's user.",
)
@click.option("--once", is_flag=True, help="Exit when all tables are in sync and compared.")
@click.option(
    "--save",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the nodes and tables into a settings file; exit if another process replicates.",
)
@click.option("--detach", is_flag=True, help="Continue in the background.")
@click.option("--stop", is_flag=True, help="Stop the process in the background, if one runs.")
@click.option("--status", is_flag=True, help="Show the state of the nodes, then exit.")
@click.option(
    "--remove",
    "removing",
    is_flag=True,
    help="Remove the replication from all these databases; tables and rows stay.",
)
@click.option(
    "--drop-tables",
    is_flag=True,
    help="With --remove: drop the tables and schemas that were created in the targets.",
)
@options.explain
def replicate(
    context: options.Context,
    source: str,
    target: str,
    tables: Sequence[str],
    also: Sequence[str],
    exclude: Sequence[str],
    schemas: Sequence[str],
    where: str,
    queue: str | None,
    queues: int | None,
    allow_code: bool,
    once: bool,
    file: Path | None,
    detach: bool,
    stop: bool,
    status: bool,
    removing: bool,
    drop_tables: bool,
    explain: bool,
) -> int:
    """Replicate a database into another one: check, set up, copy, and keep in sync.

    SOURCE and TARGET are connection strings. Without TABLE all tables are replicated; TABLE may
    contain * and ?. Missing tables are created. Repeat an interrupted command to continue.
    """
    _check_options(once, detach, stop, status, removing)
    source, *targets = (with_environment(dsn, os.environ) for dsn in (source, target, *also))
    context = _without_another_file(context, (source, *targets))
    settings = context.settings(ReplicateSettings, queue_name=queue, queues=queues)
    selection = Selection(tuple(tables), tuple(exclude), tuple(schemas), where.strip(), allow_code)
    name = settings.queue_name or None
    asked = Asked(source, tuple(targets), name, selection, settings.queues, file is not None)
    if drop_tables and not removing:
        raise BadOption(
            "--drop-tables requires --remove", hint=asked.command("--remove", "--drop-tables")
        )
    if stop:
        stopping = _stop(settings, asked, explain=explain)
        if explain:
            output.steps(stopping)
        return 0
    if removing:
        stopping = _stop(settings, asked, quiet=True, explain=explain)
        found = _existing(settings, source, targets)
        if explain:
            output.steps([*stopping, *_removing(found, drop_tables=drop_tables)])
        else:
            _remove(found, asked, drop_tables=drop_tables)
        return 0
    if status:
        return _status(context, settings, asked)
    found = queue_list.identify_all(settings, source, targets, settings.queues)
    if detach and not explain:
        require_state(*(state_file(settings, source, targets[0], s) for s in ("pid", "log")))
    # In the background it is named at the end.
    shares = _checked(found, asked, name_file=explain or not detach)
    contents = save.files(file, shares) if file is not None else {}
    for path, content in contents.items():
        save.require_free(path, content)
    if explain:
        _explain(shares)
        return 0
    try:
        setup.set_up(shares, lambda step: output.message(step.describe()), output.warning)
    except KeyboardInterrupt:
        live_state.say_how_to_continue(asked, "stopped by SIGINT")
        raise
    for path, content in contents.items():
        save.write(path, content)
        output.message(f"saved {path}; it contains no password: store passwords in ~/.pgpass")
    if contents and not once and not detach:
        if _is_replicated(found):
            live_state.say_who_continues(asked)
            return 0
        if _in_background(settings, asked) is None:
            output.message("replicates until Ctrl-C; --detach continues in the background")
    return _run(context, [one.replication for one in shares], asked, once=once, detach=detach)


def _is_replicated(replications: Sequence[Replication]) -> bool:
    """Whether another process runs all daemons of the replication."""
    with replications[0].sites() as sites:
        running = ours.ask(sites, replications).running
    return {need.name for need in ours.needs(replications)} <= set(running)


def _without_another_file(context: options.Context, dsns: Sequence[str]) -> options.Context:
    """The context without the file of the directory, if that is about other databases."""
    file = context.config
    if file is None or not context.implied or save.concerns(databases_of(file), dsns):
        return context
    output.message(f"{file} is about other databases: ignored")
    return replace(context, config=None)


def _in_background(settings: ReplicateSettings, asked: Asked) -> int | None:
    """The process of ``--detach`` that replicates these databases; None if there is none."""
    return pidfile.running(state_file(settings, asked.source, asked.targets[0], "pid"))


def _existing(
    settings: ReplicateSettings, source: str, targets: Sequence[str]
) -> list[Replication]:
    """The queues that connect these databases; the first one even if it does not exist."""
    found = queue_list.identify_all(settings, source, targets)
    with found[0].sites() as sites:
        # Without a target, which queues connect them is unknown.
        return queue_list.concerned(sites, found) if targets else found


def _status(context: options.Context, settings: ReplicateSettings, asked: Asked) -> int:
    """Prints the nodes that answer; the exit code.

    Raises NodeUnreachable afterwards for those that do not.
    """
    code = 0
    silent = unreachable(settings, (asked.source, *asked.targets))
    for dsn, error in silent.items():
        unreached = isinstance(error, NodeUnreachable)
        words = "does not answer" if unreached else "refuses the connection"
        click.echo(output.cell(f"{describe_dsn(dsn)}: {words}"))
    answering = [dsn for dsn in asked.targets if dsn not in silent]
    if asked.source in silent:
        live_state.status_without_source(settings, asked.source, answering)
    else:
        found = _existing(settings, asked.source, answering)
        in_file = live_state.nodes_in_file(context, found)

        def placed(hint: str, node: str) -> str:
            if node in in_file:
                return errors.pasteable(hint, "--node", node)
            return asked.placed(hint, node)

        nodes = live_state.status(
            found,
            _in_background(settings, asked),
            asked.repeated("--detach"),
            {queue: asked.of_queue(queue, "--status") for queue in _connecting(found)},
            remove=asked.command("--remove"),
            placed=placed,
        )
        code = EXIT_DIFFERENT if any(one.loses or one.overdue for one in nodes) else 0
        hinted = any(one.has_hints for one in nodes)
        with found[0].sites() as sites:
            live_state.warn(sites, found, asked, hinted=hinted and not in_file)
            for name, below in setup.lacking(sites, found, asked.selection):
                output.warning(f"table {name} is not replicated on {below}")
    for error in silent.values():
        raise NodeUnreachable.of(error)
    return code


def _connecting(replications: Sequence[Replication]) -> list[str]:
    with replications[0].sites() as sites:
        return connecting_queues(sites, replications)


def _check_options(*given: bool) -> None:
    if sum(given) > 1:
        raise BadOption(
            "--once, --detach, --stop, --status and --remove exclude each other",
            hint="give one of the options",
        )


def _run(
    context: options.Context,
    replications: Sequence[Replication],
    asked: Asked,
    *,
    once: bool,
    detach: bool,
) -> int:
    """Keeps ticker and workers running; the exit code."""
    settings = replications[0].settings
    log, pid = context.log_target(settings), settings.pidfile
    # Beside the process in the background no second one starts; --once only waits.
    other = None if once else _in_background(settings, asked)
    if other is not None:
        output.message(f"already running in the background: process {other}")
    if detach or other is not None:
        pid, logfile = (
            state_file(settings, asked.source, asked.targets[0], suffix)
            for suffix in ("pid", "log")
        )
        if other is None:
            require_state(pid, logfile)
            output.message("running in the background")
        output.message(f"log:               {logfile}")
        output.message(f"look:              {asked.repeated('--status')}")
        output.message(f"stop:              {asked.repeated('--stop')}")
        live_state.name_the_file(asked)
        if other is not None:
            return 0
        log = replace(log, logfile=logfile)
    with (
        process(
            pid=pid,
            log=log,
            background=detach,
            quiet=context.quiet,
            verbose=context.verbose,
            stop_timeout=daemons.STOP_SECONDS,
            break_off_on_second=True,
            announced=detach,
        ) as signals,
        daemons.kept(ours.children(replications, verbose=_verbose(context))) as children,
    ):
        again = asked.repeated("--once") if once else ""
        try:
            with sync_view(quiet=context.quiet) as view:
                reached = live_state.stay(
                    replications, signals, children, view, until_sync=again, placed=asked.placed
                )
        except StateError:
            live_state.name_the_file(asked)
            raise
        if not reached:
            output.message("the replication was removed")
            return 0
        if once and not signals.stopping:
            return live_state.compare(replications, asked.selection)
        watched_only = not children.own
    if watched_only:
        live_state.say_who_continues(asked)
        return EXIT_INTERRUPTED if once else 0
    live_state.say_how_to_continue(asked, stopped(signals))
    return EXIT_INTERRUPTED if once else 0


def _stop(
    settings: ReplicateSettings, asked: Asked, *, explain: bool, quiet: bool = False
) -> list[steps.Later]:
    """Stops the process in the background and waits for its end; the steps where it explains only.

    quiet -- whether to say nothing where none runs.
    """
    path = state_file(settings, asked.source, asked.targets[0], "pid")
    found = pidfile.running(path)
    if found is None:
        if not quiet:
            output.message(
                f"no process replicates these databases in the background (pid file {path})"
            )
            output.message(f"start it: {asked.repeated('--detach')}")
        return []
    if explain:
        return [steps.Later(f"stop process {found}")]
    pid = pidfile.send(path, signal.SIGINT)
    pidfile.wait_end(path, pid, daemons.STOP_SECONDS + 10)
    output.message(
        f"stopped process {pid}; changes are not replicated until the command runs again"
    )
    output.message("the source keeps the events until then, which takes disk space")
    return []


def _removing(replications: Sequence[Replication], *, drop_tables: bool) -> list[steps.Step]:
    with replications[0].sites() as sites:
        return remove.planned(sites, replications, drop_tables=drop_tables, warn=output.warning)


def _remove(replications: Sequence[Replication], asked: Asked, *, drop_tables: bool) -> None:
    source = replications[0].source
    with replications[0].sites() as sites:
        count = remove.remove(
            sites,
            replications,
            drop_tables=drop_tables,
            quiet=lambda: live_state.wait_for_quiet(sites, replications),
            report=lambda step: output.message(step.describe()),
            warn=output.warning,
        )
        left = {name for one in replications for name in remove.readers(sites, one)}
        others = connecting_queues(sites, replications)
    if left:
        output.message(
            f"{source.name}: kept, {', '.join(sorted(left))} read from it;"
            " londiste replicate --remove with their databases removes them"
        )
    elif not count:
        output.message("nothing to remove")
    elif others:
        output.message("removed")
    else:
        output.message("removed; the databases are independent")
    for queue in others:
        output.warning(
            f"the databases are still connected by queue {queue}:"
            f" {asked.of_queue(queue, '--remove')}"
        )


def _verbose(context: options.Context) -> list[str]:
    """Verbosity of the daemons: warnings, unless -v is given."""
    return ["-v"] * context.verbose or ["-q"]


def _checked(replications: Sequence[Replication], asked: Asked, *, name_file: bool) -> list[Share]:
    """Checks the databases and tables; the queues with the tables of each.  Changes nothing."""
    selection, first = asked.selection, replications[0]
    queues = [one.queue for one in replications]
    with first.sites() as sites:
        conn = sites.at(first.source.dsn)
        names = setup.chosen(conn, first.source.dsn, queues, selection)
        setup.require_condition(conn, names, selection.where)
        shares = queue_list.shares(sites, replications, selection, names, output.warning)
        others = {queue: asked.of_queue(queue) for queue in connecting_queues(sites, replications)}
        taken = {
            name: why
            for share in shares
            for name, why in setup.require_free(
                sites, share.replication, share.names, others
            ).items()
        }
        names = [name for share in shares for name in share.names if name not in taken]
        verdict = preflight.preflight(sites, replications, names, allow_code=selection.allow_code)
        skipped = preflight.require(verdict, taken)
        shares = [share.without(skipped) for share in shares]
        live_state.warn(sites, replications, asked, name_file=name_file, checked=True)
    for text in queue_list.described(shares, first.settings):
        output.message(text)
    return shares


def _explain(shares: Sequence[Share]) -> None:
    first = shares[0].replication
    with first.sites() as sites:
        found: list[output.Describes] = [
            *steps.remaining(setup.first(first), sites),
            *remaining.later(
                shares, [remaining.existing(sites, one.replication) for one in shares]
            ),
        ]
    output.steps(found)
