"""``worker --rewind``: moves the provider's consumer to this node's position."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta

from londiste.cascade import create_hint
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType, WorkerState
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.errors import AccessDenied, InstallError, PositionLost, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.pgq import batches, position_check
from londiste.pgq.position_check import KnownPosition, PositionFacts
from londiste.replication import sqlapi as tables
from londiste.replication.commands import merged_tables, resync
from londiste.replication.commands.registry_sync import CopyRegistry
from londiste.replication.ddl import sqlapi as ddl
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.worker import connections
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)

#: A script has started before the tick that carries it, by its own time.
_LONGEST_SCRIPT = timedelta(hours=1)


def rewind(settings: WorkerSettings, *, force_resync: bool = False) -> int:
    """Moves the consumer on the provider to this node's position.  Returns the tick.

    For a node whose database was restored from a backup.  The worker must not run.

    force_resync -- where the provider does not have this node's tick, or a different one of that
        number: all tables of the node are copied again, and it starts at the newest tick.

    Raises PositionLost when the tick is not the same on both and ``force_resync`` is false, or does
    not suffice for this node, as for a branch; StateError on a root.
    """
    with contextlib.closing(connections.own_node(settings)) as target:
        state = nodes.get_worker_state(target, settings.queue_name)
        if state.type is NodeType.ROOT:
            raise StateError(
                f"node {state.name} is the root: it has no provider",
                hint="run it on the restored node; for a root see docs/howto/restore-a-queue.md",
            )
        with contextlib.closing(
            connections.provider(
                state.provider_location,
                settings.remote_extra_connstr,
                name=settings.job_name,
                queue=state.queue,
                node=state.provider,
                answer_seconds=settings.answer_seconds,
            )
        ) as source:
            connections.be_the_one_reader(source, state)
            return _rewind(settings, state, source, target, force_resync=force_resync)


def _rewind(
    settings: WorkerSettings,
    state: WorkerState,
    source: Connection,
    target: Connection,
    *,
    force_resync: bool,
) -> int:
    known = position_check.recall(target, state.queue, state.worker)
    tick = state.completed_tick
    facts = position_check.look(source, state.queue, state.worker, known, tick)
    if facts.registration is None:
        raise connections.unregistered(state)
    obstacle = position_check.rewind_obstacle(known, facts, state.provider, tick)
    if obstacle is not None:
        way = _other_way(state, target, facts)
        if not force_resync or way is not None:
            raise PositionLost(
                f"node {state.name}: cannot start at tick {tick} of {state.provider}",
                detail=f"{obstacle}; rows would be missing, nothing was changed",
                hint=way
                or "copy all tables of this node again: londiste worker --rewind --force-resync",
            )
        _copy_all(settings, state, source, target, known)
        tick = _newest(state, facts)
    batches.register_consumer_at(source, state.queue, state.worker, tick)
    now = position_check.look(source, state.queue, state.worker, known, tick)
    with target.transaction():
        if obstacle is not None:
            nodes.set_consumer_completed(target, state.queue, state.worker, tick)
            position_check.forget(target, state.queue, state.worker)
            known = None
        found = position_check.prove(
            state.queue, state.worker, state.provider, tick, known, now, hint=""
        )
        if found is not None:
            position_check.note(target, state.queue, state.worker, found)
        position_check.forget_lost(target, state.queue, state.worker)
        # The next worker would clear it; until then status and wait-sync would show it.
        nodes.set_consumer_error(target, state.queue, state.worker, None)
    return tick


def _other_way(state: WorkerState, target: Connection, facts: PositionFacts) -> str | None:
    """How a node gets its rows for which a copy of all tables is not enough; None: it is.

    The queue of a branch has events that its provider lost, and its subscribers may have applied
    them.  A leaf may have tables whose rows are not those of this queue alone; one whose rows come
    through a combined queue is refused later, with its reason.
    """
    if state.type is NodeType.BRANCH:
        common = position_check.last_common_tick(facts, state.completed_tick)
        ahead: list[str] = []
        behind: list[str] = []
        for one in nodes.get_subscriber_info(target, state.queue):
            at = position_check.look(target, state.queue, one.worker, None, 0).finished_tick
            (ahead if (at or 0) > common else behind).append(one.name)
        return branch_way(state.name, ahead, behind, state.provider_location)
    if state.type is not NodeType.LEAF or state.combined_type is NodeType.BRANCH:
        return None
    mine = [t for t in tables.get_table_list(target, state.queue) if t.local]
    return merged_tables.order(target, nodes.get_node_info(target, state.queue), mine, lost=True)


def branch_way(branch: str, ahead: Sequence[str], behind: Sequence[str], provider: str) -> str:
    """Hint for a branch that cannot continue: it and some of its subscribers are created again.

    Pure.

    ahead -- subscribers that have applied ticks which no other provider has.
    behind -- the other ones: they continue at the provider of the branch.
    provider -- the location of that provider.
    """
    steps = []
    if behind or not ahead:
        whose = f"subscribers {', '.join(behind)}" if ahead else "its subscribers"
        steps.append(f"switch {whose} to another provider (londiste change-provider)")
    steps += [f"londiste drop-node {argument(name)}" for name in (*ahead, branch)]
    again = create_hint.create(NodeType.BRANCH, branch, provider=provider)
    if ahead:
        again += f", and create {', '.join(ahead)} again: no other provider has its position"
    return f"{', then '.join(steps)}, then {again}"


def _newest(state: WorkerState, facts: PositionFacts) -> int:
    if facts.last_tick is None:
        raise StateError(
            f"queue {state.queue}: node {state.provider} has no tick",
            hint=f"londiste queue tick {word(state.queue)}",
        )
    return facts.last_tick


def _copy_all(
    settings: WorkerSettings,
    state: WorkerState,
    source: Connection,
    target: Connection,
    known: KnownPosition | None,
) -> None:
    """Sets all tables of the node to be copied, before the position moves.

    The events between are never read: what they say about tables and sequences is asked for.
    """
    _refuse_removed(state, source, target)
    scripts = _not_run(state, source, target, known)
    with Connections(
        name="londiste worker --rewind",
        lock_timeout=settings.lock_timeout,
        extra=settings.remote_extra_connstr,
    ) as sites:
        registry = CopyRegistry(
            state.name,
            state.provider,
            sites.reach(state.provider_location, state.provider),
            settings.db,
            state.queue,
            RegistrationFilter.of(settings),
        )
        plan = resync.plan(sites, settings.db, state.queue, (), every=True)
        execute([registry, *plan.steps], sites)
    if scripts:
        log.warning(
            "scripts of node %s that this node has not run: %s; see: londiste execute status",
            state.provider,
            ", ".join(scripts),
        )


def _refuse_removed(state: WorkerState, source: Connection, target: Connection) -> None:
    """Raises StateError for replicated tables of this node that the provider does not know."""
    theirs = {t.name for t in tables.get_table_list(source, state.queue)}
    mine = [t.name for t in tables.get_table_list(target, state.queue) if t.local]
    gone = [name for name in mine if name not in theirs]
    if gone:
        raise StateError(
            f"node {state.provider} does not replicate {', '.join(map(str, gone))} any more",
            detail="they could not be copied; nothing was changed",
            hint=f"londiste remove-table {' '.join(map(argument, gone))}; or add them on the root",
        )


def _not_run(
    state: WorkerState, source: Connection, target: Connection, known: KnownPosition | None
) -> list[str]:
    """The scripts that the provider has run after the node's position, and the node has not.

    None if this user may not read them.
    """
    try:
        theirs = ddl.get_scripts(source, state.queue)
        mine = {one.name for one in ddl.get_scripts(target, state.queue)}
    except (AccessDenied, InstallError):
        return []
    # Those from before the node was created are no gap.
    since = None if known is None else known.tick_time - _LONGEST_SCRIPT
    return [
        one.name
        for one in theirs
        if one.name not in mine
        and (since is None or one.started_at is None or one.started_at >= since)
    ]
