"""Status of the tables of a lake: position and lag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from londiste.db.connection import session
from londiste.lake import source
from londiste.lake.settings import LakeSettings
from londiste.lake.store import Store
from londiste.lake.versions import Version
from londiste.pgq import admin, queues, ticks


@dataclass(frozen=True)
class TableStatus:
    """One table.  None where there is no version yet, or no consumer.

    behind -- ticks of the queue that the version does not have; consumer -- where the queue keeps
        events from.
    captured -- whether a trigger of the table in this database writes into the queue.
    """

    table: str
    mode: str | None
    version: int | None
    tick: int | None
    tick_time: datetime | None
    behind: int | None
    consumer: int | None
    rows: int
    files: int
    bytes: int
    made: datetime | None
    captured: bool


def look(settings: LakeSettings) -> list[TableStatus]:
    """All tables of the settings.  Raises UnknownQueue."""
    found = []
    with session(settings.db, name="londiste lake status", autocommit=True) as conn:
        admin.find_queue(conn, settings.queue_name)
        newest = ticks.newest(conn, settings.queue_name)
        for table in source.tables(settings):
            version = Store.of(settings, table).newest()
            consumers = queues.get_consumer_info(
                conn, settings.queue_name, source.options(settings, table).consumer
            )
            tick = version.tick if version else None
            time = version.position.get("time") if version else None
            found.append(
                TableStatus(
                    str(table),
                    version.mode if version else None,
                    version.number if version else None,
                    tick,
                    datetime.fromisoformat(time) if time else None,
                    newest.id - tick if newest is not None and tick is not None else None,
                    consumers[0].last_tick if consumers else None,
                    version.rows if version else 0,
                    len(version.files) if version else 0,
                    version.bytes if version else 0,
                    version.made_at if version else None,
                    source.is_captured(conn, settings.queue_name, table),
                )
            )
    return found


def versions(settings: LakeSettings) -> list[Version]:
    """All versions of all tables that can be read, the newest of each last."""
    return [
        version
        for table in source.tables(settings)
        for version in Store.of(settings, table).versions()
    ]
