"""State of a replication on the terminal: the live view, one look, and the comparison."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import click
import psycopg

from londiste.cascade.commands.endpoint import connections, endpoint, parameters
from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.inspect.common import announce
from londiste.cli.sync_view import SyncView, ViewLine, shown
from londiste.compare import compare as comparing
from londiste.compare import context as parties
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError, StateError, from_database
from londiste.orchestration import daemons
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import Daemons
from londiste.replicate import daemons as ours
from londiste.replicate import losses, presence, queue_list, setup, state
from londiste.replicate.asked import Asked
from londiste.replicate.databases import NAME, ReplicateSettings, Replication, clean
from londiste.settings import cascade_file
from londiste.wording import at_node, shortened

#: Seconds between two looks at the nodes.
_PERIOD = 0.5
#: Seconds between two looks at what tables lack.
_LOSS_PERIOD = 30.0
#: Seconds that compare waits for a worker.
_COMPARE_SECONDS = 60.0
#: Tables that one line names.
_NAMED = 5


def stay(
    replications: Sequence[Replication],
    signals: Signals,
    children: Daemons,
    view: SyncView,
    *,
    until_sync: str,
    placed: state.Placing = at_node,
) -> bool:
    """Keeps the daemons running and shows the nodes; False when the nodes are gone.

    until_sync -- returns when all nodes are in sync: the command that does; '' for never.
    placed -- how hints name their node.

    Raises StateError when they do not get in sync without an operator.
    """
    failing, next_watch, next_losses, forgotten = "", 0.0, 0.0, not until_sync
    lost: losses.Lost = ()
    sites = replications[0].sites()
    try:
        while not signals.stopping:
            if not forgotten:
                # Before a worker starts: its errors are kept.
                with contextlib.suppress(LondisteError, psycopg.Error):
                    state.forget_errors(sites, replications)
                    forgotten = True
            if time.monotonic() >= next_watch:
                children.look()
                next_watch = time.monotonic() + daemons.PERIOD
            try:
                if anew := time.monotonic() >= next_losses:
                    lost = losses.look_for_losses(sites, replications)
                    next_losses = time.monotonic() + _LOSS_PERIOD
                seen = state.look_at_all(sites, replications, lost)
                found = state.by_queue(replications, seen)
                failing = ""
            except (LondisteError, psycopg.Error) as error:
                message = from_database(error).message
                if failing == message:
                    view((), [ViewLine(f"{message}; retrying", message)])
                failing = message
                sites.close()
            else:
                if not found:
                    return False
                view(*shown(found, placed))
                if until_sync and all(one.in_sync for one in found):
                    return True
                if until_sync and (stopped := state.stop_waiting(found, until_sync, placed)):
                    if anew or not any(one.losses for one in found):
                        raise stopped
                    # The worker may have removed their cause since they were looked for.
                    next_losses = 0.0
            signals.wait(_PERIOD)
        return True
    finally:
        sites.close()


def compare(replications: Sequence[Replication], selection: setup.Selection) -> int:
    """Compares all targets with the source; the exit code.

    selection -- of the tables: those that are not replicated are named.
    """
    source = replications[0].source
    rows: list[list[object]] = []
    for replication in replications:
        for target in replication.targets:
            result = comparing.compare_tables(
                replication.worker_settings(target),
                parties.Asked(timeout=_COMPARE_SECONDS),
                say=output.message,
                done=announce,
            )
            rows += [
                [target.name, r.table, r.equal, r.rows_root, r.rows_node] for r in result.tables
            ]
    output.table(["node", "table", "equal", f"rows on {source.name}", "rows on the node"], rows)
    different = sum(not row[2] for row in rows)
    if different:
        output.message(f"tables that differ: {different}")
        return EXIT_DIFFERENT
    with replications[0].sites() as sites:
        left = setup.not_replicated(sites, replications, selection)
    if left:
        many = "1 table is" if len(left) == 1 else f"{len(left)} tables are"
        output.message(
            "in sync, the replicated tables are equal;"
            f" {many} not replicated: {shortened(left, _NAMED)}"
        )
        return 0
    output.message("in sync, all tables are equal")
    return 0


def nodes_in_file(context: options.Context, found: Sequence[Replication]) -> Collection[str]:
    """The nodes that ``--node`` selects for the next command; none if there is another file."""
    file = None if context.config is None else cascade_file.read(context.config)
    same = file is not None and [one.queue for one in found] == [file.queue]
    return file.nodes if file is not None and same else ()


def status(
    replications: Sequence[Replication],
    background: int | None,
    start: str,
    others: Mapping[str, str],
    *,
    remove: str,
    placed: state.Placing,
) -> list[state.NodeState]:
    """Prints one line per node, then one for each of several queues, and which daemons do not run.

    Returns the nodes of each queue.

    background -- the process that keeps them running; start -- the command that starts it.
    others -- other queues that connect the databases, each with the command that shows it.
    remove -- the command that removes the replication.  placed -- how hints name their node.

    Raises StateError for what an interrupted removal or set-up has left.
    """
    kept: list[str] = []
    with replications[0].sites() as sites:
        for one in replications:
            there = presence.presence(sites, one)
            kept += presence.kept(there)
            if left := presence.incomplete(there):
                raise StateError(
                    f"a removal or set-up of queue {one.queue} is unfinished: {left}",
                    detail="a root without subscribers keeps capturing changes, which takes disk"
                    " space",
                    hint=f"finish the removal: {remove}; or finish the set-up: {start}",
                )
        found = state.look_at_all(sites, replications)
        running = ours.ask(sites, replications).certain() if found else set()
        blocked = ours.blocked(sites, replications) if found else {}
    if len(replications) > 1:
        _print(state.total(found), placed)
    _print(state.by_queue(replications, found), placed)
    missing = [need.name for need in ours.needs(replications) if need.name not in running]
    for queue, command in others.items():
        output.message(f"these databases are replicated by queue {queue}: {command}")
    if not found and not others:
        for text in kept:
            output.message(text)
        output.message(f"these databases are not replicated yet; start: {start}")
    elif missing and background is not None:
        # It starts them within seconds, and keeps them running.
        output.message(f"process {background} starts {', '.join(missing)}")
    elif missing:
        output.warning(f"not running: {', '.join(missing)}")
        output.message(f"start: {start}")
    for worker, text in blocked.items():
        output.warning(f"{worker} cannot run: {text}")
    return [one for states in found for one in states]


def status_without_source(settings: ReplicateSettings, source: str, targets: Sequence[str]) -> None:
    """Prints one line per node of the targets that answer: what they know without the source."""
    queue = settings.queue_name or clean(parameters(source).get("dbname", ""))
    for dsn in targets:
        with connections(NAME, settings, ()) as sites:
            found = queue_list.of_target(sites.at(dsn), queue)
            for name, node in found:
                target = endpoint(node.name, dsn, node.worker)
                seen = state.look_at_silent(sites, target, name)
                if len(found) > 1:
                    seen = replace(seen, name=f"{node.name}, queue {name}")
                click.echo(output.cell(state.line(seen, lag_known=False)))


def warn(
    sites: Connections,
    replications: Sequence[Replication],
    asked: Asked,
    *,
    name_file: bool = True,
    hinted: bool = False,
    checked: bool = False,
) -> None:
    """Warns about tables that cannot be replicated, and about those that lack changes.

    name_file -- also prints what the remedies need, and hints that were printed (``hinted``).
    checked -- the checks before the start have named the columns that are missing.
    """
    conn = sites.at(replications[0].source.dsn)
    queues = [one.queue for one in replications]
    for name, why in setup.left_out(conn, queues, asked.selection):
        output.warning(f"table {name} {why}")
    found = [
        (side.name, loss)
        for one, lost in zip(replications, losses.look_for_losses(sites, replications), strict=True)
        for side, ours in zip(one.all, lost, strict=True)
        for loss in ours
        if not (checked and loss.kind == losses.STRUCTURE)
    ]
    for node, loss in found:
        output.warning(f"{node}: {loss.what}: {loss.why}; {loss.do}")
    if (found or hinted) and name_file:
        name_the_file(asked)


def name_the_file(asked: Asked) -> None:
    """Prints what single commands need: they have no settings yet."""
    if not asked.saved:
        save_them = asked.repeated("--save", "FILE")
        output.message(
            f"settings of other commands: {save_them}, then -c FILE --node NAME;"
            " unless another process replicates, it stays until Ctrl-C"
        )


def say_how_to_continue(asked: Asked, stop: str) -> None:
    """Prints what became of the replication, and the commands that continue or remove it.

    stop -- why it has stopped.
    """
    output.message(f"{stop}; changes are not replicated until the command runs again")
    output.message("the source keeps the events until then, which takes disk space")
    output.message(f"continue:                   {asked.repeated()}")
    output.message(f"continue in the background: {asked.repeated('--detach')}")
    output.message(f"remove everything:          {asked.command('--remove')}")
    name_the_file(asked)
    if asked.has_passwords:
        output.message("passwords are not printed: give them again, or store them in ~/.pgpass")
    output.message("tables stay; --remove --drop-tables also drops those that were created")


def say_who_continues(asked: Asked) -> None:
    """Prints that another process replicates, and the command that shows the state."""
    output.message("ticker and workers continue in another process")
    output.message(f"look:              {asked.repeated('--status')}")


def wait_for_quiet(sites: Connections, replications: Sequence[Replication]) -> None:
    """Waits until the workers of dropped nodes have ended; warns about those that have not."""
    with contextlib.suppress(psycopg.Error, LondisteError):
        if left := daemons.still_running(lambda: ours.ask(sites, replications)):
            output.warning(f"still running: {', '.join(sorted(left))}; stop them")


def _print(found: Sequence[state.NodeState], placed: state.Placing) -> None:
    for one in found:
        click.echo(output.cell(state.line(one, placed=placed)))
