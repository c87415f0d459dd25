"""``migrate finish``: drops the nodes and the installed SQL; keeps tables and rows."""

from __future__ import annotations

from collections.abc import Callable

from londiste.cascade.commands.install_sql import Uninstall
from londiste.cascade.model import NodeType
from londiste.cascade.switching import drop_node
from londiste.db.names import argument
from londiste.errors import StateError
from londiste.migrate import setup, switching
from londiste.migrate.databases import NEW, Pair
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.commands import fkeys


def nodes_left(sites: Connections, pair: Pair, *, abandon: bool) -> list[Step]:
    """The steps that drop the two nodes, the branch first, after foreign keys are restored.

    abandon -- proceed if the old database takes the writes: gives the migration up.
    Raises StateError while a switch is under way.
    """
    found = {
        side.name: (side, info)
        for side in (pair.old, pair.new)
        if (info := setup.node(sites, side, pair.queue)) is not None
    }
    roots = [side for side, info in found.values() if info.type is NodeType.ROOT]
    if not found:
        return []
    if not abandon and not any(side.name == NEW for side in roots):
        raise StateError(
            "the old database takes the writes: the migration is not finished",
            detail="nothing was changed",
            hint="first: londiste migrate switch; or abandon the migration: londiste migrate finish"
            " --abandon",
        )
    at = roots[0] if roots else next(iter(found.values()))[0]
    scene = switching.scene(sites, pair, at)
    switching.refuse_under_way(pair, scene)
    others = sorted(set(scene.topology.views) - {pair.old.name, pair.new.name})
    if others:
        raise StateError(
            f"other nodes use the queue: {', '.join(others)}",
            hint="first, with the settings of one of them: londiste drop-node"
            f" {argument(others[0])}",
        )
    steps: list[Step] = []
    if not abandon:
        for side, _ in found.values():
            steps += fkeys.plan_end(sites, side.name, side.dsn, pair.queue)
    for side, info in found.values():
        if info.type is not NodeType.ROOT:
            steps += drop_node.drop(sites, scene, side.name, force=False, note=False)
    for side in roots:
        place = scene.place(side.name)
        steps.append(drop_node.DropNode(place, pair.queue, side.name))
    return steps


def finish(
    sites: Connections,
    pair: Pair,
    *,
    abandon: bool,
    keep_sql: bool,
    quiet: Callable[[], None],
    report: Callable[[Step], None],
) -> int:
    """Runs the remaining steps; returns their number.

    quiet -- called after the nodes are dropped: returns when no daemon works any more.

    Raises NodeBusy while another command changes the cascade.
    """
    for side in (pair.old, pair.new):
        if setup.node(sites, side, pair.queue) is not None:
            sites.alone(side.dsn, side.name, pair.queue)
    count = plan.execute(nodes_left(sites, pair, abandon=abandon), sites, report)
    if not keep_sql:
        quiet()
        count += plan.execute(uninstalls(pair), sites, report)
    return count


def uninstalls(pair: Pair) -> list[Step]:
    """The steps that remove the SQL of the migration."""
    return [Uninstall(side, setup.mark(pair)) for side in (pair.old, pair.new)]
