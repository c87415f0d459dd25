"""``londiste move-node``: stores a node's new connection string on all nodes."""

from __future__ import annotations

import click

from londiste.cascade.commands import move_node as moving
from londiste.cli import options, output
from londiste.cli.cascade.common import finish
from londiste.cli.cascade.restart import restart
from londiste.cli.plan_output import sites
from londiste.settings import NodeSettings


@click.command("move-node")
@options.pass_context
@click.argument("node")
@click.argument("connection")
@options.changes
def move_node(context: options.Context, node: str, connection: str, how: options.Execution) -> None:
    """Store a node's new connection string on all nodes.

    For a node whose database, server or address was renamed or moved. CONNECTION is how the other
    nodes reach it now, without a password. First change `db` in its own settings and restart its
    daemons. A node that does not answer is named; run the command again with its settings.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        move = moving.plan(where, settings.db, settings.queue_name, node, connection)
        if how.explain and move.silent:
            output.warning(
                f"node {', '.join(move.silent)} does not answer: the command fails until it does"
            )
        for reason in move.lost:
            output.warning(reason)
        finish(
            move.steps,
            where,
            how,
            f"node {node} has its new connection string",
            f"all nodes that answer have the connection string of node {node}, nothing to do",
        )
        again = restart(where.at(where.reach(connection)), settings.queue_name, connection)
    if again and not how.explain:
        output.message(f"workers with the old string: end them, then, for the same tables: {again}")
    if not how.explain:
        moving.refuse_silent(move, node, connection)
