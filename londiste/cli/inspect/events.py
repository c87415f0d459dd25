"""``londiste events``, also ``apply-errors``: events that failed to apply."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.switching.operation_log import operator
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.errors import pasteable
from londiste.daemon.files import write_atomically, write_hint
from londiste.db.connection import IDLE_SECONDS, Connection, session
from londiste.errors import UsageError
from londiste.handlers.table_rules import resolution
from londiste.monitor import apply_errors
from londiste.monitor.apply_errors import StoredError
from londiste.replication.apply import errors
from londiste.settings import NodeSettings
from londiste.wording import escaped_json

EVENTS = Rows("events", apply_errors.FailedEvent)
CONFLICTS = Rows("conflicts", errors.Conflict)
LEFT_OUT = Rows("rows", errors.LeftOut)


@click.group()
def events() -> None:
    """Inspect, skip or retry events that failed to apply. Alias: apply-errors.

    The node stops at a failed event until an operator decides, or the cause is fixed.
    """


@events.command()
@options.pass_context
@click.option("--all", "every", is_flag=True, help="Include decided and ended errors.")
@options.json_output(EVENTS)
def show(context: options.Context, every: bool, as_json: bool) -> None:
    """Show the failed events: the event, its row, the target row, and the choices."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        found = apply_errors.look(conn, settings.queue_name, every=every)
    if as_json:
        output.as_json({EVENTS.key: [one.as_dict() for one in found]})
        return
    if not found:
        output.message("no failed events")
    for number, one in enumerate(found):
        if number:
            click.echo()
        _print(one)


def _print(one: StoredError) -> None:
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
        lines.append(f"  target row {one.now or 'none with this key'}")
        if error.here is not None and error.here != one.now:
            lines.append(f"  conflicting row {error.here}")
    if error.statement:
        lines.append(f"  SQL        {error.statement}")
    if error.decided_by is not None:
        why = f": {error.reason}" if error.reason else ""
        lines.append(
            f"  decided    skipped by {error.decided_by}, {output.cell(error.decided_at)}{why}"
        )
    if error.ended_at is not None:
        lines.append(f"  ended      {output.cell(error.ended_at)}")
    lines += [f"  choice     {choice.what}: {pasteable(choice.command)}" for choice in one.choices]
    for line in lines:
        click.echo("  " * line.startswith(" ") + output.cell(line))


@events.command()
@options.pass_context
@options.explain
def retry(context: options.Context, explain: bool) -> None:
    """Retry failed events now, instead of after the pause."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        name = nodes.get_node_info(conn, settings.queue_name).name
        if explain:
            output.lines([f"{name}: retry now"])
            return
        note = errors.retry_apply_errors(conn, settings.queue_name)
    output.message(f"{name}: {note[:1].lower()}{note[1:]}")


@events.command()
@options.pass_context
@click.argument("addresses", nargs=-1, required=True, metavar="EVENT...")
@click.option("--reason", default="", metavar="TEXT", help="Reason, stored with the decision.")
@options.explain
def skip(context: options.Context, addresses: Sequence[str], reason: str, explain: bool) -> None:
    """Skip failed events on this node; the rest of their batch is applied.

    EVENT is a number, or number:row for a row of a packed event: 4711:7. The decision is stored
    with your name; other nodes still get the event.
    """
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        queue = settings.queue_name
        name = nodes.get_node_info(conn, queue).name
        known = {one.address: one for one in errors.get_apply_errors(conn, queue)}
        chosen = [apply_errors.known(address, known) for address in dict.fromkeys(addresses)]
        if explain:
            of = {one.address: f" of {one.dest}" if one.dest else "" for one in chosen}
            output.lines([f"{name}: skip event {which}{what}" for which, what in of.items()])
            return
        with conn.transaction():
            notes = [
                errors.skip_apply_error(conn, queue, one.event_id, one.row, operator(), reason)
                for one in chosen
            ]
    for note in notes:
        output.message(f"{name}: {note[:1].lower()}{note[1:]}")


@events.command()
@options.pass_context
@click.argument("file", metavar="FILE")
@click.argument("addresses", nargs=-1, metavar="[EVENT]...")
@click.option("--all", "every", is_flag=True, help="Include decided and ended errors.")
def export(context: options.Context, file: str, addresses: Sequence[str], every: bool) -> None:
    """Write failed events into a file: as SQL if it ends in .sql, else as JSON.

    Changes nothing. FILE may be - for standard output. An existing file is not overwritten.
    """
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        found = apply_errors.look(conn, settings.queue_name, every=every or bool(addresses))
    known = {one.error.address: one for one in found}
    missing = [address for address in addresses if address not in known]
    if missing:
        raise UsageError(
            f"event {missing[0]}: has never failed on this node", hint="londiste events show --all"
        )
    chosen = [known[address] for address in addresses] or found
    if file.endswith(".sql"):
        text = "\n".join(apply_errors.as_sql(one.error) for one in chosen)
    else:
        documents = [one.as_dict() for one in chosen]
        text = json.dumps(documents, default=str, ensure_ascii=False, indent=2)
        text = escaped_json(text) + "\n"
    if file == "-":
        output.exact(text)
        return
    write(Path(file), text)
    output.message(f"{len(chosen)} events in {file}")


def write(path: Path, text: str) -> None:
    """Writes a new file that only its owner may read: it contains rows."""
    try:
        write_atomically(path, text, replace=False)
    except OSError as error:
        name = "give the name of a new file, in a directory that you can write"
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint=write_hint(error, name)
        ) from error


@events.command()
@options.pass_context
@click.option("--rows", is_flag=True, help="Show the rows that skip_and_log has skipped.")
@options.limit("Maximum rows to print.", default=100)
@options.json_output(CONFLICTS, LEFT_OUT)
def conflicts(context: options.Context, rows: bool, limit: int, as_json: bool) -> None:
    """Show how often each conflict resolution was applied."""
    settings = context.settings(NodeSettings)
    with _node(settings) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        if rows:
            logged = errors.get_conflict_log(conn, settings.queue_name, limit)
            output.show(LEFT_OUT, logged, json_wanted=as_json)
            return
        found = errors.get_conflicts(conn, settings.queue_name)
    if not as_json:
        found = [dataclasses.replace(one, policy=resolution(one.policy)) for one in found]
    output.show(CONFLICTS, found, json_wanted=as_json, empty="no event failed to apply")


def _node(settings: NodeSettings) -> AbstractContextManager[Connection]:
    return session(
        settings.db,
        name="londiste events",
        autocommit=True,
        idle_timeout_ms=IDLE_SECONDS * 1000,
    )
