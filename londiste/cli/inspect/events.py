"""``londiste events``: events that cannot be applied to this node."""

from __future__ import annotations

import dataclasses
import getpass
import json
import os
import re
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.daemon.files import write_atomically
from londiste.db.connection import Connection, session
from londiste.errors import BadOption, StateError, UsageError
from londiste.monitor import apply_errors
from londiste.monitor.apply_errors import Halted
from londiste.replication.apply import errors
from londiste.settings import NodeSettings

_ADDRESS = re.compile(r"(\d{1,19})(?::(\d{1,10}))?")


@click.group()
def events() -> None:
    """Events that cannot be applied to this node: look at them, and decide.

    Replication of the node stands in front of such an event until somebody decides, or what is
    wrong is put right.
    """


@events.command()
@options.pass_context
@click.option("--all", "every", is_flag=True, help="The history, too.")
@options.json_output
def show(context: options.Context, every: bool, as_json: bool) -> None:
    """Show what halts this node: the event, its row, the row that is here, and the choices."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        found = apply_errors.look(conn, settings.queue_name, every=every)
    if as_json:
        output.as_json([one.as_dict() for one in found])
        return
    if not found:
        output.message("no event halts this node")
    for number, one in enumerate(found):
        if number:
            click.echo()
        _print(one)


def _print(one: Halted) -> None:
    error = one.error
    op = f"{error.op} of " if error.op else ""
    lines = [
        f"event {error.address}: {op}table {error.dest or error.table or '?'}: {error.state}",
        f"  what       {error.message}",
        f"  kind       {error.kind}"
        + (f", SQLSTATE {error.sqlstate}" if error.sqlstate else "")
        + f"; {error.consumer}, batch up to tick {error.tick}",
        f"  seen       {output.cell(error.first_seen)} to {output.cell(error.last_seen)},"
        f" {error.times} times",
    ]
    if error.image is not None:
        lines.append(f"  row        {error.image}")
    if error.state == "halted":
        lines.append(f"  row here   {one.now or 'none with its key'}")
        if error.here is not None and error.here != one.now:
            lines.append(f"  in its way {error.here}")
    if error.statement:
        lines.append(f"  SQL        {error.statement}")
    if error.decided_by is not None:
        why = f": {error.reason}" if error.reason else ""
        lines.append(
            f"  decided    left out, by {error.decided_by}, {output.cell(error.decided_at)}{why}"
        )
    if error.ended_at is not None:
        lines.append(f"  ended      {output.cell(error.ended_at)}")
    lines += [f"  choice     {choice.what}: {choice.command}" for choice in one.choices]
    for line in lines:
        click.echo("  " * line.startswith(" ") + output.cell(line))


@events.command()
@options.pass_context
@options.explain
def retry(context: options.Context, explain: bool) -> None:
    """Let the worker try again now, instead of when its pause is over."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        name = nodes.get_node_info(conn, settings.queue_name).name
        if explain:
            output.lines([f"{name}: wake the worker"])
            return
        note = errors.retry_apply_errors(conn, settings.queue_name)
    output.message(f"{name}: {note[:1].lower()}{note[1:]}")


@events.command()
@options.pass_context
@click.argument("addresses", nargs=-1, required=True, metavar="EVENT...")
@click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the decision.")
@options.explain
def skip(context: options.Context, addresses: Sequence[str], reason: str, explain: bool) -> None:
    """Leave events out on this node that halt it; nothing else of their batch is.

    EVENT is a number, with the row of a packed event behind a colon: 4711:7. The decision is kept
    with your name; other nodes get the event all the same.
    """
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        queue = settings.queue_name
        name = nodes.get_node_info(conn, queue).name
        known = {one.address: one for one in errors.get_apply_errors(conn, queue)}
        chosen = [_known(address, known) for address in dict.fromkeys(addresses)]
        if explain:
            of = {one.address: f" of {one.dest}" if one.dest else "" for one in chosen}
            output.lines([f"{name}: leave out event {which}{what}" for which, what in of.items()])
            return
        with conn.transaction():
            notes = [
                errors.skip_apply_error(conn, queue, one.event_id, one.row, _who(), reason)
                for one in chosen
            ]
    for note in notes:
        output.message(f"{name}: {note[:1].lower()}{note[1:]}")


def _known(address: str, known: dict[str, errors.ApplyError]) -> errors.ApplyError:
    if _ADDRESS.fullmatch(address) is None:
        raise BadOption(
            f"{address}: no event", hint="write 4711, or 4711:7 for a row of a packed event"
        )
    found = known.get(address)
    if found is None:
        number = address.partition(":")[0]
        rows = [other for other in known if other.partition(":")[0] == number]
        raise UsageError(
            f"event {address} does not halt this node",
            detail=f"of event {number} it is row {', '.join(rows)}" if rows else "",
            hint="londiste events show",
        )
    if found.dest is None and found.kind != "unproven":
        raise StateError(
            f"event {address} cannot be left out",
            detail="it is about no table that is here",
            hint="londiste events show has the choices",
        )
    return found


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


@events.command()
@options.pass_context
@click.argument("file", metavar="FILE")
@click.argument("addresses", nargs=-1, metavar="[EVENT]...")
@click.option("--all", "every", is_flag=True, help="The history, too.")
def export(context: options.Context, file: str, addresses: Sequence[str], every: bool) -> None:
    """Write events that halt this node into a file: as SQL if it ends in .sql, else as JSON.

    For a person to read; nothing is decided by it. FILE may be - for standard output. An existing
    file is not written over.
    """
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        found = apply_errors.look(conn, settings.queue_name, every=every or bool(addresses))
    known = {one.error.address: one for one in found}
    missing = [address for address in addresses if address not in known]
    if missing:
        raise UsageError(
            f"event {missing[0]} never halted this node", hint="londiste events show --all"
        )
    chosen = [known[address] for address in addresses] or found
    if file.endswith(".sql"):
        text = "\n".join(apply_errors.as_sql(one.error) for one in chosen)
    else:
        documents = [one.as_dict() for one in chosen]
        text = json.dumps(documents, default=str, ensure_ascii=False, indent=2) + "\n"
    if file == "-":
        click.echo(text, nl=False)
        return
    _write(Path(file), text)
    output.message(f"{len(chosen)} events in {file}")


def _write(path: Path, text: str) -> None:
    """It has rows in it: nobody else may read it."""
    try:
        write_atomically(path, text, replace=False)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="name a file that is not there"
        ) from error


@events.command()
@options.pass_context
@click.option("--rows", is_flag=True, help="The rows that policy log has left out.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="So many of them."
)
@options.json_output
def conflicts(context: options.Context, rows: bool, limit: int, as_json: bool) -> None:
    """Show how often policies of tables have decided, instead of halting."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        if rows:
            logged = errors.get_conflict_log(conn, settings.queue_name, limit)
            columns = [f.name for f in dataclasses.fields(errors.LeftOut)]
            output.show(columns, [dataclasses.asdict(one) for one in logged], json_wanted=as_json)
            return
        found = errors.get_conflicts(conn, settings.queue_name)
    columns = [f.name for f in dataclasses.fields(errors.Conflict)]
    output.show(columns, [dataclasses.asdict(one) for one in found], json_wanted=as_json)


def _node(settings: NodeSettings) -> AbstractContextManager[Connection]:
    return session(settings.db, name="londiste events", autocommit=True)
