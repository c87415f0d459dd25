"""``londiste replicate --remove``: drops nodes and SQL, and on request copied tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import install_sql
from londiste.cascade.commands.install_sql import Uninstall
from londiste.cascade.model import NodeType
from londiste.cascade.switching.drop_node import DropNode
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.errors import StateError
from londiste.install import remove as uninstall
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replicate import created
from londiste.replicate.databases import Replication, node_of


def targets(
    sites: Connections,
    replications: Sequence[Replication],
    *,
    drop_tables: bool,
    warn: Callable[[str], None],
) -> list[Step]:
    """The steps that drop the targets' nodes; with ``drop_tables`` first what was created there.

    The first queue is the last one: by it an interrupted removal is found again.
    warn -- called for each created object that is kept, and why.

    Raises StateError for a target that other nodes read from.
    """
    steps: list[Step] = []
    for own in zip(*(one.targets for one in replications), strict=True):
        conn = sites.at(own[0].dsn)
        pairs = list(zip(replications, own, strict=True))
        infos = {one.queue: node_of(conn, one.queue) for one in replications}
        queues = [queue for queue, info in infos.items() if info is not None]
        for replication, target in pairs:
            info = infos[replication.queue]
            if info is None or info.type is NodeType.LEAF:
                continue
            below = nodes.get_subscriber_info(conn, replication.queue)
            if below:
                raise StateError(
                    f"node {target.name} is the provider of {', '.join(s.name for s in below)}",
                    detail="nothing was removed",
                    hint="switch them to another provider first: londiste change-provider",
                )
        if drop_tables and queues:
            # The record goes with the node.
            drop, kept = created.planned(conn, own[0], queues)
            steps += [] if drop is None else [drop]
            for (kind, name), why in kept.items():
                warn(f"{own[0].name}: {kind} {name} is kept: {why}")
        for replication, target in reversed(pairs):
            queue = replication.queue
            root = NodeAddress(replication.source.name, replication.source.dsn)
            if infos[queue] is not None:
                steps.append(DropNode(NodeAddress(target.name, target.dsn), queue, target.name))
            if node_of(sites.at(root.dsn), queue) is not None:
                steps.append(DropNode(root, queue, target.name, None, target.worker))
    return steps


def _drop_root(sites: Connections, replication: Replication) -> list[Step]:
    if node_of(sites.at(replication.source.dsn), replication.queue) is None:
        return []
    address = NodeAddress(replication.source.name, replication.source.dsn)
    return [DropNode(address, replication.queue, replication.source.name)]


def readers(sites: Connections, replication: Replication) -> list[str]:
    """Other nodes that read from the source."""
    conn = sites.at(replication.source.dsn)
    if node_of(conn, replication.queue) is None:
        return []
    known = nodes.get_subscriber_info(conn, replication.queue)
    # In SQL of an earlier version a node could be registered as its own subscriber.
    return [one.name for one in known if one.name != replication.source.name]


def remove(
    sites: Connections,
    replications: Sequence[Replication],
    *,
    drop_tables: bool,
    quiet: Callable[[], None],
    report: Callable[[Step], None],
    warn: Callable[[str], None],
) -> int:
    """Runs the remaining steps; returns their number.

    quiet -- called after the nodes are dropped: returns when no daemon works any more.

    Raises NodeBusy while another command changes the cascade.
    """
    with contextlib.ExitStack() as stack:
        for replication in replications:
            # A session holds the lock of one queue.
            locking = stack.enter_context(replication.sites())
            for side in replication.all:
                if node_of(sites.at(side.dsn), replication.queue) is not None:
                    locking.alone(side.dsn, side.name, replication.queue)
        found = targets(sites, replications, drop_tables=drop_tables, warn=warn)
        count = plan.execute(found, sites, report)
        for replication in reversed(replications):
            # A root that other nodes or consumers read from stays.
            if not readers(sites, replication):
                count += plan.execute(_drop_root(sites, replication), sites, report)
    quiet()
    return count + plan.execute(uninstalls(replications[0]), sites, report)


def planned(
    sites: Connections,
    replications: Sequence[Replication],
    *,
    drop_tables: bool,
    warn: Callable[[str], None],
) -> list[Step]:
    """The steps of ``remove`` that are not done, for ``--dry-run``; changes nothing."""
    steps = plan.remaining(targets(sites, replications, drop_tables=drop_tables, warn=warn), sites)
    removed = replications[0].all
    for replication in reversed(replications):
        dropped = {target.name for target in replication.targets}
        if set(readers(sites, replication)) <= dropped:
            steps += plan.remaining(_drop_root(sites, replication), sites)
        else:
            removed = replication.targets
    queues = [one.queue for one in replications]
    for side in removed:
        conn = sites.at(side.dsn)
        if install_sql.marked(conn, replications[0].mark):
            removals = uninstall.plan(conn)
            if not uninstall.blockers(conn, removals, dropped=queues, queues=True):
                steps.append(Uninstall(side, replications[0].mark))
    return steps


def uninstalls(replication: Replication) -> list[Step]:
    """The steps that remove the SQL that this command installed."""
    return [Uninstall(one, replication.mark) for one in replication.all]
