"""``londiste check``: checks the tables of a node, or of all nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output, start
from londiste.cli.errors import pasteable
from londiste.cli.plan_output import sites as open_sites
from londiste.db.connection import Connection
from londiste.errors import NotTrusted
from londiste.monitor import catalog, merging, schema_owners
from londiste.monitor.nodes import collect as node_facts
from londiste.monitor.nodes import own_location
from londiste.monitor.nodes import rules as node_findings
from londiste.monitor.nodes.own_findings import OwnFindings
from londiste.monitor.nodes.rules import NodeFacts
from londiste.monitor.queues.model import Finding
from londiste.monitor.queues.rules import worst
from londiste.monitor.verdict import unchecked
from londiste.orchestration.connections import Connections
from londiste.replication.commands import root_trigger
from londiste.settings import NodeSettings


class Checked(TypedDict):
    """The findings, the worst first.

    tables -- their number.
    sizes -- values were measured.
    """

    tables: int
    sizes: bool
    findings: list[catalog.ShownFinding]


@click.command()
@options.pass_context
@click.option("--sizes", is_flag=True, help="Measure the largest values (reads every table once).")
@click.option("--all-nodes", is_flag=True, help="Check all nodes, each also against its provider.")
@options.json_output(Checked)
def check(context: options.Context, sizes: bool, all_nodes: bool, as_json: bool) -> int:
    """Check the tables of this node and print findings: severity, cause and fix.

    Checks captures, keys of tables, and values near the size limits. Also finds tables not in sync,
    sequences not replicated and dropped foreign keys. Above a node of Londiste 3, finds captures
    that the node cannot read. A worker that does not run, or has never run, is a finding, too.
    The exit code is 0, 1 (warnings), 2 (critical) or 3 (unknown: SQL of an earlier version).
    """
    settings = context.settings(NodeSettings)
    with open_sites(settings, bounded=not sizes) as sites:
        try:
            sites.at(settings.db)
        except NotTrusted as error:
            found, tables = [*schema_owners.refused(error, settings.queue_name)], 0
        else:
            start_of = start.worker_command(context.config, context.overrides)
            found, tables = _look(sites, settings, sizes, all_nodes, start_of)
    found.sort(key=lambda one: -one.severity)
    if as_json:
        output.as_json(Checked(tables=tables, sizes=sizes, findings=catalog.shown(found)))
    else:
        # Those of other nodes have other settings.
        pasted = pasteable if not all_nodes else str
        output.findings(replace(one, do=pasted(one.do)) for one in found)
        output.message(f"{tables} tables checked, {len(found)} findings")
    return int(worst(found))


def _look(
    sites: Connections,
    settings: NodeSettings,
    sizes: bool,
    all_nodes: bool,
    start_of: Callable[[str, str], str],
) -> tuple[list[Finding], int]:
    """The findings, and the number of tables.

    start_of -- what starts the worker of a node; the second one is the local node.
    """
    queue = settings.queue_name
    found: list[Finding] = []
    local = sites.at(settings.db)
    own = OwnFindings(queue, lambda conn: root_trigger.unable(sites, conn, queue))
    if all_nodes:

        def look(conn: Connection, node: str) -> None:
            own.add(conn, node, sizes=sizes and conn is local)

        every, silent = node_facts.everywhere(sites, settings.db, queue, look)
        by_name = {node.name: node for node, _ in every}
        name = nodes.get_node_info(local, queue).name
        for node, provider in every:
            node = _startable(node, start_of(node.name, name))
            above = None if node.type == "root" else by_name.get(provider)
            found += node_findings.findings(node, above, queue)
        for name, error in silent:
            found.append(unchecked(name, error, queue))
        found += merging.everywhere(sites, settings.db, queue)
    else:
        own.add(local, sizes=sizes)
        node = node_facts.collect(local, queue)
        node = _startable(node, start_of(node.name, node.name))
        found += node_findings.findings(node, None, queue)
        found += merging.find(sites, settings.db, queue)
    found += own_location.find(sites, settings.db, queue)
    return found + own.found, len(own.tables)


def _startable(node: NodeFacts, start_it: str) -> NodeFacts:
    """With the command that starts the worker, as it can be pasted."""
    return (
        node if node.worker is None else replace(node, worker=replace(node.worker, start=start_it))
    )
