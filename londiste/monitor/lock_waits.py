"""Sessions of Londiste in a database that wait for a lock, and who keeps them waiting."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.daemon.durations import dhms
from londiste.db.connection import Connection
from londiste.db.queries import records
from londiste.monitor.queues.model import Finding, Severity

#: Seconds from which on a wait is reported: shorter ones are daily work.
LONG = 10.0


@dataclass(frozen=True)
class LockWait:
    """A session that waits for a lock.

    session -- its application_name.  age -- seconds since it waits.
    table -- whose lock or row it waits for; None: something else.
    holder -- the transaction it waits for, which itself waits for no lock.
    held -- seconds since that began; None: unknown.  remedy -- the statement that ends it.
    """

    session: str
    pid: int
    age: float
    table: str | None
    holder: str
    held: float | None
    remedy: str

    def __str__(self) -> str:
        lock = "a lock" if self.table is None else f"a lock of table {self.table}"
        since = "" if self.held is None else f", whose transaction is {dhms(self.held)} old"
        return (
            f"{self.session}, process {self.pid}, has waited {dhms(self.age)} for {lock}:"
            f" {self.holder}{since}"
        )


def find(conn: Connection, seconds: float = LONG) -> tuple[LockWait, ...]:
    """Those of the database that have waited for longer; the longest first."""
    return tuple(records(conn, LockWait, "lock_waits", seconds=seconds))


def findings(waits: tuple[LockWait, ...], queue: str) -> list[Finding]:
    """Pure: the findings of ``londiste status`` about them."""
    return [
        Finding(
            Severity.WARNING,
            "lock-wait",
            str(one),
            "what it has to do in this database stands still until that transaction ends",
            f"end that transaction: {one.remedy}",
            queue,
        )
        for one in waits
    ]
