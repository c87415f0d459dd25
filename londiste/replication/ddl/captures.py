"""Captures of tables that DDL has changed are recreated, unless their arguments do not fit."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.queries import records
from londiste.replication.ddl import sqlapi as state

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnfitCapture:
    """A native capture that cannot be recreated, because an argument does not fit its table.

    queue -- where it writes; fault -- why; help -- the statement that creates it again with the
    same arguments; in_script -- that for a script: leaves have no queue, and it does nothing there.
    """

    table: str
    queue: str
    argument: str
    fault: str
    help: str
    in_script: str

    def __str__(self) -> str:
        return f"trigger argument '{self.argument}' does not fit table {self.table}: {self.fault}"


def unfit(conn: Connection, *, stale: bool = False) -> list[UnfitCapture]:
    """The captures that could not be recreated, all or those of changed tables.

    The expressions are looked up; the locks of that do not stay in the caller's transaction.
    """
    with conn.transaction(force_rollback=True):
        return records(conn, UnfitCapture, "unfit_captures", stale=stale)


def newly_unfit(
    left: Collection[UnfitCapture], before: Collection[UnfitCapture]
) -> list[UnfitCapture]:
    """Those that did fit before a script."""
    known = {(one.table, one.queue) for one in before}
    return [one for one in left if (one.table, one.queue) not in known]


def warn(left: Collection[UnfitCapture]) -> None:
    """Logs the captures that stay as they are."""
    for one in left:
        log.warning(
            "table %s: its capture is left as it is: %s; with the argument corrected: %s",
            one.table,
            one,
            one.help,
        )


def refresh(conn: Connection) -> list[UnfitCapture]:
    """Recreates the captures of changed tables; returns those that it leaves as they are."""
    for changed in state.refresh_captures(conn):
        log.info("table %s: capture recreated", changed)
    return unfit(conn, stale=True)
