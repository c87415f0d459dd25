"""Moves the provider's idea of this node back to what the node has."""

from __future__ import annotations

from londiste.cascade import nodes
from londiste.pgq import batches, continuity
from londiste.replication import links
from londiste.settings import WorkerSettings


def rewind(settings: WorkerSettings) -> int:
    """Moves the consumer on the provider to what this node has; the tick.

    For a node whose database was restored from a backup.  The worker must not run.
    """
    with links.closing(
        links.own_node(
            settings.db,
            queue=settings.queue_name,
            job=settings.job_name,
            lock_timeout=settings.lock_timeout,
        )
    ) as target:
        state = nodes.get_worker_state(target, settings.queue_name)
        with links.closing(
            links.provider(
                state.provider_location,
                settings.remote_extra_connstr,
                name=settings.job_name,
                queue=state.queue,
                node=state.provider,
            )
        ) as source:
            batches.register_consumer_at(source, state.queue, state.worker, state.completed_tick)
        # What the provider has now is what counts from here on.
        continuity.forget(target, state.queue, state.worker)
    return state.completed_tick
