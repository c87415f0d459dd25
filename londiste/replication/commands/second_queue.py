"""Tables that one queue fills in a database and another queue captures there.

The worker writes them as replication, where only triggers with ENABLE ALWAYS fire.  A subscriber
that is the provider of another pair needs such captures.
"""

from __future__ import annotations

import logging

import psycopg

from londiste.db.connection import describe_dsn, session
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.settings import NodeSettings

log = logging.getLogger(__name__)


def fire_for_replication(settings: NodeSettings) -> list[TableName]:
    """Lets the captures of a queue fire for rows of other queues; the tables that changed."""
    changed: list[TableName] = []
    with session(settings.db, name="londiste second queue", autocommit=True) as conn:
        with translated(describe_dsn(settings.db)):
            for table, trigger in conn.execute(
                query("second_queue_captures"), [settings.queue_name]
            ).fetchall():
                name = TableName.parse(table)
                with conn.transaction():
                    conn.execute(
                        psycopg.sql.SQL("alter table {} enable always trigger {}").format(
                            name.sql, psycopg.sql.Identifier(trigger)
                        )
                    )
                changed.append(name)
                log.info("table %s: the capture also fires for replicated rows", name)
    return changed
