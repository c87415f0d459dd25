"""``londiste create-root``, ``create-branch``, ``create-leaf``: creates a node."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import create_node, location_check, upstream
from londiste.cascade.commands.create_node import NewNode
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.db.connection import masked
from londiste.db.connstr.locations import completed
from londiste.dsn import with_environment
from londiste.errors import AccessDenied, BadOption
from londiste.monitor.doctor.preflight import node_findings
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings

_creating = options.together(
    options.pass_context,
    click.argument("name", required=False),
    click.argument("public", required=False, metavar="[PUBLIC_CONNSTR]"),
    click.option(
        "--worker",
        metavar="NAME",
        help="Consumer name of the node's worker (default: job_name).",
    ),
    click.option("--nocheck", is_flag=True, help="Skip the checks of public connection strings."),
    options.changes,
)


_provider = click.option("--provider", metavar="DSN", help="Connection string of the provider.")


@click.command("create-root")
@_creating
def create_root(
    context: options.Context,
    name: str | None,
    public: str | None,
    worker: str | None,
    nocheck: bool,
    how: options.Execution,
) -> None:
    """Make this database the root of a queue.

    NAME is the node's name. PUBLIC_CONNSTR is the connection string for other nodes; it is stored
    on all nodes and contains no password. Both may be in the settings.
    """
    settings = context.settings(NodeSettings, consumer_name=worker)
    node = _new_node(settings, NodeType.ROOT, name, public)
    with sites(settings, bounded=True) as where:
        steps = create_node.create_root(where, node, check=not nocheck)
        output.advise(node_findings(where.at(node.dsn), node.dsn))
        _finish(steps, where, node, how)


@click.command("create-branch")
@_creating
@_provider
def create_branch(context: options.Context, **given: Any) -> None:
    """Make this database a branch: a subscriber that forwards events.

    Repeat an interrupted command to finish it.
    """
    _create_below(context, NodeType.BRANCH, **given)


@click.command("create-leaf")
@_creating
@_provider
@click.option(
    "--merge", metavar="QUEUE", help="Forward changes into this combined queue of the database."
)
def create_leaf(context: options.Context, **given: Any) -> None:
    """Make this database a leaf: a subscriber without subscribers.

    With --merge, changes also go into a combined queue, whose root is in this database. If that
    node is a branch, the leaf waits after it.  Repeat an interrupted command to finish it.
    """
    _create_below(context, NodeType.LEAF, **given)


def _create_below(
    context: options.Context,
    kind: NodeType,
    *,
    name: str | None,
    public: str | None,
    worker: str | None,
    provider: str | None,
    nocheck: bool,
    how: options.Execution,
    merge: str | None = None,
) -> None:
    settings = context.settings(
        NodeSettings, consumer_name=worker, initial_provider_location=provider
    )
    dsn = settings.initial_provider_location
    if not dsn:
        raise BadOption(
            "no provider given",
            hint="give the connection string of the provider: --provider 'host=… dbname=…'",
        )
    node = dataclasses.replace(_new_node(settings, kind, name, public), combined=merge)
    make = create_node.create_leaf if kind is NodeType.LEAF else create_node.create_branch
    with sites(settings, bounded=True) as where:
        dsn = completed(dsn, settings.remote_extra_connstr)
        if not how.explain:
            upstream.hold_upstream(where, node.queue, dsn)
        steps = make(where, node, dsn, check=not nocheck)
        _examine(where, node.dsn, dsn)
        above = nodes.get_node_info(where.at(dsn), node.queue)
        steps.append(_registry_after(node, above, dsn, RegistrationFilter.of(settings)))
        _finish(steps, where, node, how)


def _examine(where: Connections, node: str, provider: str) -> None:
    """Prints findings.  Raises AccessDenied if the worker of the node could not apply anything."""
    found = node_findings(where.at(node), node, (where.at(provider), provider))
    for one in found:
        if one.kind == "replica":
            raise AccessDenied(one.what, detail=one.why, hint=one.do)
    output.advise(found)


def _registry_after(
    node: NewNode, provider: NodeInfo, dsn: str, wanted: RegistrationFilter
) -> Step:
    return CopyRegistry(node.name, provider.name, dsn, node.dsn, node.queue, wanted)


def _new_node(
    settings: NodeSettings, kind: NodeType, name: str | None, public: str | None
) -> NewNode:
    chosen = name or settings.node_name
    if not chosen:
        raise BadOption("no name of the node given", hint=f"londiste create-{kind.value} NAME")
    location = (
        public
        or settings.public_node_location
        or location_check.of_database(with_environment(settings.db, os.environ))
    )
    location_check.check_location(location)
    if not location_check.reachable_from_elsewhere(location):
        output.warning(
            f"public connection string {masked(location)} names no host that other machines know"
        )
    return NewNode(settings.queue_name, kind, chosen, settings.db, location, settings.consumer)


def _finish(
    steps: Sequence[Step], where: Connections, node: NewNode, how: options.Execution
) -> None:
    count = execute_plan(steps, where, how)
    if how.explain:
        return
    if count:
        output.message(f"node {node.name} is a {node.type.value} of queue {node.queue}")
        root = node.type is NodeType.ROOT
        output.next_step(
            "londiste ticker and londiste worker, then londiste add-table TABLE"
            if root
            else "londiste worker, then londiste add-table TABLE --create"
        )
    else:
        output.message(f"node {node.name} is already a {node.type.value}, nothing to do")
