"""Control messages of the cascade: ``pgq.*`` and ``londiste.*`` events that change the node.

They are processed inside the transaction of the batch, so exactly once too.
"""

from __future__ import annotations

import logging
import re

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.changes.types import SystemEvent
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import EventError, StateError, UsageError
from londiste.replication import sqlapi as tables
from londiste.replication.registration_filter import ALL, RegistrationFilter

log = logging.getLogger(__name__)

_NUMBER = re.compile("-?[0-9]{1,19}")


class SystemEvents:
    """Processes the messages in the database of ``conn``, for a node of type ``node_type``.

    wanted -- the tables and sequences that it registers.
    own_watermark -- it computes its global watermark itself.
    """

    def __init__(
        self,
        conn: Connection,
        queue: str,
        node_type: NodeType,
        *,
        wanted: RegistrationFilter = ALL,
        own_watermark: bool = False,
    ) -> None:
        self.wanted = wanted
        self.conn = conn
        self.queue = queue
        self.node_type = node_type
        self.own_watermark = own_watermark

    def follow(self, event: SystemEvent) -> None:
        """Processes the message.

        Raises EventError for an unknown one, one with wrong contents, or one of another queue.
        """
        try:
            if event.type.startswith("pgq."):
                self._node_message(event)
            else:
                self._table_message(event)
        except UsageError as error:
            raise self._wrong(event, error.message) from error

    def _node_message(self, event: SystemEvent) -> None:
        if event.type != "pgq.tick-id" and event.extra1 != self.queue:
            raise self._wrong(event, f"it belongs to queue {event.extra1}")
        match event.type:
            case "pgq.location-info":
                nodes.register_location(
                    self.conn,
                    self.queue,
                    self._data(event),
                    event.extra2,
                    dead=event.extra3 == "true",
                )
            case "pgq.unregister-location":
                self._forget_node(self._data(event), event.event_id)
            case "pgq.global-watermark":
                if self.node_type is NodeType.BRANCH and not self.own_watermark:
                    nodes.set_global_watermark(self.conn, self.queue, self._number(event))
            case "pgq.tick-id" if event.extra1 == self.queue:
                raise self._wrong(event, "a queue cannot be a part of itself")
            case "pgq.tick-id" if not event.extra1:
                raise self._wrong(event, "it names no queue")
            case "pgq.tick-id" if self.node_type is NodeType.BRANCH:
                part = event.extra1 or ""
                nodes.set_partition_watermark(self.conn, self.queue, part, self._number(event))
            case "pgq.tick-id":
                log.debug("tick %s of part %s", event.data, event.extra1)
            case _:
                raise self._wrong(event, "this version does not know the message")

    def _table_message(self, event: SystemEvent) -> None:
        match event.type:
            case "londiste.add-table":
                name = self._table(event.data, event)
                if self.wanted.table(name):
                    tables.global_add_table(self.conn, self.queue, name)
            case "londiste.remove-table":
                self._forget(event, "table")
            case "londiste.update-seq":
                sequence = self._table(event.extra1, event)
                value = self._number(event)
                if not self.wanted.sequence(sequence):
                    return
                tables.global_update_seq(self.conn, self.queue, sequence, value, event.extra2)
            case "londiste.remove-seq":
                self._forget(event, "sequence")
            case _:
                raise self._wrong(event, "this version does not know the message")

    def _forget_node(self, name: str, event: int) -> None:
        try:
            with self.conn.transaction():
                nodes.follow_unregister_location(self.conn, self.queue, name, event)
        except StateError:
            # The message is about an earlier node with the name of this one, or of its provider: a
            # new node starts at the global watermark, before the message that dropped the old one.
            log.info("node %s is registered again: its old location is kept", name)

    def _forget(self, event: SystemEvent, kind: str) -> None:
        name = self._table(event.data, event)
        forget = tables.global_remove_table if kind == "table" else tables.global_remove_seq
        try:
            with self.conn.transaction():
                forget(self.conn, self.queue, name)
        except UsageError:
            # A node may have been told to know only some of them.
            log.info("%s %s is not registered on this node: nothing to remove", kind, name)

    def _data(self, event: SystemEvent) -> str:
        if not event.data:
            raise self._wrong(event, "it is empty")
        return event.data

    def _number(self, event: SystemEvent) -> int:
        text = self._data(event)
        # An int8; int() also reads what the server does not, and numbers of any size.
        if _NUMBER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
            raise self._wrong(event, "it contains no number")
        return int(text)

    def _table(self, name: str | None, event: SystemEvent) -> TableName:
        try:
            return TableName.parse(name or "")
        except UsageError:
            raise self._wrong(event, "it names no table or sequence") from None

    def _wrong(self, event: SystemEvent, why: str) -> EventError:
        return EventError(
            f"event {event.event_id}: cannot process type {event.type}: {why}",
            detail=f"queue {self.queue}, data {event.data!r}",
            hint="if the root runs a newer version, install that version on this node too",
            queue=self.queue,
            event_id=event.event_id,
        )
