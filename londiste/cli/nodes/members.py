"""``londiste members``: lists the nodes of the queue."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import sites
from londiste.db.connection import masked
from londiste.settings import NodeSettings


class Member(TypedDict):
    """A node of the queue.

    dead -- it is marked as failed.
    node_location -- its connection string, without secrets.
    """

    node_name: str
    dead: bool
    node_location: str


NODES = Rows("nodes", Member)


@click.command()
@options.pass_context
@options.json_output(NODES)
def members(context: options.Context, as_json: bool) -> None:
    """List the nodes of the queue that this node knows."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        conn = where.at(settings.db)
        nodes.get_node_info(conn, settings.queue_name)
        known = nodes.get_queue_locations(conn, settings.queue_name)
    rows = [Member(node_name=m.name, dead=m.dead, node_location=masked(m.location)) for m in known]
    output.show(
        NODES,
        rows,
        json_wanted=as_json,
        empty="no node yet: londiste create-root NAME",
    )
