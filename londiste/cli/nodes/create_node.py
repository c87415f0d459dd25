"""``londiste create-root``, ``create-branch``, ``create-leaf``: a database becomes a node."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node, location_check
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.db.connection import masked
from londiste.db.names import MAX_IDENTIFIER_BYTES
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings


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
    location_check.check_location(location)
    if not location_check.reachable_from_elsewhere(location):
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
