"""``londiste fkeys``: foreign keys that a copy has taken off, and the others."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.replication.commands import fkeys as keys
from londiste.settings import NodeSettings

_COLUMNS = ["table", "key", "refers_to", "state", "since", "why", "do"]


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option("--restore", is_flag=True, help="Make and check those that are off and could be on.")
@options.explain
@options.json_output
def fkeys(
    context: options.Context, names: Sequence[str], restore: bool, explain: bool, as_json: bool
) -> None:
    """Show the foreign keys of replicated tables: active, or off and why.

    A copy takes keys off, and the worker makes them again when both tables are in step. A key whose
    other table is not replicated waits for --restore. TABLE is the name in this database.
    """
    settings = context.settings(NodeSettings)
    wanted = [TableName.parse(name) for name in names]
    if restore or explain:
        with sites(settings) as reach:
            plan = keys.plan(reach, settings.db, settings.queue_name, wanted)
            for line in plan.skipped:
                output.warning(f"{line}, skipped")
            execute_plan(plan.steps, reach, explain=explain, json_wanted=as_json)
        return
    with session(settings.db, name="londiste fkeys", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        found = keys.collect(conn, settings.queue_name, wanted)
    rows = []
    for one in found:
        state = keys.judge(one)
        rows.append(
            {
                "table": one.from_table,
                "key": one.name,
                "refers_to": one.to_table,
                "state": state.state,
                "since": one.checking_since,
                "why": state.why or None,
                "do": state.do or None,
            }
        )
    output.show(_COLUMNS, rows, json_wanted=as_json)
