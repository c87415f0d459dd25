"""Options of the sinks ``format("pgq")`` and ``format("pgq_table")``.

``stream/option_values.py`` has the rules for passwords and unknown names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from psycopg import conninfo

from londiste.db.names import TableName
from londiste.engine.spark.stream.option_values import Reader, read_dsn, read_names
from londiste.errors import BadOption


class Payload(StrEnum):
    """Representation of a row: fields of an event, or columns that are encoded as text."""

    RAW = "raw"
    JSON = "json"
    URLENCODED = "urlencoded"
    TYPED = "typed"


class Mode(StrEnum):
    """Write mode for a row whose key already exists."""

    MERGE = "merge"
    APPEND = "append"


@dataclass(frozen=True)
class Common:
    """Options of both sinks.

    dsn -- connection string without a password.
    name -- name of the sink; empty: the query's, from its checkpoint; a job then has no record.
    skip_other -- accept a repeated epoch with a different number of rows as written.
    """

    dsn: str
    password: str = field(default="", repr=False)
    name: str = ""
    skip_other: bool = False

    @property
    def conninfo(self) -> str:
        """The connection string to connect with; never to be shown."""
        return conninfo.make_conninfo(
            self.dsn, **({"password": self.password} if self.password else {})
        )


@dataclass(frozen=True)
class QueueOptions(Common):
    """Options of ``format("pgq")``.

    type -- type of events whose rows have no column ev_type.
    key -- column with the key of the event; events whose key is already in the queue are skipped.
    order -- column by which the events of an epoch are ordered.
    """

    queue: str = ""
    payload: Payload = Payload.RAW
    type: str | None = None
    key: str = ""
    order: str = ""


@dataclass(frozen=True)
class TableOptions(Common):
    """Options of ``format("pgq_table")``.

    tables -- target by value of ``_table``; an empty name stands for all rows.
    where -- condition as SQL; rows that do not match are deletes.
    fill -- write NULL into columns that only other rows of the epoch have.
    replica -- do not fire triggers and foreign keys of the target.
    """

    tables: tuple[tuple[str, TableName], ...] = ()
    mode: Mode = Mode.MERGE
    payload: Payload = Payload.TYPED
    where: str = ""
    fill: bool = False
    replica: bool = False

    @property
    def targets(self) -> list[TableName]:
        """The tables that are written, each once."""
        return list(dict.fromkeys(target for _, target in self.tables))

    @property
    def by_name(self) -> dict[str, int]:
        """Index in ``targets`` by value of ``_table``."""
        places = {target: place for place, target in enumerate(self.targets)}
        return {name: places[target] for name, target in self.tables}


_COMMON = ("service", "dsn", "password", "sinkId", "writeId", "onOtherRows")
#: Names in Spark; the pages of docs/howto describe them.
QUEUE_NAMES = (*_COMMON, "queue", "payload", "eventType", "key", "orderBy")
TABLE_NAMES = (
    *_COMMON,
    "table",
    "tables",
    "mode",
    "payload",
    "where",
    "missingColumns",
    "sessionReplicationRole",
)
_QUEUE_HOWTO = "docs/howto/spark-enqueue.md for the list of options"
_TABLE_HOWTO = "docs/howto/spark-tables.md for the list of options"


def parse_queue(given: Mapping[str, str], *, stream: bool) -> QueueOptions:
    """Parses the options of a queue sink.  Raises BadOption, with a hint for the correct form."""
    options = _options(given, QUEUE_NAMES, _QUEUE_HOWTO)
    reader = Reader(options)
    payload = Payload(
        reader.choice("payload", [Payload.RAW, Payload.JSON, Payload.URLENCODED], Payload.RAW)
    )
    return QueueOptions(
        dsn=read_dsn(options),
        password=options.get("password", ""),
        name=_name(options, stream),
        skip_other=reader.choice("onOtherRows", ["fail", "skip"], "fail") == "skip",
        queue=reader.required("queue", "name the queue to write into: .option('queue', 'shop')"),
        payload=payload,
        type=options.get("eventType"),
        key=options.get("key", "").strip(),
        order=options.get("orderBy", "").strip(),
    )


def parse_tables(given: Mapping[str, str], *, stream: bool) -> TableOptions:
    """Parses the options of a table sink.  Raises BadOption."""
    options = _options(given, TABLE_NAMES, _TABLE_HOWTO)
    reader = Reader(options)
    found = TableOptions(
        dsn=read_dsn(options),
        password=options.get("password", ""),
        name=_name(options, stream),
        skip_other=reader.choice("onOtherRows", ["fail", "skip"], "fail") == "skip",
        tables=_tables(options),
        mode=Mode(reader.choice("mode", [*Mode], Mode.MERGE)),
        payload=Payload(reader.choice("payload", [Payload.TYPED, Payload.JSON], Payload.TYPED)),
        where=options.get("where", "").strip(),
        fill=reader.choice("missingColumns", ["fail", "null"], "fail") == "null",
        replica=reader.choice("sessionReplicationRole", ["origin", "replica"], "origin")
        == "replica",
    )
    if found.payload is Payload.TYPED and "table" not in options:
        raise BadOption(
            "payload=typed: requires option table",
            hint="select one table with .option('table', 'public.orders'), or use payload=json"
            " for several tables",
        )
    if found.where and (found.mode is Mode.APPEND or "tables" in options):
        raise BadOption(
            f"where: not supported with {'mode=append' if found.mode is Mode.APPEND else 'tables'}",
            detail="rows that do not match are deleted from the table",
            hint="filter the DataFrame with .where(…)"
            if found.mode is Mode.APPEND
            else "use a query for each table, with .option('table', …)",
        )
    return found


def _options(given: Mapping[str, str], names: tuple[str, ...], howto: str) -> dict[str, str]:
    # Spark gives a sink its own option, too.
    ours = {name: value for name, value in given.items() if name.lower() != "checkpointlocation"}
    return read_names(ours, {name.lower(): name for name in names}, howto)


def _name(options: Mapping[str, str], stream: bool) -> str:
    wrong, right = ("writeId", "sinkId") if stream else ("sinkId", "writeId")
    if wrong in options:
        raise BadOption(
            f"{wrong}: not supported by {'df.writeStream' if stream else 'df.write'}",
            hint=f"use {right}",
        )
    if not stream and "onOtherRows" in options and right not in options:
        raise BadOption("onOtherRows: requires writeId", hint="set writeId, or omit onOtherRows")
    name = options.get(right)
    if name is None:
        return ""
    if not name.strip() or len(name.encode()) > 1000:
        raise BadOption(
            f"{right}: {name[:40]!r} is blank or longer than 1000 bytes",
            hint="use a name of 1 to 1000 bytes",
        )
    return name.strip()


def _tables(options: Mapping[str, str]) -> tuple[tuple[str, TableName], ...]:
    if ("table" in options) == ("tables" in options):
        raise BadOption(
            "table, tables: exactly one of the two is required",
            hint="use .option('table', 'public.orders') for all rows, or .option('tables',"
            " 'public.orders, public.items=shop.items') for rows with a column _table",
        )
    if "table" in options:
        return (("", TableName.parse(options["table"].strip())),)
    found: dict[str, TableName] = {}
    for one in filter(None, (part.strip() for part in options["tables"].split(","))):
        source, equals, target = one.partition("=")
        name = str(TableName.parse(source.strip()))
        if name in found:
            raise BadOption(f"tables: {name} is listed twice", hint="list each table once")
        found[name] = TableName.parse(target.strip()) if equals else TableName.parse(name)
    if not found:
        raise BadOption(
            "tables: empty list", hint="use .option('tables', 'public.orders, public.items')"
        )
    return tuple(found.items())
