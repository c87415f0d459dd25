"""Rows that a script writes: counted in its transaction, sent with it, compared on each node.

A script is no event of rows: every node executes its statements.  So they must have the same
effect as the rows that they write on the root, or the node must stop before them.

    counted     by PostgreSQL, per table: new versions of rows (written) and former ones (removed),
                summed over the partitions.  A row that moves to another partition is both, as
                any update.  TRUNCATE counts no rows: it leaves a new file, in which there are no
                rows but the script's.
    sent        ev_extra3 of the event, as JSON: {"public.t": [written, removed, emptied]}
    compared    ``problems``: pure
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.queries import records, tuples
from londiste.handlers.base import TableRules
from londiste.replication.ddl.split import Statement
from londiste.replication.ddl.volatile import evaluates

#: States of captures that fire for the rows of applications, and for those that replication writes.
_ON_ROOT, _BELOW = ["O", "A"], ["A", "R"]


#: First words of statements that write no rows, and may give a table a new file.
_DEFINES = (
    *("alter", "create", "drop", "comment", "grant", "revoke", "set", "reset"),
    *("analyze", "cluster", "lock", "reindex", "vacuum"),
)


class Emptied(IntEnum):
    """What TRUNCATE has emptied of a table, whatever was written afterwards."""

    NOTHING = 0
    ALL = 1
    PART = 2


class Rows(NamedTuple):
    """Rows of one table that a script has written.

    written -- inserted and updated; removed -- deleted and updated; both since it was emptied.
    """

    written: int = 0
    removed: int = 0
    emptied: Emptied = Emptied.NOTHING

    @property
    def any(self) -> bool:
        """Whether the script has changed rows."""
        return bool(self.written or self.removed or self.emptied)

    def __str__(self) -> str:
        emptied = {Emptied.ALL: ", emptied", Emptied.PART: ", emptied in part"}
        return f"{self.written} written, {self.removed} removed" + emptied.get(self.emptied, "")


@dataclass(frozen=True)
class Place:
    """A table of this database as a queue knows it.

    kind -- table: it is replicated here; capture: the queue only captures it.
    dest -- its name here; root -- the queue does not fill it.
    combined -- the queue that gets the rows of this one, on a leaf that merges.
    """

    kind: str
    queue: str
    table: str
    dest: str
    root: bool
    combined: str | None


@dataclass(frozen=True)
class Touched:
    """A table of this database, and the rows that a script has written into it here."""

    place: Place
    rows: Rows


@dataclass(frozen=True)
class Registered:
    """What a node decides by, of a table of the script's queue.

    handler -- the name of its handler, '' for none; rules -- None: they are not known here.
    in_sync -- its rows are there: no copy brings them after the script.
    recopy -- it can be copied again from the provider.
    """

    handler: str
    rules: TableRules | None
    in_sync: bool
    recopy: bool


@dataclass(frozen=True)
class Problem:
    """Why a script cannot run here: a table, the reason, and whether it can be copied again."""

    table: str
    message: str
    resync: bool


class _Member(NamedTuple):
    place: Place
    written: int
    removed: int
    file: int

    def since(self, before: _Member) -> int:
        """The rows that it has more than before, by its counts."""
        return (self.written - before.written) - (self.removed - before.removed)


@dataclass(frozen=True)
class Watch:
    """The counts before a script."""

    queue: str
    root: bool
    before: Mapping[tuple[Place, int | None], _Member]

    @classmethod
    def begin(cls, conn: Connection, queue: str, *, root: bool) -> Watch:
        """Begins to count, inside the transaction of the script.

        conn -- in a savepoint of its own, which ``end`` is still in: TRUNCATE sets the counts of a
            savepoint back.
        """
        return cls(queue, root, _look(conn, queue, root))

    def end(self, conn: Connection, statements: Sequence[Statement]) -> list[Touched]:
        """The tables of this database's queues, with the rows written since ``begin``."""
        after = _look(conn, self.queue, self.root)
        added = {
            oid: now.since(self._before(place, oid))
            for (place, oid), now in after.items()
            if oid is not None and self._before(place, oid).file not in (0, now.file)
        }
        empty = _emptied(conn, added) if added and may_write(statements) else frozenset()
        found: dict[Place, list[tuple[_Member, bool | None]]] = {}
        for (place, oid), now in after.items():
            was = self._before(place, oid)
            change = _Member(place, now.written - was.written, now.removed - was.removed, 0)
            found.setdefault(place, []).append((change, oid in empty if was.file else None))
        return [Touched(place, _sum(members)) for place, members in found.items()]

    def _before(self, place: Place, oid: int | None) -> _Member:
        return self.before.get((place, oid), _Member(place, 0, 0, 0))


def untouched(conn: Connection, queue: str, *, root: bool) -> list[Touched]:
    """What a script that does not run has written: nothing, into each table."""
    places = dict.fromkeys(place for place, _ in _look(conn, queue, root))
    return [Touched(place, Rows()) for place in places]


def counts(conn: Connection) -> bool:
    """Whether this session counts rows."""
    row = conn.execute("select pg_catalog.current_setting('track_counts')").fetchone()
    return row is not None and row[0] == "on"


def _look(conn: Connection, queue: str, root: bool) -> Mapping[tuple[Place, int | None], _Member]:
    def one(
        kind: str,
        queue: str,
        table: str,
        dest: str,
        root: bool,
        combined: str | None,
        oid: int | None,
        written: int,
        removed: int,
        file: int | None,
    ) -> tuple[int | None, _Member]:
        place = Place(kind, queue, table, dest, root, combined)
        return oid, _Member(place, written, removed, file or 0)

    enabled = _ON_ROOT if root else _BELOW
    found = records(conn, one, "script_rows", queue=queue, enabled=enabled)
    return {(member.place, oid): member for oid, member in found}


def _sum(members: Sequence[tuple[_Member, bool | None]]) -> Rows:
    """The rows of a table, from those of its partitions, and whether each was emptied.

    None: it has no rows of its own, or is new.
    """
    emptied = {one for _, one in members if one is not None}
    return Rows(
        sum(one.written for one, _ in members),
        sum(one.removed for one, _ in members),
        (Emptied.PART if False in emptied else Emptied.ALL) if True in emptied else Emptied.NOTHING,
    )


def _emptied(conn: Connection, added: Mapping[int, int]) -> frozenset[int]:
    """Which of some tables with a new file were emptied: they have no rows but the script's.

    added -- the rows that the script has added to each.  A statement that rewrites a table keeps
        its rows.  A table that was empty before counts as emptied.
    """
    found = set()
    for oid, schema, name, empty, readable in tuples(conn, "new_files", oids=sorted(added)):
        rows = added[oid]
        if not empty and readable:
            # No more than have to be read: a rewritten table may be large.
            few = sql.SQL("select count(*) from (select from only {} limit {}) t").format(
                sql.Identifier(schema, name), sql.Literal(max(rows, 0) + 1)
            )
            ((count,),) = conn.execute(few).fetchall()
            empty = count <= rows
        if empty or not (readable or rows <= 0):
            found.add(oid)
    return frozenset(found)


def may_write(statements: Sequence[Statement]) -> bool:
    """Whether a script may change rows: not all of its statements define objects."""
    return any(not defines(one) or (one.begins("create") and evaluates(one)) for one in statements)


def defines(statement: Statement) -> bool:
    """Whether a statement defines objects; it may also write the rows of a table that it makes."""
    return any(statement.begins(word) for word in _DEFINES)


def encode(touched: Iterable[Touched], queue: str) -> str:
    """The counts of the root as they are sent, of the tables of a queue."""
    return json.dumps(
        {
            one.place.table: [one.rows.written, one.rows.removed, int(one.rows.emptied)]
            for one in touched
            if one.place.kind == "table" and one.place.queue == queue and one.rows.any
        }
    )


#: The counts of a script that writes no rows.
NONE = "{}"


def decode(text: str | None) -> Mapping[str, Rows] | None:
    """The counts of the root; None when it has sent none, as older versions and other programs."""
    try:
        found = json.loads(text or "null")
        if not isinstance(found, dict):
            return None
        return {
            str(table): Rows(int(values[0]), int(values[1]), Emptied(values[2]))
            for table, values in found.items()
        }
    except (ValueError, TypeError, LookupError):
        return None


def captured_elsewhere(touched: Iterable[Touched], queue: str) -> list[Problem]:
    """Tables whose rows another queue of this database loses: its captures fire in no script."""
    return [
        Problem(
            one.place.dest,
            f"it changes rows of table {one.place.dest}, which queue {one.place.queue} captures"
            " here, too",
            False,
        )
        for one in touched
        if one.place.kind == "capture" and one.place.queue != queue and one.rows.any
    ]


def problems(
    touched: Sequence[Touched],
    root: Mapping[str, Rows] | None,
    registered: Mapping[str, Registered],
    queue: str,
) -> list[Problem]:
    """Why the rows of a script do not have the effect here that they have on the root.

    touched -- what the script has written on this node.
    root -- what it has written on the root; None: unknown.
    registered -- the local tables of the queue, by name.
    """
    found: list[Problem] = []
    mine = [t for t in touched if t.place.kind == "table" and t.place.queue == queue]
    dests = {one.place.dest for one in mine}
    for one in mine:
        known = registered.get(one.place.table)
        if known is not None:
            sent = None if root is None else root.get(one.place.table, Rows())
            problem = _problem(one, sent, known, _fillers(one.place, touched))
            found += [] if problem is None else [problem]
    for one in touched:
        other = one.place
        foreign = other.kind == "table" and not other.root and other.queue != queue
        if foreign and one.rows.any and other.dest not in dests:
            message = f"it changes rows of table {other.dest}, which queue {other.queue} fills"
            found.append(Problem(other.dest, message, False))
    return found + captured_elsewhere(touched, queue)


def _problem(
    one: Touched, sent: Rows | None, known: Registered, fillers: Sequence[str]
) -> Problem | None:
    """The problem of one table."""
    name, here = one.place.table, one.rows
    # Rows of a table that is not in sync come by its copy, after the script.
    root = sent if sent is not None and known.in_sync else Rows()
    if not (here.any or root.any):
        return None
    rules = known.rules
    if rules is not None and not rules.stored and not here.any:
        return None
    why = _kept(known)
    if why and (rules is None or _not_only_emptied(rules, here, root)):
        return Problem(
            name,
            f"it changes rows of table {name}, which this node keeps with {why}",
            known.recopy and not fillers,
        )
    if fillers:
        return Problem(
            name,
            f"it changes rows of table {name}, which here"
            f" {', '.join(fillers)} {'fills' if len(fillers) == 1 else 'fill'}, too",
            False,
        )
    if known.in_sync and sent is not None and sent != here:
        return Problem(
            name,
            f"it does not change the same rows of table {name}: {sent} on the root, {here} here",
            known.recopy,
        )
    return None


def _not_only_emptied(rules: TableRules, here: Rows, root: Rows) -> bool:
    """Whether rows were written, or emptying the table is not the same here as on the root."""
    if here.written or here.removed or root.written or root.removed:
        return True
    return not rules.stored or rules.ignore_truncate or rules.events is not None


def _kept(known: Registered) -> str:
    """How a node keeps a table whose rows are not those of the root; '' for a plain table."""
    rules = known.rules
    if rules is not None and rules.by_statement:
        return ""
    if known.handler or rules is None:
        return f"handler {known.handler or 'unknown'}"
    return "a row filter" if rules.where else "some of its columns"


def _fillers(place: Place, touched: Iterable[Touched]) -> list[str]:
    """What else fills a table here: other queues, or other tables of the same queue."""
    found = []
    for other in (one.place for one in touched):
        if other.kind != "table" or other.root or other.dest != place.dest or other == place:
            continue
        if other.queue == place.queue:
            found.append(f"table {other.table}")
        elif other.combined != place.queue and place.combined != other.queue:
            found.append(f"queue {other.queue}")
    return sorted(set(found))
