"""``londiste fkeys``: lists and restores foreign keys that a copy has dropped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cli import options, output
from londiste.cli.documents import Done, Rows, Steps
from londiste.cli.plan_output import execute_plan, reported, sites
from londiste.db.connection import session
from londiste.replication.commands import fkeys as keys
from londiste.replication.patterns import parsed
from londiste.settings import NodeSettings


class ForeignKey(TypedDict):
    """A foreign key of a replicated table.

    since -- when its validation began.
    """

    table: str
    key: str
    refers_to: str
    state: str
    since: datetime | None
    why: str | None
    do: str | None


KEYS = Rows("foreign_keys", ForeignKey)


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option(
    "--restore", is_flag=True, help="Restore and validate dropped keys whose tables are in sync."
)
@options.explain
@options.json_output(KEYS, Steps, Done)
def fkeys(
    context: options.Context, names: Sequence[str], restore: bool, explain: bool, as_json: bool
) -> None:
    """List the foreign keys of replicated tables: active, or dropped and why.

    A copy drops foreign keys, and the worker restores them when both tables are in sync. A key to a
    table that is not replicated is restored by --restore only. TABLE is the name in this database.
    """
    settings = context.settings(NodeSettings)
    wanted = [parsed(name) for name in names]
    if restore or explain:
        with sites(settings) as reach:
            plan = keys.plan(reach, settings.db, settings.queue_name, wanted)
            for line in plan.skipped:
                output.warning(f"{line}, skipped")
            if explain:
                execute_plan(plan.steps, reach, options.Execution(explain, as_json))
                return
            with reported(as_json) as report:
                keys.restore(plan.steps, reach, report)
        return
    with session(settings.db, name="londiste fkeys", autocommit=True) as conn:
        nodes.get_node_info(conn, settings.queue_name)
        found = keys.collect(conn, settings.queue_name, wanted)
    rows: list[ForeignKey] = []
    for one in found:
        state = keys.judge(one)
        rows.append(
            {
                "table": str(one.from_table),
                "key": one.name,
                "refers_to": str(one.to_table),
                "state": state.state,
                "since": one.checking_since,
                "why": state.why or None,
                "do": state.do or None,
            }
        )
    output.show(
        KEYS,
        rows,
        json_wanted=as_json,
        empty="no foreign key is dropped",
    )
