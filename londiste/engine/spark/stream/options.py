"""Options of the source ``format("pgq")``.

``option_values.py`` has the rules for passwords and unknown names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from psycopg import conninfo

from londiste.db.names import TableName
from londiste.engine.spark.stream.option_values import (
    GapPolicy,
    Reader,
    names_in,
    read_dsn,
    read_names,
)
from londiste.errors import BadOption
from londiste.pgq.consumers import ConsumerKind

__all__ = [
    "CHANGE_NAMES",
    "NAMES",
    "End",
    "GapPolicy",
    "Mode",
    "Net",
    "Options",
    "Payload",
    "Start",
    "parse",
]


class Mode(StrEnum):
    """Read mode: changes, the current rows, or the rows followed by changes."""

    CHANGES = "changes"
    SNAPSHOT = "snapshot"
    SNAPSHOT_THEN_CHANGES = "snapshot-then-changes"


class Payload(StrEnum):
    """Representation of event data: columns of the table, JSON text, or unchanged event fields."""

    TYPED = "typed"
    JSON = "json"
    RAW = "raw"


#: Columns that describe a change, after the columns of its table.
CHANGE_NAMES = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
    "_event_id",
    "_row",
    "_txid",
    "_table",
)


@dataclass(frozen=True)
class Start:
    """Start of a new query; at most one of the first three fields is set.

    end -- ``earliest`` or ``latest``, or empty.
    inclusive -- whether the tick or time itself is read.
    """

    end: str = ""
    tick: int | None = None
    time: datetime | None = None
    inclusive: bool = False

    @property
    def given(self) -> bool:
        """Whether an option sets the start."""
        return bool(self.end) or self.tick is not None or self.time is not None


@dataclass(frozen=True)
class End:
    """End of a batch: a tick or a time; neither: the newest tick.

    inclusive -- whether the tick or time itself is read.
    """

    tick: int | None = None
    time: datetime | None = None
    inclusive: bool = True

    @property
    def given(self) -> bool:
        """Whether an option sets the end."""
        return self.tick is not None or self.time is not None


class Net(StrEnum):
    """Changes of one row: each of them, or the net change of every tick."""

    NONE = "none"
    #: What copy-on-write tables repeat unchanged; a queue has no such rows.
    DROP_CARRYOVERS = "dropcarryovers"
    NET_CHANGES = "netchanges"


@dataclass(frozen=True)
class Options:
    """All options; the names in Spark are in ``NAMES``.

    dsn -- without a password.
    kind -- label in lists of consumers.
    timed -- append the column ``_event_time`` (payload typed, for Londiste's own programs).
    tables -- tables to read; empty: all tables of the queue.
    max_ticks, max_events, max_bytes -- limits of one micro-batch; None: no limit.
    partitions -- maximum parallel tasks per batch.
    values -- policy for values outside the range of the column's type in Spark.
    strings -- columns to return as text.
    new_columns, missing_columns -- policy for events whose columns differ from the query's table.
    truncate, scripts -- policy for events that do not change a single row.
    types -- policy for a checkpoint whose columns have other types.
    net -- which changes of one row are read.
    preimages -- read the old row of an update, too.
    lost -- policy after the session that held the snapshot of ``snapshot-then-changes`` ended.
    snapshot -- name of a snapshot that the driver program exported and keeps open.
    """

    dsn: str
    queue: str
    consumer: str = ""
    kind: ConsumerKind = ConsumerKind.STREAM
    timed: bool = False
    password: str = field(default="", repr=False)
    tables: tuple[TableName, ...] = ()
    start: Start = Start()
    end: End = End()
    max_ticks: int | None = None
    max_events: int | None = None
    max_bytes: int | None = None
    partitions: int = 4
    fail_on_loss: bool = True
    mode: Mode = Mode.CHANGES
    payload: Payload = Payload.TYPED
    values: GapPolicy = GapPolicy.FAIL
    strings: tuple[str, ...] = ()
    new_columns: GapPolicy = GapPolicy.FAIL
    missing_columns: GapPolicy = GapPolicy.FAIL
    truncate: GapPolicy = GapPolicy.FAIL
    scripts: GapPolicy = GapPolicy.FAIL
    lost: GapPolicy = GapPolicy.FAIL
    types: GapPolicy = GapPolicy.FAIL
    net: Net = Net.NONE
    preimages: bool = False
    snapshot: str = ""

    @property
    def conninfo(self) -> str:
        """The connection string to connect with; never to be shown."""
        return conninfo.make_conninfo(
            self.dsn, **({"password": self.password} if self.password else {})
        )

    @property
    def table(self) -> TableName:
        """The only table, where exactly one is required."""
        (table,) = self.tables
        return table


#: Names in Spark; docs/howto/spark-streams.md describes them.
NAMES = (
    "service",
    "dsn",
    "password",
    "queue",
    "consumer",
    "tables",
    "startingOffsets",
    "startingTick",
    "startingVersion",
    "startingTimestamp",
    "startingBoundInclusive",
    "endingTick",
    "endingVersion",
    "endingTimestamp",
    "endingBoundInclusive",
    "maxTicksPerTrigger",
    "maxEventsPerTrigger",
    "maxBytesPerTrigger",
    "numPartitions",
    "failOnDataLoss",
    "mode",
    "payload",
    "unsupportedValues",
    "stringColumns",
    "newColumns",
    "missingColumns",
    "onTruncate",
    "onScript",
    "onSnapshotLost",
    "onTypeChange",
    "computeUpdates",
    "deduplicationMode",
    "snapshot",
)

#: Names that other sources have for the same.
ALIASES = {"maxOffsetsPerTrigger": "maxEventsPerTrigger", "minPartitions": "numPartitions"}

_KNOWN = {name.lower(): name for name in NAMES} | {
    alias.lower(): name for alias, name in ALIASES.items()
}
_HOWTO = "docs/howto/spark-streams.md for the list of options"


def parse(given: Mapping[str, str], *, stream: bool | None = None) -> Options:
    """Parses the options, whose names are case-insensitive.

    stream -- whether they are for ``readStream``; None: not known yet.

    Raises BadOption, with a hint for the correct form.
    """
    options = read_names(_with_path(given), _KNOWN, _HOWTO)
    reader = Reader(options)
    found = Options(
        dsn=read_dsn(options),
        password=options.get("password", ""),
        queue=reader.required("queue", "name the queue to read: .option('queue', 'shop')"),
        consumer=options.get("consumer", "").strip(),
        tables=_tables(options.get("tables", "")),
        start=_start(reader),
        end=_end(reader),
        max_ticks=reader.number("maxTicksPerTrigger", 1),
        max_events=reader.number("maxEventsPerTrigger", 1),
        max_bytes=reader.number("maxBytesPerTrigger", 1),
        partitions=reader.number("numPartitions", 1) or 4,
        fail_on_loss=reader.flag("failOnDataLoss", True),
        mode=Mode(reader.choice("mode", [*Mode], Mode.CHANGES)),
        payload=Payload(reader.choice("payload", [*Payload], Payload.TYPED)),
        values=reader.policy(
            "unsupportedValues",
            GapPolicy.FAIL,
            GapPolicy.STRING,
            GapPolicy.NULL,
            GapPolicy.ROUND,
        ),
        strings=tuple(names_in(options.get("stringColumns", ""))),
        new_columns=reader.policy("newColumns", GapPolicy.FAIL, GapPolicy.IGNORE),
        missing_columns=reader.policy("missingColumns", GapPolicy.FAIL, GapPolicy.NULL),
        truncate=reader.policy("onTruncate", GapPolicy.FAIL, GapPolicy.ROW, GapPolicy.IGNORE),
        scripts=reader.policy("onScript", GapPolicy.FAIL, GapPolicy.ROW, GapPolicy.IGNORE),
        lost=reader.policy("onSnapshotLost", GapPolicy.FAIL, GapPolicy.AGAIN),
        types=reader.policy("onTypeChange", GapPolicy.FAIL, GapPolicy.IGNORE),
        net=Net(reader.choice("deduplicationMode", [*Net], Net.NONE)),
        preimages=reader.flag("computeUpdates", False),
        snapshot=options.get("snapshot", ""),
    )
    _check(found, options, stream)
    return found


def _with_path(given: Mapping[str, str]) -> dict[str, str]:
    """The options, with those of a path: ``.load("shop/public.orders")``.

    Raises BadOption for a table of Spark's catalog, too.
    """
    # Without these, CREATE TABLE would succeed and every query of the table fail.
    if any(name.lower() in _OF_CATALOG for name in given):
        raise BadOption(
            "create table … using pgq: not supported",
            detail="Spark does not pass the options of such a table to the queries that read it",
            hint=_VIEW,
        )
    if not given:
        raise BadOption(
            "no options given",
            detail="Spark has none for the tables of its catalog",
            hint=_VIEW,
        )
    found = dict(given.items())
    path = next((found.pop(name) for name in list(found) if name.lower() == "path"), "")
    queue, _, tables = path.partition("/")
    for name, value in (("queue", queue), ("tables", tables)):
        if not value:
            continue
        if name in {one.lower() for one in found}:
            raise BadOption(
                f"{name}: given as an option and in the path {path!r}", hint="use one of the two"
            )
        found[name] = value
    return found


#: Properties that Spark gives each table of its catalog.
_OF_CATALOG = ("provider", "owner")
_VIEW = (
    "create or replace temporary view orders using pgq"
    " options (service 'shop', queue 'shop', tables 'public.orders')"
)


def _check(found: Options, given: Mapping[str, str], stream: bool | None) -> None:
    """Raises BadOption for options that exclude each other."""
    if found.mode is not Mode.CHANGES and found.payload is not Payload.TYPED:
        raise BadOption(
            f"payload={found.payload}: not supported with mode={found.mode}",
            detail="a snapshot has the columns of its table",
            hint="omit payload",
        )
    if found.mode is Mode.SNAPSHOT and (found.start.given or found.end.given):
        raise BadOption(
            "starting and ending points: not supported with mode=snapshot",
            detail="a snapshot contains the current rows",
            hint="omit the starting and ending points",
        )
    if found.mode is not Mode.SNAPSHOT and found.snapshot:
        raise BadOption("snapshot: requires mode=snapshot", hint="omit snapshot")
    if found.payload is Payload.TYPED and not found.tables:
        raise BadOption(
            "payload=typed: 0 tables given, at least one required",
            hint="select them with .option('tables', 'public.orders'), or use payload=json for"
            " all tables",
        )
    if found.mode is not Mode.CHANGES and len(found.tables) != 1:
        raise BadOption(
            f"mode={found.mode}: {len(found.tables)} tables given, exactly one required",
            hint="use a query for each table",
        )
    if found.payload is Payload.RAW:
        for name in ("tables", "onTruncate", "onScript", "computeUpdates", "deduplicationMode"):
            if name in given:
                raise BadOption(
                    f"{name}: not supported with payload=raw",
                    detail="payload=raw returns events without decoding them",
                    hint=f"omit {name}, or use payload=json",
                )
    if stream is True:
        if not found.consumer:
            raise BadOption(
                "option consumer: required for a stream",
                detail="the queue retains events for a consumer of this name",
                hint="set a unique name: .option('consumer', 'orders_to_lake')",
            )
        if found.mode is Mode.SNAPSHOT:
            raise BadOption(
                "mode=snapshot: not supported by spark.readStream",
                hint="use mode=snapshot-then-changes for existing rows followed by changes",
            )
        for name in (*_ENDS, "endingBoundInclusive", "snapshot"):
            if name in given:
                raise BadOption(
                    f"{name}: not supported by spark.readStream", hint=f"omit {name}; see {_HOWTO}"
                )
        if found.mode is Mode.SNAPSHOT_THEN_CHANGES and found.start.given:
            raise BadOption(
                "starting point: not supported with mode=snapshot-then-changes",
                detail="changes start at the tick of the snapshot",
                hint="omit the starting point",
            )
    if stream is False:
        if found.mode is Mode.SNAPSHOT_THEN_CHANGES:
            raise BadOption(
                "mode=snapshot-then-changes: not supported by spark.read",
                hint="use mode=snapshot for the rows, or mode=changes for the events in the queue",
            )
        for name in (
            "consumer",
            "maxTicksPerTrigger",
            "maxEventsPerTrigger",
            "maxBytesPerTrigger",
            "onSnapshotLost",
            "onTypeChange",
        ):
            if name in given:
                raise BadOption(f"{name}: not supported by spark.read", hint=f"omit {name}")


def _tables(text: str) -> tuple[TableName, ...]:
    return tuple(dict.fromkeys(TableName.parse(name) for name in names_in(text)))


_ENDS = ("endingTick", "endingVersion", "endingTimestamp")


def _start(reader: Reader) -> Start:
    _one_of(reader, "startingOffsets", "startingTick", "startingVersion", "startingTimestamp")
    inclusive = _inclusive(reader, "starting")
    tick = reader.number("startingTick", 1)
    return Start(
        reader.choice("startingOffsets", ["earliest", "latest"], ""),
        reader.number("startingVersion", 1) if tick is None else tick,
        reader.time("startingTimestamp"),
        inclusive and tick is None and "startingOffsets" not in reader.options,
    )


def _end(reader: Reader) -> End:
    _one_of(reader, *_ENDS)
    inclusive = _inclusive(reader, "ending")
    tick = reader.number("endingTick", 1)
    if tick is None:
        tick = reader.number("endingVersion", 1)
    return End(tick, reader.time("endingTimestamp"), inclusive)


def _one_of(reader: Reader, *names: str) -> None:
    given = [name for name in names if name in reader.options]
    if len(given) > 1:
        raise BadOption(f"{', '.join(given)}: mutually exclusive", hint="use one of them")


def _inclusive(reader: Reader, which: str) -> bool:
    """Whether a version or a time is read itself; a tick has its own rule."""
    name = f"{which}BoundInclusive"
    if name in reader.options and not {f"{which}Version", f"{which}Timestamp"} & set(
        reader.options
    ):
        raise BadOption(
            f"{name}: requires {which}Version or {which}Timestamp",
            hint=f"omit {name}, or use {which}Version",
        )
    return reader.flag(name, True)
