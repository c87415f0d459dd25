"""Lock retry: a transaction that waits for a table lock, in short attempts.

Writers queue behind a requested lock, so each attempt waits at most a second.  One table per
transaction: holding one lock while waiting for the next could deadlock with an application, and the
server might choose the application as the victim.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import records, tuples
from londiste.errors import Deadlock, LockTimeout, LondisteError
from londiste.orchestration.connections import Connections

T = TypeVar("T")

#: Seconds that one attempt waits for its locks.
_TRY_SECONDS = 1.0
#: Transactions that an error names.
_MOST = 3


def retry_locked(
    sites: Connections,
    dsn: str,
    work: Callable[[Connection], T],
    *,
    before: Callable[[], object] | None = None,
) -> T:
    """Calls ``work`` in its own transaction, again after a lock timeout; returns its result.

    before -- called before each attempt.

    Raises LockTimeout or Deadlock of the last attempt after ``sites.lock_timeout`` seconds.
    """

    def attempt(limit: int) -> T:
        if before is not None:
            before()
        with sites.transaction(dsn) as conn:
            conn.execute("select pg_catalog.set_config('lock_timeout', %s, true)", [f"{limit}ms"])
            return work(conn)

    return _again(sites, attempt)


def _again(sites: Connections, attempt: Callable[[int], T]) -> T:
    """Calls ``attempt`` with the milliseconds that it may wait, until it has its locks."""
    deadline = time.monotonic() + sites.lock_timeout
    limit = round(min(_TRY_SECONDS, sites.lock_timeout) * 1000)
    while True:
        try:
            return attempt(limit)
        except (LockTimeout, Deadlock):
            if time.monotonic() >= deadline:
                raise


def with_table(
    sites: Connections, dsn: str, table: TableName, node: str, work: Callable[[Connection], T]
) -> T:
    """Calls ``work`` in its own transaction, in which it may lock ``table``; returns its result.

    Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds.
    """
    with _named(sites, dsn, table, node):
        return retry_locked(sites, dsn, work)


def by_statement(
    sites: Connections,
    dsn: str,
    table: TableName,
    node: str,
    statement: Callable[[Connection, int], T],
) -> T:
    """The same for a statement that is a transaction of its own: one round trip instead of four.

    statement -- called with the milliseconds that it may wait for a lock.
    """
    with _named(sites, dsn, table, node):
        return _again(sites, lambda limit: statement(sites.at(dsn), limit))


@dataclass(frozen=True)
class LockHolder:
    """A transaction that holds a lock on a table.

    age -- seconds; None where the role may not see it.  remedy -- the statement that ends it.
    """

    name: str
    age: float | None
    remedy: str

    def __str__(self) -> str:
        return self.name if self.age is None else f"{self.name}, for {self.age:.0f} s"


@dataclass(frozen=True)
class LockedTable:
    """A table that another session has locked against all others: what reads of it waits.

    locked -- the table itself, or a partition of it.
    """

    oid: int
    name: TableName
    locked: TableName
    holders: tuple[LockHolder, ...] = ()

    @property
    def why(self) -> str:
        """Who has locked it."""
        by = ", ".join(map(str, self.holders)) or "another session"
        what = "" if self.locked == self.name else f"with its partition {self.locked} "
        return f"{what}locked by {by}"

    def after(self, command: str) -> str:
        """A hint: the command, and the statements that end the sessions that lock it."""
        remedies = "; ".join(one.remedy for one in self.holders)
        ending = f"; to end it: {remedies}" if remedies else ""
        return f"{command}, when that transaction has ended{ending}"


def locked_tables(conn: Connection) -> list[LockedTable]:
    """The tables that another session has locked against all others; waits for none."""
    return [
        LockedTable(oid, TableName(schema, name), TableName(*locked))
        for oid, schema, name, *locked in tuples(conn, "locked_tables")
    ]


def with_holders(conn: Connection, locked: Sequence[LockedTable]) -> list[LockedTable]:
    """The same with who locks them, as far as that is known."""
    return [replace(one, holders=tuple(_holders(conn, one.locked))) for one in locked]


def _holders(
    conn: Connection, table: TableName | None, *, writers: bool = False, prepared: bool = False
) -> list[LockHolder]:
    names = {"schema": None, "name": None} if table is None else table._asdict()
    with contextlib.suppress(LondisteError):
        return records(
            conn, LockHolder, "table_lock_holders", writers=writers, prepared=prepared, **names
        )[:_MOST]
    return []


def name_prepared(error: LockTimeout, conn: Connection) -> None:
    """Adds the prepared transactions of a database that may hold the lock: no session shows them.

    Without their ages, so that a repeated error is the same.
    """
    held = [] if error.holder else _holders(conn, None, writers=True, prepared=True)
    if held:
        remedies = "; ".join(one.remedy for one in held)
        names = ", ".join(one.name for one in held)
        which = "it holds" if len(held) == 1 else "one of them holds"
        error.say_more(f"locks are held by {names}", f"if {which} the lock: {remedies}")


def lock_holders(
    sites: Connections, dsn: str, table: TableName | None = None, *, writers: bool = False
) -> list[LockHolder]:
    """The transactions with the longest hold on ``table``, or on any; empty when unknown.

    writers -- only those that do more than read it, or a table that inherits from it.
    """
    with contextlib.suppress(LondisteError):
        return _holders(sites.at(dsn), table, writers=writers)
    return []


@contextlib.contextmanager
def _named(sites: Connections, dsn: str, table: TableName, node: str) -> Iterator[None]:
    """Names the table that stays locked, and who locks it."""
    try:
        yield
    except (LockTimeout, Deadlock) as error:
        held, remedy = in_the_way(error, lock_holders(sites, dsn, table), node)
        detail = (
            f"waited {sites.lock_timeout:g} s for its lock; earlier tables of the list are done"
        )
        raise LockTimeout(
            f"node {node}: table {table} stays locked",
            detail="; ".join([detail, *held]),
            hint=remedy + "repeat the command",
        ) from error


def in_the_way(
    error: LockTimeout | Deadlock, held: Sequence[LockHolder], node: str
) -> tuple[list[str], str]:
    """Pure: who holds a lock that was not granted, and the beginning of a hint, as statements.

    held -- the transactions that hold locks of the table.
    """
    if isinstance(error, LockTimeout) and error.holder:
        # An advisory lock: who holds locks of the table is not in the way.
        return [error.detail], f"{error.hint}; then "
    return [f"locked by {one}" for one in held], end_transactions(held, node)


def end_transactions(held: Sequence[LockHolder], node: str) -> str:
    """The beginning of a hint: the statements that end these transactions; empty for none."""
    remedies = "; ".join(one.remedy for one in held)
    return f"end the transaction on node {node}: {remedies}; then " if held else ""
