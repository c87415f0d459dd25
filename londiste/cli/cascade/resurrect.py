"""``londiste resurrect``: rejoins a failed root as a branch."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cli import errors, options, output
from londiste.cli.cascade.common import cluster_state
from londiste.cli.documents import Steps
from londiste.cli.plan_output import reported, sites
from londiste.errors import StateError
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.replication.failover.rejoin import plan as returning
from londiste.replication.failover.rejoin.divergence import Lost, TableLoss
from londiste.replication.failover.rejoin.plan import Decided, RejoinOption, Resurrection
from londiste.settings import NodeSettings


class Diverged(TypedDict):
    """Events of the failed root that no other node has.

    events -- their number.
    files -- where they were exported to.
    scripts -- those that ran only there.
    others -- numbers of events that are no changes of rows, by type.
    """

    events: int
    files: list[str]
    scripts: list[str]
    others: dict[str, int]
    tables: list[TableLoss]


class Rejoined(TypedDict):
    """The executed steps, and what was lost."""

    done: list[str]
    lost: Diverged | None


@click.command()
@options.pass_context
@click.option("--node", metavar="NAME", help="The failed root (default: this node).")
@click.option("--undo", is_flag=True, help="Undo the changes that no other node has.")
@click.option(
    "--resync",
    is_flag=True,
    help="Copy the changed tables again; with --undo, those that cannot be undone.",
)
@click.option(
    "--scripts-undone",
    is_flag=True,
    help="Confirm that you have undone the scripts that ran only on the failed root.",
)
@click.option(
    "--export",
    "file",
    default="",
    metavar="FILE",
    help="Write the diverged events to FILE.jsonl and FILE.sql.",
)
@options.explain
@options.json_output(Rejoined, Steps)
def resurrect(
    context: options.Context,
    node: str | None,
    undo: bool,
    resync: bool,
    scripts_undone: bool,
    file: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Rejoin a failed root as a branch.

    Events of the failed root that no other node has are exported first, to FILE.jsonl and FILE.sql.
    If they have changed rows, choose how to remove the changes: --undo, --resync or both.  Repeat
    an interrupted command to finish it.
    """
    settings = context.settings(NodeSettings)
    choice = RejoinOption(undo, resync, scripts_undone)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=explain)
        name = node or scene.topology.local
        found = returning.prepare(where, scene, name, file=file, warn=output.warning)
        if found is None:
            if as_json:
                output.as_json(Steps(steps=[]) if explain else Rejoined(done=[], lost=None))
            output.message(f"node {name} is not a failed root, nothing to do")
            return
        if explain:
            _explain(found, where, choice, as_json)
            return
        _run(found, where, choice, as_json)
    output.message(f"node {name} is a branch of {found.facts.provider.name}")


def _explain(found: Resurrection, where: Connections, choice: RejoinOption, as_json: bool) -> None:
    steps = [*found.first]
    if found.closed(where):
        lost = found.lost(where)
        for table in lost.tables.values():
            output.message(_told(table))
        try:
            steps += found.rest(returning.decide(found.at.name, lost, choice), lost.scripts)
        except StateError as error:
            output.warning(f"{error.message}; {error.hint}")
            steps += found.rest(Decided(), lost.scripts)
    else:
        output.message(
            "the diverged events are known after the root is closed and its events are read"
        )
        steps += found.rest(Decided())
    output.steps(plan.remaining(steps, where), json_wanted=as_json)


def _run(found: Resurrection, where: Connections, choice: RejoinOption, as_json: bool) -> None:
    told: Diverged | None = None
    with reported(as_json, lambda done: Rejoined(done=done, lost=told)) as report:
        plan.execute(found.first, where, report)
        lost = found.lost(where)
        for table in lost.tables.values():
            output.message(_told(table))
        told = _plain(found, lost)
        with errors.also_told(lost=told):
            decided = returning.decide(found.at.name, lost, choice)
            plan.execute(found.rest(decided, lost.scripts), where, report)


def _told(table: TableLoss) -> str:
    if table.dest is None:
        return f"{table.describe()}; the table is no longer replicated on this node"
    end = f"; cannot be undone: {table.obstacle}" if table.obstacle else "; can be undone"
    return table.describe() + end


def _plain(found: Resurrection, lost: Lost) -> Diverged:
    return Diverged(
        events=lost.events,
        files=[str(found.files.lines), str(found.files.sql)] if lost.events else [],
        scripts=list(lost.scripts),
        others=dict(lost.others),
        tables=list(lost.tables.values()),
    )
