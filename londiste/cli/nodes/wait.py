"""``londiste wait-root`` and ``wait-provider``: waits for the position of another node."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import upstream
from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.cli.plan_output import sites
from londiste.db.connection import describe_dsn
from londiste.replication.tablesync import wait
from londiste.settings import NodeSettings


class Reached(TypedDict):
    """The node, and the tick that it has applied."""

    node: str
    tick: int


_timeout = click.option(
    "--timeout", metavar="SECONDS", type=float, help="Maximum seconds to wait (default: no limit)."
)


@click.command("wait-root")
@options.pass_context
@_timeout
@options.json_output(Reached)
def wait_root(context: options.Context, timeout: float | None, as_json: bool) -> None:
    """Wait until this node has applied everything that is committed on the root now."""
    _wait(context, timeout, as_json, root=True)


@click.command("wait-provider")
@options.pass_context
@_timeout
@options.json_output(Reached)
def wait_provider(context: options.Context, timeout: float | None, as_json: bool) -> None:
    """Wait until this node has applied everything that its provider has now."""
    _wait(context, timeout, as_json, root=False)


def _wait(context: options.Context, timeout: float | None, as_json: bool, *, root: bool) -> None:
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        local = where.at(settings.db)
        info = nodes.get_node_info(local, queue)
        if info.type is not NodeType.ROOT:
            dsn = where.reach(info.provider_location, info.provider)
            if root:
                dsn = upstream.upstream(where, queue, dsn).root_dsn
            above = nodes.get_node_info(where.at(dsn), queue)
            tick = above.last_tick
            if above.type is NodeType.ROOT:
                patience = wait.TICK_SECONDS if timeout is None else timeout
                tick = wait.tick_now(where.at(dsn), queue, timeout=min(patience, wait.TICK_SECONDS))
            output.message(f"waiting for tick {tick} of {above.name} ({describe_dsn(dsn)})")
            info = wait.wait_tick(local, queue, tick, timeout=timeout, what=above.name)
    if as_json:
        output.as_json(Reached(node=info.name, tick=info.last_tick))
    else:
        output.message(f"node {info.name} is at tick {info.last_tick}")
