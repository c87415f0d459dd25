"""Partitions by time: their names, creation and retention.

All times are UTC, as in all sessions of Londiste.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import Any

import psycopg

from londiste.changes.types import Op, RowChange
from londiste.db import call, owner
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import MAX_IDENTIFIER_BYTES, TableName, argument, quote
from londiste.db.queries import query, translated
from londiste.errors import (
    ApplyError,
    BadOption,
    EventError,
    LondisteError,
    UsageError,
    from_database,
)
from londiste.install.owners import is_reserved
from londiste.pgq.types import Event

#: The end of the last periods that a datetime has.
END_OF_TIMES = "10000-01-01 00:00:00+00"
#: The function that creates partitions.
CREATE_PARTITION = "londiste.create_partition"
#: Times of PostgreSQL that are no datetime; the first and last day may be none in UTC.
_OUTSIDE = re.compile(r" BC$|^\d{5,}-|^(0001-01-01|9999-12-31)")
_ARGUMENTS = "text,text,text,text,timestamp with time zone,text"
#: Stands for every table where none is known.
_ANY = TableName("public", "t")


class Period(StrEnum):
    """Period of one partition."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"
    HOUR = "hour"

    def next(self, start: datetime) -> datetime | None:
        """The start of the period behind the one that starts there; None behind the year 9999."""
        try:
            match self:
                case Period.HOUR:
                    return start + timedelta(hours=1)
                case Period.DAY:
                    return start + timedelta(days=1)
                case Period.MONTH:
                    return (start + timedelta(days=32)).replace(day=1)
                case Period.YEAR:
                    return start.replace(year=start.year + 1)
        except (OverflowError, ValueError):
            return None


class Made(Enum):
    """State of a requested partition."""

    TOO_OLD = "too old"
    THERE = "there"
    NOW = "now"


_SUFFIX = {
    Period.YEAR: "_%(year)s",
    Period.MONTH: "_%(year)s_%(month)s",
    Period.DAY: "_%(year)s_%(month)s_%(day)s",
    Period.HOUR: "_%(year)s_%(month)s_%(day)s_%(hour)s",
}
#: What a name of each must show.
_SHOWN = {
    Period.YEAR: ("year",),
    Period.MONTH: ("year", "month"),
    Period.DAY: ("year", "month", "day"),
    Period.HOUR: ("year", "month", "day", "hour"),
}


@dataclass(frozen=True)
class Partitioning:
    """The options about partitions.

    name -- template of names, '' for the default; function or template creates one.
    retention -- interval, as text; '' keeps all.
    """

    period: Period
    name: str
    function: str
    template: str
    before: str
    after: str
    retention: str
    ignore_old: bool

    def of(self, parent: TableName, time: datetime) -> TableName:
        """The partition of a time."""
        time = utc(time)
        words = {
            "parent": str(parent),
            "year": f"{time:%Y}".zfill(4),
            "month": f"{time:%m}",
            "day": f"{time:%d}",
            "hour": f"{time:%H}",
        }
        text = self.name or "%(parent)s" + _SUFFIX[self.period]
        schema, dot, name = _filled("part_name", text, words).partition(".")
        part = TableName(schema, name) if dot else TableName(parent.schema, schema)
        if is_reserved(part.schema):
            raise BadOption(
                f"handler dispatch: partition {part} would be in schema {part.schema}",
                detail="schemas of PostgreSQL and of Londiste take no rows",
                hint="name another schema: --handler-arg"
                f" 'part_name=SCHEMA.NAME{_SUFFIX[self.period]}'",
            )
        if len(part.name.encode()) > MAX_IDENTIFIER_BYTES:
            # The server would cut it, and two periods would be one.
            raise BadOption(
                f"handler dispatch: name of partition {part.name} is too long",
                detail=f"the limit is {MAX_IDENTIFIER_BYTES} bytes",
                hint=f"shorten it: --handler-arg 'part_name=SCHEMA.SHORT{_SUFFIX[self.period]}'",
            )
        return part

    def of_change(
        self, event: Event, change: RowChange, parent: TableName, time: datetime
    ) -> TableName:
        """The partition of a change.  Raises EventError: its table has a name that does not fit."""
        try:
            return self.of(parent, time)
        except BadOption as error:
            what = error.message.removeprefix("handler dispatch: ")
            raise EventError(
                f"event {event.id}: table {change.table}: {what}",
                detail=error.detail,
                hint=error.hint,
                event_id=event.id,
                finding=ApplyError(
                    "value", change.row, str(change.table), op=change.op.name.lower()
                ),
            ) from error

    def make(
        self,
        conn: Connection,
        parent: TableName,
        part: TableName,
        time: datetime,
        key: Sequence[str],
        field: str,
    ) -> Made:
        """Creates a missing partition, unless it is too old to be written into."""
        if self.ignore_old and self._obsolete(conn, part):
            return Made.TOO_OLD
        found = _run(conn, query("relation_exists"), {"relation": part.quoted})
        if found and found[0][0]:
            return Made.THERE
        words = self._words(parent, part, time, key, field)
        if self.before or self.template or self.after:
            _require_harmless(parent.schema, parent.name, part.schema, part.name, *key)
        if self.before:
            _run(conn, _filled("pre_part", self.before, words))
        if self.template:
            _run(conn, _filled("part_template", self.template, words))
        else:
            call.value(
                conn,
                self.function,
                str(parent),
                str(part),
                ",".join(key),
                field,
                utc(time),
                self.period.value,
            )
        if self.after:
            _run(conn, _filled("post_part", self.after, words))
        return Made.NOW

    def drop_old(self, conn: Connection, parent: TableName) -> None:
        """Drops the partitions older than the retention period, if there is one.

        It runs after the rows are written, because a partition created for an old event may be
        among them.
        """
        if self.retention:
            call.rows(
                conn,
                "londiste.drop_obsolete_partitions",
                str(parent),
                self.retention,
                self.period.value,
            )

    def truncate(self, conn: Connection, parent: TableName) -> None:
        """Truncates the table and all its partitions."""
        with translated(conn):
            owner.truncate(conn, parent, tree=True)

    def of_copy(self) -> Partitioning:
        """For rows that exist: without those that retention would drop at once."""
        return replace(self, ignore_old=True) if self.retention else self

    @property
    def makes_own(self) -> bool:
        """Whether partitions are created by SQL of the user, which may need no parent."""
        return bool(self.template) or self.function != CREATE_PARTITION

    def check(self, conn: Connection, parent: TableName = _ANY) -> None:
        """Checks the partition options on this node.  Raises BadOption."""
        now = datetime.now(UTC)
        part = self.of(parent, now)
        self._require_periods(parent)
        words = self._words(parent, part, now, ["id"], "at")
        for what, text in (
            ("pre_part", self.before),
            ("part_template", self.template),
            ("post_part", self.after),
        ):
            _filled(what, text, words)
        if not self.template:
            schema, _, name = self.function.partition(".")
            wanted = f"{TableName(schema, name).quoted}({_ARGUMENTS})"
            found = _run(conn, query("function_exists"), {"function": wanted}) if name else []
            if not found or not found[0][0]:
                raise BadOption(
                    f"function {self.function}({_ARGUMENTS}) does not exist in"
                    f" {describe_dsn(conn.info.dsn)}",
                    hint="correct part_func, or omit it for londiste.create_partition",
                )
        if self.retention:
            if part != replace(self, name="").of(parent, now):
                raise BadOption(
                    "handler dispatch: retention_period is not available with"
                    f" part_name={self.name}",
                    detail="the name shows the age of a partition, and must be"
                    f" %(parent)s{_SUFFIX[self.period]}",
                    hint="remove one of them",
                )
            require_retention(conn, self.retention)

    def _require_periods(self, parent: TableName) -> None:
        """Raises BadOption if two periods would have one partition."""
        start = datetime(2001, 2, 3, 4, tzinfo=UTC)
        first = self.of(parent, start)
        others = {
            "year": start.replace(year=2009),
            "month": start.replace(month=9),
            "day": start.replace(day=9),
            "hour": start.replace(hour=9),
        }
        for word in _SHOWN[self.period]:
            if self.of(parent, others[word]) == first:
                raise BadOption(
                    f"handler dispatch: part_name={self.name} does not show the {word}",
                    detail=f"rows of several periods of one {self.period.value} would be in one"
                    " partition",
                    hint=f"--handler-arg 'part_name=%(parent)s{_SUFFIX[self.period]}'",
                )

    def _words(
        self,
        parent: TableName,
        part: TableName,
        time: datetime,
        key: Sequence[str],
        field: str,
    ) -> dict[str, str]:
        """The values for the templates."""
        start, end = self.bounds(time)
        return {
            "dest": parent.quoted,
            "parent": parent.quoted,
            "part": part.quoted,
            "pkeys": ",".join(map(quote, key)),
            # It is no name of its own, but a part of one: without quotes.
            "schema_table": re.sub(r"\W", "_", str(part).replace(".", "__")),
            "part_field": field,
            "part_time": f"{utc(time):%Y-%m-%d %H:%M:%S+00}",
            "period": self.period.value,
            "part_from": start,
            "part_to": end,
        }

    def _obsolete(self, conn: Connection, part: TableName) -> bool:
        return bool(
            call.value(
                conn,
                "londiste.is_obsolete_partition",
                str(part),
                self.retention,
                self.period.value,
            )
        )

    def bounds(self, time: datetime) -> tuple[str, str]:
        """Start and end of the period of a time, as texts."""
        start = self._start(time)
        end = self.period.next(start)
        return _text(start), _text(end) if end else END_OF_TIMES

    def _start(self, time: datetime) -> datetime:
        start = utc(time).replace(minute=0, second=0, microsecond=0)
        if self.period is Period.HOUR:
            return start
        start = start.replace(hour=0)
        if self.period is Period.DAY:
            return start
        start = start.replace(day=1)
        return start if self.period is Period.MONTH else start.replace(month=1)


def without_partition(column: str, text: str) -> tuple[str, str]:
    """Pure: why a value has no partition, and what is wrong with it, in words."""
    if text in ("infinity", "-infinity"):
        return f"column {column} is {text}", "has none there"
    if _OUTSIDE.search(text):
        why = f"the time in column {column} is outside of the years 1 to 9999"
        return why, "has none there"
    return f"no time in column {column}", "is missing, NULL or no date"


#: Why a DELETE contains its key and no time, as ``ApplyError.keyed`` has it.
KEY_ALONE = {
    "": "",
    "statement": "; the table is captured by statement, so DELETE events contain the key alone",
    "state": "; the key of the row was changed, or a trigger or foreign key deleted it, so the"
    " event contains the key alone",
}


def key_alone(change: RowChange, column: str) -> str:
    """Pure: why a DELETE has no such column, for ``KEY_ALONE``; '' for another change."""
    if change.op is not Op.DELETE or column in change.image:
        return ""
    return "state" if change.state else "statement"


def without_time(change: RowChange, keyed: str) -> str:
    """Pure: the hint about a row without the time that selects its partition.

    keyed -- why it has its key alone; '': it has the column.
    """
    skip = f"londiste events skip {change.address}"
    if not keyed:
        return (
            f"it is in no partition: {skip}"
            if change.op is Op.DELETE
            else f"give such rows a time on the root; or skip this one: {skip}"
        )
    hint = (
        "delete the row with its key in the partitions here, in a session with set"
        f" session_replication_role = replica, then: {skip}"
    )
    if keyed == "statement":
        hint += (
            f"; for later events, on the root: londiste change-form {argument(change.table)} row"
        )
    return f"{hint}; or skip deletes: event_types=I,U"


def _text(time: datetime) -> str:
    """A time in UTC for SQL; the year has four digits."""
    return f"{time.replace(tzinfo=None).isoformat(' ', 'seconds')}+00"


def require_retention(conn: Connection, interval: str) -> None:
    """Raises BadOption unless the text is an interval by which something gets old."""
    try:
        ((positive,),) = _run(conn, query("positive_interval"), [interval])
        wrong = "" if positive else "it would drop what was just written"
    except LondisteError as error:
        wrong = error.message
    if wrong:
        raise BadOption(
            f"retention_period={interval}: {wrong}",
            hint="write an interval: --handler-arg 'retention_period=3 months'",
        )


def utc(time: datetime) -> datetime:
    """The time in UTC, which one without zone has.  Raises OverflowError."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _require_harmless(*names: str) -> None:
    """Raises BadOption for a name that could end a string or a comment of a template.

    Names of keys, and those of tables where all tables are dispatched, come from events.
    """
    for name in names:
        if not re.fullmatch(r"[\w .-]+", name):
            raise BadOption(
                f"handler dispatch: the name {name!r} is not filled into SQL of a template",
                detail="only letters, digits, _, -, . and blanks are",
                hint="use part_func in place of part_template, pre_part and post_part",
            )


def _filled(what: str, text: str, words: dict[str, str]) -> str:
    try:
        return text % words
    except (KeyError, ValueError, TypeError) as error:
        raise BadOption(
            f"handler dispatch: {what}={text} cannot be filled in: {error}",
            detail=f"placeholders: {', '.join(f'%({word})s' for word in words)}; write %% for a"
            " percent sign",
            hint=f"correct {what}",
        ) from None


def _run(
    conn: Connection, statement: str | bytes, parameters: Any = None
) -> list[tuple[object, ...]]:
    """Runs a statement of the user's, or a query."""
    text = statement.encode() if isinstance(statement, str) else statement
    try:
        cursor = conn.execute(text, parameters)
        return list(cursor.fetchall()) if cursor.description else []
    except psycopg.Error as error:
        known = from_database(error, where=describe_dsn(conn.info.dsn))
        if known.retry or parameters is not None:
            raise known from error
        raise UsageError(
            f"handler dispatch: {known.message}",
            detail=f"in {str(statement)[:200]}",
            hint="correct part_template, pre_part or post_part: londiste change-handler",
        ) from error
