"""``londiste node-info``: type, provider, position and flags of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cli import options, output
from londiste.cli.nodes.common import dsn_of
from londiste.cli.plan_output import sites
from londiste.db.connection import masked
from londiste.settings import NodeSettings


@dataclass(frozen=True)
class Node(NodeInfo):
    """A node.

    location, provider_location -- connection strings without secrets.
    dead -- it is marked as failed.
    errors -- by consumer.
    """

    location: str
    dead: bool
    subscribers: list[str]
    errors: dict[str, str]


@click.command("node-info")
@options.pass_context
@click.option("--node", "name", metavar="NAME", help="The node to show (default: this node).")
@options.json_output(Node)
def node_info(context: options.Context, name: str | None, as_json: bool) -> None:
    """Show one node: its type, provider, position and flags."""
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        conn = where.at(dsn_of(where, settings, name))
        info = nodes.get_node_info(conn, queue)
        locations = {m.name: m for m in nodes.get_queue_locations(conn, queue)}
        below = nodes.get_subscriber_info(conn, queue) if info.type is not NodeType.LEAF else []
        consumers = nodes.get_consumer_info(conn, queue)
    if as_json:
        at = locations[info.name]
        more = {
            "provider_location": masked(info.provider_location),
            "location": masked(at.location),
            "dead": at.dead,
            "subscribers": [s.name for s in below],
            "errors": {c.name: c.cur_error for c in consumers if c.cur_error},
        }
        output.as_json({**vars(info), **more})
        return
    flags = [
        word
        for word, on in (
            ("DEAD", locations[info.name].dead),
            ("PAUSED", info.paused),
            ("NON-UP-TO-DATE", not info.uptodate and info.type is not NodeType.ROOT),
        )
        if on
    ]
    rows: list[list[Any]] = [
        ["node", info.name],
        ["type", info.kind.value],
        ["queue", queue],
        ["status", ", ".join(flags) or "OK"],
        ["connect string", masked(locations[info.name].location)],
        ["worker", info.worker],
        ["last tick", info.last_tick],
        ["local watermark", info.local_watermark],
        ["global watermark", info.global_watermark],
        ["subscribers", ", ".join(s.name for s in below) or None],
        ["combined queue", info.combined_queue],
        ["queues that merge into this", ", ".join(info.target_for) or None],
        ["attributes", info.attrs],
    ]
    if info.type is not NodeType.ROOT:
        rows.insert(5, ["provider", info.provider])
        rows.insert(6, ["provider connect string", masked(info.provider_location)])
    rows += [[f"error of {c.name}", c.cur_error] for c in consumers if c.cur_error]
    output.table(["what", "value"], rows)
