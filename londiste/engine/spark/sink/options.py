"""Options of the sinks ``format("pgq")`` and ``format("pgq_table")``.

What goes for passwords and misspelled names is said in ``stream/options.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from psycopg import conninfo

from londiste.db.names import TableName
from londiste.engine.spark.stream.options import Reader, read_dsn, read_names
from londiste.errors import BadOption


class Payload(StrEnum):
    """How a row comes: fields of an event, or columns that become a text."""

    RAW = "raw"
    JSON = "json"
    URLENCODED = "urlencoded"
    TYPED = "typed"


class Mode(StrEnum):
    """What becomes of a row whose key is there already."""

    MERGE = "merge"
    APPEND = "append"


@dataclass(frozen=True)
class Common:
    """What both sinks have.

    dsn -- without a password.
    name -- of the sink; empty: that of the query, by its checkpoint, or of no one for a job.
    skip_other -- an epoch that comes again with another number of rows is in, and no error.
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
    """Of ``format("pgq")``.

    type -- of events whose row has no column ev_type.
    key -- column; an event whose key is in the queue already is left out.
    order -- column; events of an epoch are inserted in its order.
    """

    queue: str = ""
    payload: Payload = Payload.RAW
    type: str | None = None
    key: str = ""
    order: str = ""


@dataclass(frozen=True)
class TableOptions(Common):
    """Of ``format("pgq_table")``.

    tables -- by the name that rows have in ``_table``; that of the only one may be empty: all.
    fill -- rows that lack columns which others of the epoch have get NULL there.
    replica -- triggers and foreign keys of the target stay silent.
    """

    tables: tuple[tuple[str, TableName], ...] = ()
    mode: Mode = Mode.MERGE
    payload: Payload = Payload.TYPED
    fill: bool = False
    replica: bool = False

    @property
    def targets(self) -> list[TableName]:
        """The tables that are written, each once."""
        return list(dict.fromkeys(target for _, target in self.tables))

    @property
    def by_name(self) -> dict[str, int]:
        """The place in ``targets`` of a name in ``_table``."""
        places = {target: place for place, target in enumerate(self.targets)}
        return {name: places[target] for name, target in self.tables}


_COMMON = ("service", "dsn", "password", "sinkId", "writeId", "onOtherRows")
#: As Spark's users write them; what they are for is in the pages of docs/howto.
QUEUE_NAMES = (*_COMMON, "queue", "payload", "eventType", "key", "orderBy")
TABLE_NAMES = (
    *_COMMON,
    "table",
    "tables",
    "mode",
    "payload",
    "missingColumns",
    "sessionReplicationRole",
)
_QUEUE_HOWTO = "docs/howto/spark-enqueue.md lists the options"
_TABLE_HOWTO = "docs/howto/spark-tables.md lists the options"


def parse_queue(given: Mapping[str, str], *, stream: bool) -> QueueOptions:
    """Reads the options of a queue's sink.  Raises BadOption, with what to write instead."""
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
        queue=reader.required("queue", "the queue to write into: .option('queue', 'shop')"),
        payload=payload,
        type=options.get("eventType"),
        key=options.get("key", "").strip(),
        order=options.get("orderBy", "").strip(),
    )


def parse_tables(given: Mapping[str, str], *, stream: bool) -> TableOptions:
    """Reads the options of a sink of tables.  Raises BadOption."""
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
        fill=reader.choice("missingColumns", ["fail", "null"], "fail") == "null",
        replica=reader.choice("sessionReplicationRole", ["origin", "replica"], "origin")
        == "replica",
    )
    if found.payload is Payload.TYPED and "table" not in options:
        raise BadOption(
            "payload=typed is for one table",
            hint="name it: .option('table', 'public.orders'); or payload=json for several",
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
            f"{wrong} is for {'df.write' if stream else 'df.writeStream'}",
            hint=f"name it with {right}",
        )
    if not stream and "onOtherRows" in options and right not in options:
        raise BadOption("onOtherRows needs writeId", hint="give both, or none")
    name = options.get(right)
    if name is None:
        return ""
    if not name.strip() or len(name.encode()) > 1000:
        raise BadOption(f"{right} has {len(name.encode())} bytes", hint="give it 1 to 1000")
    return name.strip()


def _tables(options: Mapping[str, str]) -> tuple[tuple[str, TableName], ...]:
    if ("table" in options) == ("tables" in options):
        raise BadOption(
            "give table or tables, one of them",
            hint=".option('table', 'public.orders') for all rows; .option('tables',"
            " 'public.orders, public.items=shop.items') by the column _table",
        )
    if "table" in options:
        return (("", TableName.parse(options["table"].strip())),)
    found: dict[str, TableName] = {}
    for one in filter(None, (part.strip() for part in options["tables"].split(","))):
        source, equals, target = one.partition("=")
        name = str(TableName.parse(source.strip()))
        if name in found:
            raise BadOption(f"tables names {name} twice", hint="name each table once")
        found[name] = TableName.parse(target.strip()) if equals else TableName.parse(name)
    if not found:
        raise BadOption("tables is empty", hint=".option('tables', 'public.orders, public.items')")
    return tuple(found.items())


__all__ = [
    "QUEUE_NAMES",
    "TABLE_NAMES",
    "Common",
    "Mode",
    "Payload",
    "QueueOptions",
    "TableOptions",
    "parse_queue",
    "parse_tables",
]
