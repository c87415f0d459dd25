"""``londiste add-seq``, ``remove-seq`` and ``seqs``: replicated sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import changing_sites, execute_plan
from londiste.cli.tables.common import all_of_them, already, ignore_missing
from londiste.db.connection import session
from londiste.db.queries import tuples
from londiste.monitor.nodes.doubts import SEQUENCE_DOUBTS
from londiste.replication import sqlapi as registered
from londiste.replication.commands import sequences
from londiste.replication.registration_filter import RegistrationFilter
from londiste.settings import NodeSettings


class KnownSequence(TypedDict):
    """A sequence of the queue.

    local -- it is replicated to this node.
    last_value -- published by the root.
    node_value -- the last value of this node's own sequence; None if it is not replicated, not
        used or may not be read.
    """

    sequence: str
    local: bool
    last_value: int | None
    node_value: int | None


SEQUENCES = Rows("sequences", KnownSequence)
_sequences = click.argument("names", nargs=-1, metavar="SEQUENCE...")


@click.command("add-seq")
@options.pass_context
@_sequences
@all_of_them
@click.option(
    "--skip-non-existing", is_flag=True, help="Skip sequences that do not exist on this node."
)
@click.option("--create", is_flag=True, help="Create missing sequences as defined on the provider.")
@options.changes
def add_seq(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    skip_non_existing: bool,
    create: bool,
    how: options.Execution,
) -> None:
    """Replicate sequences; other nodes keep values ahead of the root."""
    settings = context.settings(NodeSettings)
    with changing_sites(settings) as where:
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
        execute_plan(plan.steps, where, how)


@click.command("remove-seq")
@options.pass_context
@_sequences
@all_of_them
@ignore_missing
@options.changes
def remove_seq(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    ignore_missing: bool,
    how: options.Execution,
) -> None:
    """Stop replicating sequences: on the root for all nodes, elsewhere for this node."""
    settings = context.settings(NodeSettings)
    with changing_sites(settings) as where:
        plan = sequences.plan_remove(
            where, settings.db, settings.queue_name, names, every=every, force=ignore_missing
        )
        already(plan, "removed")
        execute_plan(plan.steps, where, how)


@click.command()
@options.pass_context
@options.json_output(SEQUENCES)
def seqs(context: options.Context, as_json: bool) -> None:
    """List the sequences of the queue: the published value, and that of this node."""
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste seqs", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        found = registered.get_seq_list(conn, settings.queue_name)
        own = dict(tuples(conn, "node_sequences", queue=settings.queue_name))
        doubts = tuples(conn, "sequence_doubts", queue=settings.queue_name)
    rows = [
        KnownSequence(
            sequence=str(s.name),
            local=s.local,
            last_value=s.last_value,
            node_value=own.get(str(s.name)),
        )
        for s in found
    ]
    output.show(
        SEQUENCES,
        rows,
        json_wanted=as_json,
        empty="no sequence is replicated: londiste add-seq SEQUENCE",
    )
    for kind, name, _ in doubts:
        output.message(f"sequence {name} {SEQUENCE_DOUBTS[kind]}: londiste check")
