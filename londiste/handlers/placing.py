"""Copied rows of a table in partitions: from the table itself into the partitions of their times.

A copy writes rows into the table.  At its end the partitions are created, and then, in the
transaction that ends it, the rows are moved, partition by partition.  A process that is killed
leaves the rows in the table or in the partitions, and not in both.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import psycopg

from londiste.db import catalog, owner
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, quote
from londiste.db.queries import first, translated
from londiste.db.relation import hold, shapes
from londiste.errors import AccessDenied, LondisteError, StateError
from londiste.handlers.partitions import END_OF_TIMES, Made, Partitioning

log = logging.getLogger(__name__)

#: Types that an index on the column orders by time.
_TIMES = re.compile(r"timestamp(\(\d\))? with(out)? time zone|date")
#: The bounds of the times that have a partition.
_BOUNDS = ("0001-01-01 00:00:00+00", END_OF_TIMES)
#: From so many partitions on, an index finds the rows of each.
_MANY = 4
#: SQLSTATE of a partition whose bounds overlap those of another one.
_OVERLAP = "42P17"
#: Those of texts that are no time: of another form, or of a day that no calendar has.
_NO_TIME = ("22007", "22008")


@dataclass(frozen=True)
class CopiedRows:
    """Rows that a copy has written into a table of this node.

    key -- of the source's table, by its names here.
    time -- when they were read.
    by -- the transactions that wrote them, where there are rows of others; None: all rows.
    """

    table: TableName
    key: tuple[str, ...]
    time: datetime
    by: tuple[int, ...] | None = None


@dataclass
class Placing:
    """Moves copied rows; ``make_partitions`` first, then ``move``.

    column -- it has the time of a row; '' where all rows have that of the copy.
    """

    rows: CopiedRows
    parts: Partitioning
    column: str
    _times: dict[datetime, Made] = field(default_factory=dict)

    def make_partitions(self, conn: Connection) -> None:
        """Creates what is missing, each partition in a transaction of its own."""
        rows = self.rows
        for time in self._starts(conn) if self.column else [rows.time]:
            part = self.parts.of(rows.table, time)
            with conn.transaction():
                self._times[time] = self.parts.make(
                    conn, rows.table, part, time, rows.key, self.column
                )
        made = list(self._times.values()).count(Made.NOW)
        if made:
            log.info("table %s: created %d partitions for copied rows", rows.table, made)

    def make_ahead(
        self, conn: Connection, source: Connection, there: catalog.TableInfo, column: str
    ) -> None:
        """Creates missing partitions of a partitioned table, which takes no row without one.

        source, there -- the table that is copied; column -- its column with the time.
        """
        theirs = replace(self, rows=replace(self.rows, table=there.name, by=None), column=column)
        statement = theirs._periods(catalog.columns(source, there.name), tree=there.tree)
        with _times_of(there.name, column), translated(source):
            cursor = psycopg.RawCursor(source).execute(statement, [self.parts.period.value])
            (texts,) = cursor.fetchone() or ([],)
        # The retention period is for whole partitions, at the end.
        parts, table = replace(self.parts, ignore_old=False), self.rows.table
        for time in _moments(texts):
            try:
                with conn.transaction():
                    part = parts.of(table, time)
                    parts.make(conn, table, part, time, self.rows.key, self.column)
            except LondisteError as error:
                if error.sqlstate != _OVERLAP:
                    raise
                log.info("table %s: another partition has rows of %s", table, part)

    def move(self, conn: Connection) -> int:
        """Moves the rows, in the open transaction, and returns their number; drops expired
        partitions.

        Rows without a time, or with one that no partition has, stay in the table; those that are
        older than the retention period are deleted.

        Raises LockTimeout at its begin, AccessDenied for a partition of another owner.
        """
        table, parts = self.rows.table, self.parts
        if self.rows.by is None:
            with translated(conn):
                conn.execute(f"lock table only {table.quoted} in access exclusive mode".encode())
        columns = [c for c in catalog.columns(conn, table) if not c.generated]
        names = ", ".join(quote(column.name) for column in columns)
        find = self._condition(columns)
        indexed = self._index(conn, columns)
        moved = 0
        with translated(conn):
            for time, made in self._times.items():
                if made is Made.TOO_OLD:
                    continue
                part = parts.of(table, time)
                if made is Made.THERE:
                    _require_rights(conn, table, part)
                count = owner.run(
                    conn,
                    part,
                    f"insert into {part.quoted} ({names}) overriding system value"  # noqa: S608
                    f" select {names} from only {table.quoted}"
                    f" where {find(*parts.bounds(time)) if self.column else find()}",
                )
                moved += count
                log.debug("table %s: %d copied rows are in partition %s", table, count, part)
            if indexed:
                conn.execute(f"drop index {indexed}".encode())
            left = self._left(conn, find)
            if left or self.rows.by is not None:
                gone = f"delete from only {table.quoted} where {find(*_BOUNDS)}"  # noqa: S608
                owner.run(conn, table, gone)
            else:
                owner.truncate(conn, table, tree=False)
        log.info("table %s: %d copied rows are in %d partitions", table, moved, len(self._times))
        if left:
            log.warning(
                "table %s: %d copied rows stay in the table itself: column %s has no time of the"
                " years 1 to 9999",
                table,
                left,
                self.column,
            )
        if Made.NOW in self._times.values():
            parts.drop_old(conn, table)
        return moved

    def _starts(self, conn: Connection) -> list[datetime]:
        """The start of each period that has rows."""
        columns = catalog.columns(conn, self.rows.table)
        with _times_of(self.rows.table, self.column):
            texts = self._ask(conn, self._periods(columns, tree=False), self.parts.period.value)
        return _moments(texts)

    def _periods(self, columns: Sequence[catalog.Column], *, tree: bool) -> str:
        """The query for the starts of the periods, with ``$1`` for their length.

        tree -- the table is partitioned: the rows of its partitions.
        """
        time = f"({self._time(columns)})::timestamptz"
        return (
            f"select array(select distinct date_trunc($1::text, {time})::text"  # noqa: S608
            f" from {'' if tree else 'only '}{self.rows.table.quoted}"
            f" where {self._condition(columns)(*_BOUNDS)} order by 1)"
        )

    def _left(self, conn: Connection, find: Callable[..., str]) -> int:
        """The number of rows without a partition."""
        if not self.column:
            return 0
        mine = find()
        (count,) = self._ask(
            conn,
            "select array[count(*)::text] from only"  # noqa: S608
            f" {self.rows.table.quoted} where $1::text is not null and {mine}"
            f" and ({find(*_BOUNDS)}) is not true",
            "",
        )
        return int(count or 0)

    def _ask(self, conn: Connection, statement: str, data: str) -> list[str | None]:
        with translated(conn), conn.transaction():
            known = shapes(conn, [self.rows.table])[self.rows.table]
            if known.exposed:
                hold(conn, [known])
            return owner.ask(conn, known, statement, data)

    def _condition(self, columns: Sequence[catalog.Column]) -> Callable[..., str]:
        """Makes the condition for the copied rows between two times, or for all of them."""
        mine = "true"
        if self.rows.by is not None:
            xids = ", ".join(f"'{int(xid)}'::xid" for xid in self.rows.by)
            mine = f"xmin in ({xids})" if xids else "false"
        time = self._time(columns)

        def find(start: str = "", end: str = "") -> str:
            if not (self.column and start):
                return mine
            return f"{mine} and {time} >= '{start}'::timestamptz and {time} < '{end}'::timestamptz"

        return find

    def _time(self, columns: Sequence[catalog.Column]) -> str:
        """The time of a row, in SQL."""
        name = quote(self.column)
        return name if self._is_time(columns) else f"nullif(format('%s', {name}), '')::timestamptz"

    def _is_time(self, columns: Sequence[catalog.Column]) -> bool:
        types = [column.plain or column.type for column in columns if column.name == self.column]
        return any(_TIMES.fullmatch(text) for text in types)

    def _index(self, conn: Connection, columns: Sequence[catalog.Column]) -> str:
        """Creates an index by time where the table would be read many times; its name, or ''."""
        if self.rows.by is not None or len(self._times) < _MANY or not self._is_time(columns):
            return ""
        table = self.rows.table
        name = f"londiste_placing_{shapes(conn, [table])[table].oid}"
        with translated(conn):
            conn.execute(
                f"create index {quote(name)} on only {table.quoted} ({quote(self.column)})".encode()
            )
        return TableName(table.schema, name).quoted


def _require_rights(conn: Connection, table: TableName, part: TableName) -> None:
    """Raises AccessDenied if the owner of a partition may not read the rows that it gets."""
    lacking = first(conn, "part_may_read", relation=table.quoted, part=part.quoted)
    if lacking is None:
        return
    role, other, schema = lacking
    raise AccessDenied(
        f"partition {part}: its owner {role} may not read table {table} of {other}",
        detail="copied rows are moved into a partition with the rights of its owner",
        hint=f"as an administrator of {describe_dsn(conn.info.dsn)}: grant usage on schema"
        f" {quote(schema)} to {role}; grant select on {table.quoted} to {role}",
    )


@contextlib.contextmanager
def _times_of(table: TableName, column: str) -> Iterator[None]:
    """Names the column whose text is no time: the server tells the text alone."""
    try:
        yield
    except LondisteError as error:
        if error.sqlstate not in _NO_TIME:
            raise
        raise StateError(
            f"a value in column {column} of table {table} is no time",
            detail="it decides the partition of a row; NULL and empty texts are allowed",
            hint="correct such values at the source, then the copy restarts automatically; or"
            " londiste remove-table, then londiste add-table with another part_field",
        ) from error


def _moments(texts: Sequence[str | None]) -> list[datetime]:
    return [datetime.fromisoformat(text).astimezone(UTC) for text in texts if text]
