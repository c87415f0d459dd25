"""Commands about nodes: making, pausing, showing and waiting for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node
from londiste.cascade.commands import pause as pausing
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching import operation_log
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan
from londiste.cli.sites import sites
from londiste.db.connection import describe_dsn, masked
from londiste.db.names import MAX_IDENTIFIER_BYTES
from londiste.errors import BadOption, UnknownNode
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync import wait
from londiste.settings import NodeSettings

# -- making -------------------------------------------------------------------


def _creating(function: Any) -> Any:
    for decorate in (
        options.pass_context,
        click.argument("name", required=False),
        click.argument("public", required=False, metavar="[PUBLIC_CONNSTR]"),
        click.option("--worker", metavar="NAME", help="Consumer of its worker; job_name if not."),
        click.option("--nocheck", is_flag=True, help="Do not try the public connection string."),
        options.explain,
        options.json_output,
    )[::-1]:
        function = decorate(function)
    return function


_provider = click.option(
    "--provider", metavar="DSN", help="Connection string of the node to read from."
)


@click.command("create-root")
@_creating
def create_root(
    context: options.Context,
    name: str | None,
    public: str | None,
    worker: str | None,
    nocheck: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Make this database the root of a queue.

    NAME is the node's name, PUBLIC_CONNSTR how other nodes reach its database; it is stored on
    all of them and holds no password. Both may be in the settings.
    """
    settings = context.settings(NodeSettings, consumer_name=worker)
    node = _new_node(settings, NodeType.ROOT, name, public)
    with sites(settings, bounded=True) as where:
        steps = create_node.create_root(where, node, check=not nocheck)
        _finish(steps, where, node, explain, as_json)


@click.command("create-branch")
@_creating
@_provider
def create_branch(
    context: options.Context,
    name: str | None,
    public: str | None,
    worker: str | None,
    nocheck: bool,
    explain: bool,
    as_json: bool,
    provider: str | None,
) -> None:
    """Make this database a branch: it applies changes and passes them on.

    Interrupted, the same command finishes what it began.
    """
    _create_below(
        context, NodeType.BRANCH, name, public, worker, provider, nocheck, explain, as_json
    )


@click.command("create-leaf")
@_creating
@_provider
@click.option("--merge", metavar="QUEUE", help="Merge into this combined queue of the database.")
def create_leaf(
    context: options.Context,
    name: str | None,
    public: str | None,
    worker: str | None,
    nocheck: bool,
    explain: bool,
    as_json: bool,
    provider: str | None,
    merge: str | None,
) -> None:
    """Make this database a leaf: it applies changes.

    With --merge the changes also go into a combined queue, which is root here; where that is a
    branch, the leaf waits behind it.  Interrupted, the same command finishes what it began.
    """
    _create_below(
        context, NodeType.LEAF, name, public, worker, provider, nocheck, explain, as_json, merge
    )


def _create_below(
    context: options.Context,
    kind: NodeType,
    name: str | None,
    public: str | None,
    worker: str | None,
    provider: str | None,
    nocheck: bool,
    explain: bool,
    as_json: bool,
    merge: str | None = None,
) -> None:
    settings = context.settings(
        NodeSettings, consumer_name=worker, initial_provider_location=provider
    )
    dsn = settings.initial_provider_location
    if not dsn:
        raise BadOption(
            "no provider given",
            hint="--provider 'host=… dbname=…': the connection string of the node to read from",
        )
    node = dataclasses.replace(_new_node(settings, kind, name, public), combined=merge)
    make = create_node.create_leaf if kind is NodeType.LEAF else create_node.create_branch
    with sites(settings, bounded=True) as where:
        dsn = where.reach(dsn)
        steps = make(where, node, dsn, check=not nocheck)
        above = nodes.get_node_info(where.at(dsn), node.queue)
        steps.append(_registry_after(node, above, dsn, RegistrationFilter.of(settings)))
        _finish(steps, where, node, explain, as_json)


def _registry_after(
    node: NewNode, provider: NodeInfo, dsn: str, wanted: RegistrationFilter
) -> Step:
    return CopyRegistry(node.name, provider.name, dsn, node.dsn, node.queue, wanted)


def _new_node(
    settings: NodeSettings, kind: NodeType, name: str | None, public: str | None
) -> NewNode:
    chosen = name or settings.node_name
    if not chosen:
        raise BadOption("the node has no name", hint=f"londiste create-{kind.value} NAME")
    for wrong in ",/":
        if wrong in chosen:
            raise BadOption(
                f"not the name of a node: {chosen!r}, it has a {wrong}",
                detail="names of nodes stand in lists with commas and in names of files",
                hint="use letters, digits, _ . -",
            )
    if len(chosen.encode()) > MAX_IDENTIFIER_BYTES:
        raise BadOption(
            f"the name of a node has {len(chosen.encode())} bytes",
            hint=f"up to {MAX_IDENTIFIER_BYTES} are allowed",
        )
    location = public or settings.public_node_location or settings.db
    create_node.check_location(location)
    if not create_node.reachable_from_elsewhere(location):
        output.warning(
            f"only nodes on this machine can use the public connection string {masked(location)}"
        )
    return NewNode(settings.queue_name, kind, chosen, settings.db, location, settings.consumer)


def _finish(
    steps: Sequence[Step], where: Connections, node: NewNode, explain: bool, as_json: bool
) -> None:
    count = execute_plan(steps, where, explain=explain, json_wanted=as_json)
    if explain:
        return
    if count:
        output.message(f"node {node.name} is a {node.type.value} of queue {node.queue}")
    else:
        output.message(f"node {node.name} was a {node.type.value} already, nothing to do")


# -- pausing ------------------------------------------------------------------


def _pausing(function: Any) -> Any:
    for decorate in (
        options.pass_context,
        click.option("--node", metavar="NAME", help="Another node of the queue."),
        click.option("--consumer", metavar="NAME", help="A cascaded consumer of the node."),
        click.option(
            "--timeout",
            default=60.0,
            show_default=True,
            help="Seconds to wait for the answer; 0 does not wait.",
        ),
        options.explain,
        options.json_output,
    )[::-1]:
        function = decorate(function)
    return function


@click.command()
@_pausing
def pause(
    context: options.Context,
    node: str | None,
    consumer: str | None,
    timeout: float,
    explain: bool,
    as_json: bool,
) -> None:
    """Stop the worker of a node after its batch.

    Waits until the worker says that it stands still.
    """
    _set_paused(context, node, consumer, timeout, explain, as_json, paused=True)


@click.command()
@_pausing
def resume(
    context: options.Context,
    node: str | None,
    consumer: str | None,
    timeout: float,
    explain: bool,
    as_json: bool,
) -> None:
    """Let a paused worker go on."""
    _set_paused(context, node, consumer, timeout, explain, as_json, paused=False)


def _set_paused(
    context: options.Context,
    node: str | None,
    consumer: str | None,
    timeout: float,
    explain: bool,
    as_json: bool,
    *,
    paused: bool,
) -> None:
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        conn = where.at(_dsn_of(where, settings, node))
        info = nodes.get_node_info(conn, queue)
        who = consumer or info.worker
        word = "pause" if paused else "resume"
        if explain:
            lines = [f"{info.name}: {word} {who}, wait up to {timeout:g} s for its answer"]
            output.lines(lines, json_wanted=as_json)
            return
        if not paused and who == info.worker:
            operation_log.refuse_resume(conn, queue, info.name)
        changed = pausing.set_paused(conn, queue, who, paused, timeout=timeout)
        state = "paused" if paused else "resumed"
        if as_json:
            output.as_json({"node": info.name, "consumer": who, "paused": paused})
        output.message(f"{who} of node {info.name} is {'' if changed else 'already '}{state}")


def _dsn_of(where: Connections, settings: NodeSettings, name: str | None) -> str:
    """The connection string of a node, by name; of the local one without."""
    if name is None:
        return settings.db
    local = where.at(settings.db)
    info = nodes.get_node_info(local, settings.queue_name)
    if info.name == name:
        return settings.db
    members = nodes.get_queue_locations(local, settings.queue_name)
    for member in members:
        if member.name == name:
            dsn = where.reach(member.location)
            where.call_them({dsn: name})
            return dsn
    raise UnknownNode(
        f"queue {settings.queue_name} has no node {name}",
        hint=f"the nodes are {', '.join(m.name for m in members)}",
    )


# -- showing ------------------------------------------------------------------


@click.command()
@options.pass_context
@options.json_output
def members(context: options.Context, as_json: bool) -> None:
    """List the nodes of the queue that this node knows."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        conn = where.at(settings.db)
        nodes.get_node_info(conn, settings.queue_name)
        known = nodes.get_queue_locations(conn, settings.queue_name)
    rows = [
        {"node_name": m.name, "dead": m.dead, "node_location": masked(m.location)} for m in known
    ]
    output.show(["node_name", "dead", "node_location"], rows, json_wanted=as_json)


@click.command("node-info")
@options.pass_context
@click.option("--node", "name", metavar="NAME", help="Another node of the queue.")
@options.json_output
def node_info(context: options.Context, name: str | None, as_json: bool) -> None:
    """Show one node: its type, provider, position and flags."""
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        conn = where.at(_dsn_of(where, settings, name))
        info = nodes.get_node_info(conn, queue)
        locations = {m.name: m for m in nodes.get_queue_locations(conn, queue)}
        below = nodes.get_subscriber_info(conn, queue) if info.type is not NodeType.LEAF else []
        consumers = nodes.get_consumer_info(conn, queue)
    if as_json:
        facts = dataclasses.asdict(info)
        facts["provider_location"] = masked(info.provider_location)
        facts["location"] = masked(locations[info.name].location)
        facts["dead"] = locations[info.name].dead
        facts["subscribers"] = [s.name for s in below]
        facts["errors"] = {c.name: c.cur_error for c in consumers if c.cur_error}
        output.as_json(facts)
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


# -- waiting ------------------------------------------------------------------

_timeout = click.option("--timeout", type=float, help="Seconds to wait; no limit without.")


@click.command("wait-root")
@options.pass_context
@_timeout
@options.json_output
def wait_root(context: options.Context, timeout: float | None, as_json: bool) -> None:
    """Wait until this node has everything that is committed on the root now."""
    _wait(context, timeout, as_json, root=True)


@click.command("wait-provider")
@options.pass_context
@_timeout
@options.json_output
def wait_provider(context: options.Context, timeout: float | None, as_json: bool) -> None:
    """Wait until this node has everything that its provider has now."""
    _wait(context, timeout, as_json, root=False)


def _wait(context: options.Context, timeout: float | None, as_json: bool, *, root: bool) -> None:
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with sites(settings, bounded=True) as where:
        local = where.at(settings.db)
        info = nodes.get_node_info(local, queue)
        if info.type is not NodeType.ROOT:
            dsn = where.reach(info.provider_location)
            if root:
                dsn = create_node.upstream(where, queue, dsn).root_dsn
            above = nodes.get_node_info(where.at(dsn), queue)
            tick = above.last_tick
            if above.type is NodeType.ROOT:
                patience = wait.TICK_SECONDS if timeout is None else timeout
                tick = wait.tick_now(where.at(dsn), queue, timeout=min(patience, wait.TICK_SECONDS))
            output.message(f"waiting for tick {tick} of {above.name} ({describe_dsn(dsn)})")
            info = wait.wait_tick(local, queue, tick, timeout=timeout, what=above.name)
    if as_json:
        output.as_json({"node": info.name, "tick": info.last_tick})
    else:
        output.message(f"node {info.name} is at tick {info.last_tick}")
