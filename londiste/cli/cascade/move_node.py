"""``londiste move-node``: stores a node's new connection string on all nodes."""

from __future__ import annotations

import shlex

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import move_node as moving
from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.cli.cascade.common import finish
from londiste.cli.plan_output import sites
from londiste.db.connection import Connection
from londiste.migrate.databases import NEW, OLD, MigrateSettings
from londiste.replicate.asked import Asked
from londiste.replicate.databases import worker_name
from londiste.settings import NodeSettings

_OF_REPLICATE, _OF_MIGRATE = worker_name(""), "migrate_"


@click.command("move-node")
@options.pass_context
@click.argument("node")
@click.argument("connection")
@options.changes
def move_node(context: options.Context, node: str, connection: str, how: options.Execution) -> None:
    """Store a node's new connection string on all nodes.

    For a node whose database, server or address was renamed or moved. CONNECTION is how the other
    nodes reach it now, without a password. First change `db` in its own settings and restart its
    daemons. A node that does not answer is named; repeat the command with its settings.
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
        again = _restart(where.at(where.reach(connection)), settings.queue_name, connection)
    if again and not how.explain:
        output.message(f"workers with the old string: end them, then, for the same tables: {again}")
    if not how.explain:
        moving.refuse_silent(move, node, connection)


def _restart(conn: Connection, queue: str, location: str) -> str:
    """The command for the workers that a new location of a node concerns; '' for none.

    They have the strings that their command was given; others read them from the cascade.

    conn -- to the node.  The command has no passwords, and the tables are not known.
    """
    node = nodes.get_node_info(conn, queue)
    places = {one.name: one.location for one in nodes.get_queue_locations(conn, queue)}
    places[node.name] = location
    if node.worker == f"{_OF_MIGRATE}{node.name}" and places.keys() == {OLD, NEW}:
        words = ["londiste", "migrate", "run", "--from", places[OLD], "--to", places[NEW]]
        if queue != MigrateSettings.model_fields["queue_name"].default:
            words[1:1] = ["--set", f"queue_name={queue}"]
        return shlex.join(words)
    if node.type is NodeType.LEAF:
        ours = node.worker.startswith(_OF_REPLICATE)
        return Asked(node.provider_location, (location,), queue).command() if ours else ""
    below = tuple(
        places[one.name]
        for one in nodes.get_subscriber_info(conn, queue)
        if one.worker.startswith(_OF_REPLICATE) and one.name in places
    )
    return Asked(location, below, queue).command() if below else ""
