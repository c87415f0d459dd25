"""Publishes the local and global watermarks of a node."""

from __future__ import annotations

import logging
import time

from londiste.cascade import sqlapi as nodes
from londiste.cascade import watermark
from londiste.cascade.model import WorkerState
from londiste.cascade.worker_role import BatchActions
from londiste.db.connection import Connection
from londiste.errors import StateError, UsageError
from londiste.pgq.types import Batch
from londiste.replication.worker.provider import Source
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)


class Watermarks:
    """Publishes watermarks at the intervals of the settings.

    settings -- may be replaced.
    group -- nodes whose watermark a branch keeps locally; None: not read yet.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.group: tuple[str, ...] | None = None
        self._next_report = self._next_global = time.monotonic()

    def read_group(self, node: Connection, queue: str) -> None:
        """Reads the nodes for which the branch keeps a local watermark."""
        group = watermark.group_of(nodes.get_node_info(node, queue))
        if self.group is not None and group != self.group:
            log.info("nodes with a local watermark: %s", ", ".join(group) or "none")
        self.group = group

    def publish_global(self, node: Connection, queue: str) -> None:
        """On the root: publishes the watermark of all nodes."""
        now = time.monotonic()
        if now >= self._next_global:
            self._next_global = now + self.settings.global_wm_publish_period
            nodes.set_global_watermark(node, queue, None)

    def report(
        self,
        node: Connection,
        source: Source,
        state: WorkerState,
        duty: BatchActions,
        batch: Batch | None,
    ) -> None:
        """Reports to the provider the position that this node and all below have reached.

        batch -- the one that was just applied.
        """
        now = time.monotonic()
        if not (duty.report_watermark or duty.own_watermark) or now < self._next_report:
            return
        self._next_report = now + self.settings.local_wm_publish_period
        tick = state.local_watermark
        if source.behind is not None:
            tick = source.behind.at
        elif not duty.make_tick:
            tick = batch.tick_id if batch is not None else state.completed_tick
        elif duty.own_watermark:
            # Those below are kept waiting here, not upstream.
            tick = state.completed_tick
            watermark.publish_group(
                node,
                source.conn,
                state.queue,
                self.group or (),
                extra=self.settings.remote_extra_connstr,
            )
        if tick is None:
            return
        try:
            nodes.set_subscriber_watermark(source.conn, state.queue, state.name, tick)
        except StateError as error:
            # A node that was led below this one counts from an older tick on until it reports.
            log.debug("watermark %d not reported: %s", tick, error)
        except UsageError as error:
            # It pins the provider's queue, nothing here depends on it.
            log.warning("watermark %d not reported: %s", tick, error)
