"""``londiste execute retry``, ``skip``, ``mark-done``: decides about a failed script."""

from __future__ import annotations

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.db.connection import session
from londiste.replication.ddl import sqlapi as state
from londiste.settings import NodeSettings

_name = click.argument("name", metavar="FILE")


@click.command()
@options.pass_context
@_name
def retry(context: options.Context, name: str) -> None:
    """Retry a script that failed on this node."""
    _decide(context, name, "retry")


@click.command()
@options.pass_context
@_name
def skip(context: options.Context, name: str) -> None:
    """Skip a script on this node; replication continues after it.

    On the root: the script is not sent to other nodes either.
    """
    _decide(context, name, "skip")


@click.command("mark-done")
@options.pass_context
@_name
def mark_done(context: options.Context, name: str) -> None:
    """Take a script as done on this node: its work was done by hand."""
    _decide(context, name, "mark-done")


def _decide(context: options.Context, name: str, decision: str) -> None:
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste execute", autocommit=True) as conn:
        node = nodes.get_node_info(conn, settings.queue_name)
        note = state.decide_script(conn, settings.queue_name, name, decision)
    output.message(f"{node.name}: {note[:1].lower()}{note[1:]}")
