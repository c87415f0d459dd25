"""Keeps applications out of the replicated tables that a script uses on the root.

A script that writes has the same effect on every node only if no transaction is open that has
written into the tables that it reads or writes: its events have lower numbers than the script, so
other nodes apply them before the script, which has not seen these rows on the root.  A lock waits
for such transactions:

    before the script     of the tables that its words name, and those of the functions, triggers,
                          blocks and views that it uses
    behind its last one   the server tells what else it has read or written, in dynamic SQL for
                          instance; then it is rolled back, and runs again with these locks, too
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import records, savepoint, tuples
from londiste.replication.ddl.rows import defines
from londiste.replication.ddl.split import Statement
from londiste.replication.ddl.volatile import calls_alone, evaluates, fired, inner, look_into

log = logging.getLogger(__name__)

#: One attempt waits for less than the time after which a session looks for a deadlock, so that it
#: is never an application which is cancelled.
_OF_DEADLOCK_TIMEOUT = 0.9
#: SELECT … FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE or FOR KEY SHARE.
_LOCKS_ROWS = re.compile(r"(?i)\bfor\s+((no\s+)?key\s+)?(update|share)\b")


class Used(NamedTuple):
    """A table that a transaction has read or written.

    written -- a statement could have written into it, even if it found no row.
    locked -- no other transaction may write into it.
    """

    oid: int
    written: bool
    locked: bool


@dataclass
class WriterLock:
    """The tables that a script on the root has locked, or has to.

    tables -- those that the script's queue replicates, and what is in their trees, by oid.
    others -- those of the other queues of this database, with their queue.
    named -- those that its statements use by their words, by the number of each that may write.
    wanted -- to be locked before the first statement.
    refused -- the session's role may not lock them.
    held -- the transaction had locked them before the script, whose text does not name them: a
        weak lock tells nothing about the script.
    seconds -- for which an attempt waits.
    locks_rows -- its text may read with locks of rows, which look like checks of foreign keys.
    """

    tables: Mapping[int, TableName]
    others: Mapping[int, tuple[str, TableName]]
    named: Mapping[int, set[int]]
    wanted: set[int]
    seconds: float
    locks_rows: bool
    refused: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, conn: Connection, queue: str, text: str, statements: Sequence[Statement]
    ) -> WriterLock:
        """For a script on the root of ``queue``; it locks nothing yet.

        text -- of the script, also what is no word of a statement, as in dynamic SQL.
        """
        found = tuples(conn, "script_tables")
        mine = {oid: TableName(*name) for of, oid, *name in found if of == queue}
        others = {oid: (of, TableName(*name)) for of, oid, *name in found if oid not in mine}
        known = {**mine, **{oid: name for oid, (_, name) in others.items()}}
        words = _with_views(conn, {one.number: used_by(conn, one) for one in statements})
        named = {
            number: {oid for oid, name in known.items() if name.name in some}
            for number, some in words.items()
            if some
        }
        # A statement that changes a table locks it itself, stronger.  With a weaker lock in hand it
        # would wait for readers that wait for it.
        changed = {word.text for one in statements if defines(one) for word in one.words}
        later = {oid for oid, name in mine.items() if name.name in changed}
        wanted = {oid for some in named.values() for oid in some} & mine.keys() - later
        ((deadlock_timeout,),) = tuples(conn, "deadlock_timeout")
        seconds = _OF_DEADLOCK_TIMEOUT * deadlock_timeout
        made = cls(mine, others, named, wanted, seconds, bool(_LOCKS_ROWS.search(text)))
        in_text = _words(text)
        made.held = {
            one.oid for one in made._used(conn) if not _names(known[one.oid], in_text, text)
        }
        return made

    def begin(self, conn: Connection) -> None:
        """Locks the tables that are known to be used, before the first statement."""
        # Of one limit for all: whoever waits for the first of them looks for a deadlock later.
        until = time.monotonic() + self.seconds
        for oid in sorted(self.wanted - self.refused):
            if not _lock(conn, self.tables[oid], until - time.monotonic()):
                self.refused.add(oid)
                log.warning(
                    "table %s: role %s may not lock it: if applications write into it during the"
                    " script, other nodes may stop at the script, or get other rows",
                    self.tables[oid],
                    conn.info.user,
                )

    def before(self, conn: Connection, statement: Statement) -> None:
        """Locks the tables that a statement uses, where ``begin`` has left that to it.

        Not those that it changes itself.
        """
        own = {word.text for word in statement.words} if defines(statement) else set()
        for oid in sorted(self.named.get(statement.number, set()) & self.tables.keys()):
            if oid not in self.wanted and self.tables[oid].name not in own:
                _lock(conn, self.tables[oid], self.seconds)

    def missed(self, conn: Connection, *, wrote: bool) -> bool:
        """Whether the script has used tables without such a lock, which ``begin`` locks then.

        wrote -- it has written rows.  Inside the savepoint of the script.
        """
        used = [one for one in self._used(conn) if one.written or one.oid not in self.held]
        if not (wrote or self.named or any(one.written for one in used)):
            return False
        found = {one.oid for one in used if not one.locked and one.oid in self.tables}
        found -= self.wanted
        self.wanted |= found
        if not found:
            seen = {one.oid for one in used}.union(*self.named.values())
            self._warn_of(seen & self.others.keys())
        return bool(found)

    def _used(self, conn: Connection) -> list[Used]:
        oids = sorted({*self.tables, *self.others})
        return records(conn, Used, "script_used", oids=oids, locks_rows=self.locks_rows)

    def _warn_of(self, others: Iterable[int]) -> None:
        for oid in sorted(others):
            queue, name = self.others[oid]
            log.warning(
                "table %s: queue %s replicates it, so other nodes read it at another time: if it"
                " changes until then, the script writes other rows there",
                name,
                queue,
            )


def _lock(conn: Connection, table: TableName, seconds: float) -> bool:
    """Locks one table within some seconds; returns False when the role may not."""
    try:
        with savepoint(conn):
            ((before, _),) = tuples(conn, "lower_lock_timeout", most=max(1, round(seconds * 1000)))
            conn.execute(f"lock table {table.quoted} in share row exclusive mode".encode())
            conn.execute("select pg_catalog.set_config('lock_timeout', %s, true)", [before])
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.errors.UndefinedTable:
        # The script has dropped or renamed it, which is refused at its end.
        return True
    return True


def _words(text: str) -> set[str]:
    return set(re.findall(r"[\w$]+", text.lower()))


def _names(table: TableName, words: Collection[str], text: str) -> bool:
    """Pure: whether a text has the name of a table, perhaps as something else."""
    name = table.name.lower()
    return name in words if re.fullmatch(r"[\w$]+", name) else name in text.lower()


def used_by(conn: Connection, statement: Statement) -> frozenset[str]:
    """The names in a statement that may write, and in what it calls; empty: it writes nothing."""
    one = inner(statement)
    writes = evaluates(one)
    if not (writes or calls_alone(one)):
        return frozenset()
    found = look_into(conn, one, fired(conn, one))
    if not (writes or found.writes):
        return frozenset()
    return found.words.union(word.text for word in one.words if word.names)


def _with_views(conn: Connection, words: Mapping[int, frozenset[str]]) -> dict[int, frozenset[str]]:
    """The names of each statement, with those of the tables behind its views."""
    behind: dict[str, set[str]] = {}
    names = sorted(set().union(*words.values()))
    for view, name in tuples(conn, "view_tables", names=names) if names else ():
        behind.setdefault(view, set()).add(name)
    return {
        number: some.union(*(behind.get(word, ()) for word in some))
        for number, some in words.items()
    }
