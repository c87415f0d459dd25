"""``londiste add-seq``, ``remove-seq`` and ``seqs``: replicated sequences."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.cli.tables.common import all_of_them, already
from londiste.db.connection import session
from londiste.replication import sqlapi as registered
from londiste.replication.commands import sequences
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings

_sequences = click.argument("names", nargs=-1, metavar="SEQUENCE...")


@click.command("add-seq")
@options.pass_context
@_sequences
@all_of_them
@click.option("--skip-non-existing", is_flag=True, help="Skip sequences that are missing here.")
@click.option("--create", is_flag=True, help="Create missing ones as the provider has them.")
@options.explain
@options.json_output
def add_seq(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    skip_non_existing: bool,
    create: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Replicate sequences; other nodes are kept some values ahead of the root."""
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = sequences.plan_add(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            skip_non_existing=skip_non_existing,
            create=create,
            wanted=RegistrationFilter.of(settings),
        )
        already(plan, "added")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)


@click.command("remove-seq")
@options.pass_context
@_sequences
@all_of_them
@click.option("--force", is_flag=True, help="Pass over names that nobody knows.")
@options.explain
@options.json_output
def remove_seq(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Stop replicating sequences: on the root everywhere, elsewhere on this node."""
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = sequences.plan_remove(
            where, settings.db, settings.queue_name, names, every=every, force=force
        )
        already(plan, "removed")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)


@click.command()
@options.pass_context
@options.json_output
def seqs(context: options.Context, as_json: bool) -> None:
    """List the sequences of the queue: whether they are kept here, and the published value."""
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste seqs", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        found = registered.get_seq_list(conn, settings.queue_name)
    rows = [{"sequence": str(s.name), "local": s.local, "last_value": s.last_value} for s in found]
    output.show(["sequence", "local", "last_value"], rows, json_wanted=as_json)
