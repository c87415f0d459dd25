"""Warning about a dispatcher whose events may change every table of the target."""

from __future__ import annotations

import logging

from londiste.db.connection import Connection, session
from londiste.db.queries import tuples
from londiste.pgq import queues
from londiste.tools.dispatch.rules import Rules
from londiste.tools.dispatch.settings import DispatchBase

log = logging.getLogger(__name__)


def doubt(queue: str, role: str, *, listed: bool, writes_all: bool, node: bool) -> str:
    """The warning about a dispatcher whose events can change every table; '' for none.

    role -- of the target; writes_all -- it may write all tables.
    listed -- the settings name the tables.
    node -- the queue accepts row changes from captures and administrators only.
    """
    if listed or node or not writes_all:
        return ""
    return (
        f"role {role} may write all tables of the target, and no setting names the tables: who may"
        f" insert events into queue {queue} can change them all; set table_filter, or use a role"
        " that may write only the target tables"
    )


def warn(conn: Connection, settings: DispatchBase, rules: Rules) -> None:
    """Logs the warning, if there is one.

    conn -- of the target.
    """
    listed = bool(settings.table_filter) or not rules.takes_all
    if listed:
        return
    ((role, writes_all),) = tuples(conn, "role_writes_all")
    node = False
    if writes_all:
        with session(settings.db, name="londiste dispatch", autocommit=True) as source:
            node = queues.is_node(source, settings.queue_name)
    said = doubt(settings.queue_name, role, listed=listed, writes_all=writes_all, node=node)
    if said:
        log.warning("%s", said)
