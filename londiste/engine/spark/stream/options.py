"""Options of the source ``format("pgq")``.

Spark shows options in its UI and in plans, and redacts only values of options with names such as
``password``.  So a password comes from a password file, a service, or the option ``password``, and
``dsn`` must not contain one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import psycopg
from psycopg import conninfo

from londiste.db.names import TableName
from londiste.dsn import SECRETS
from londiste.errors import BadOption
from londiste.pgq.consumers import ConsumerKind


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


class GapPolicy(StrEnum):
    """Policy for data that has no place in the result."""

    FAIL = "fail"
    NULL = "null"
    STRING = "string"
    IGNORE = "ignore"
    ROW = "row"
    AGAIN = "again"


@dataclass(frozen=True)
class Start:
    """Start of a new query; at most one of the fields is set.

    end -- ``earliest`` or ``latest``, or empty.
    """

    end: str = ""
    tick: int | None = None
    time: datetime | None = None

    @property
    def given(self) -> bool:
        """Whether an option sets the start."""
        return self != Start()


@dataclass(frozen=True)
class Options:
    """All options; the names in Spark are in ``NAMES``.

    dsn -- without a password.
    kind -- label in lists of consumers.
    timed -- append the column ``_event_time`` (payload typed, for Londiste's own programs).
    tables -- tables to read; empty: all tables of the queue.
    max_ticks, max_events -- limits of one micro-batch; None: no limit.
    partitions -- maximum parallel tasks per batch.
    values -- policy for values outside the range of the column's type in Spark.
    strings -- columns to return as text.
    new_columns, missing_columns -- policy for events whose columns differ from the query's table.
    truncate, scripts -- policy for events that do not change a single row.
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
    end_tick: int | None = None
    max_ticks: int | None = None
    max_events: int | None = None
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
    "startingTimestamp",
    "endingTick",
    "maxTicksPerTrigger",
    "maxEventsPerTrigger",
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
    "snapshot",
)

_KNOWN = {name.lower(): name for name in NAMES}
_HOWTO = "docs/howto/spark-streams.md for the list of options"


def parse(given: Mapping[str, str], *, stream: bool | None = None) -> Options:
    """Parses the options, whose names are case-insensitive.

    stream -- whether they are for ``readStream``; None: not known yet.

    Raises BadOption, with a hint for the correct form.
    """
    options = read_names(given, _KNOWN, _HOWTO)
    reader = Reader(options)
    found = Options(
        dsn=read_dsn(options),
        password=options.get("password", ""),
        queue=reader.required("queue", "name the queue to read: .option('queue', 'shop')"),
        consumer=options.get("consumer", "").strip(),
        tables=_tables(options.get("tables", "")),
        start=_start(reader),
        end_tick=reader.number("endingTick", 1),
        max_ticks=reader.number("maxTicksPerTrigger", 1),
        max_events=reader.number("maxEventsPerTrigger", 1),
        partitions=reader.number("numPartitions", 1) or 4,
        fail_on_loss=reader.flag("failOnDataLoss", True),
        mode=Mode(reader.choice("mode", [*Mode], Mode.CHANGES)),
        payload=Payload(reader.choice("payload", [*Payload], Payload.TYPED)),
        values=reader.policy("unsupportedValues", GapPolicy.FAIL, GapPolicy.STRING, GapPolicy.NULL),
        strings=tuple(_list(options.get("stringColumns", ""))),
        new_columns=reader.policy("newColumns", GapPolicy.FAIL, GapPolicy.IGNORE),
        missing_columns=reader.policy("missingColumns", GapPolicy.FAIL, GapPolicy.NULL),
        truncate=reader.policy("onTruncate", GapPolicy.FAIL, GapPolicy.ROW, GapPolicy.IGNORE),
        scripts=reader.policy("onScript", GapPolicy.FAIL, GapPolicy.ROW, GapPolicy.IGNORE),
        lost=reader.policy("onSnapshotLost", GapPolicy.FAIL, GapPolicy.AGAIN),
        snapshot=options.get("snapshot", ""),
    )
    _check(found, options, stream)
    return found


def read_names(given: Mapping[str, str], known: Mapping[str, str], howto: str) -> dict[str, str]:
    """Returns the options under their canonical names.

    known -- canonical name by lower-case name; howto -- page that lists the options.

    Raises BadOption for an unknown option.
    """
    options = {}
    for name, value in given.items():
        own = known.get(name.lower())
        if own is None:
            near = difflib.get_close_matches(name.lower(), known, 1)
            raise BadOption(
                f"unknown option {name}",
                hint=f"did you mean {known[near[0]]}?" if near else f"see {howto}",
            )
        options[own] = str(value)
    return options


def _check(found: Options, given: Mapping[str, str], stream: bool | None) -> None:
    """Raises BadOption for options that exclude each other."""
    if found.mode is not Mode.CHANGES and found.payload is not Payload.TYPED:
        raise BadOption(
            f"payload={found.payload}: not supported with mode={found.mode}",
            detail="a snapshot has the columns of its table",
            hint="omit payload",
        )
    if found.mode is Mode.SNAPSHOT and (found.start.given or found.end_tick is not None):
        raise BadOption(
            "starting point and endingTick: not supported with mode=snapshot",
            detail="a snapshot contains the current rows",
            hint="omit the starting point and endingTick",
        )
    if found.mode is not Mode.SNAPSHOT and found.snapshot:
        raise BadOption("snapshot: requires mode=snapshot", hint="omit snapshot")
    if found.payload is Payload.TYPED and len(found.tables) != 1:
        raise BadOption(
            f"payload=typed: {len(found.tables)} tables given, exactly one required",
            hint="select one with .option('tables', 'public.orders'), or use payload=json for"
            " several tables",
        )
    if found.payload is Payload.RAW:
        for name in ("tables", "onTruncate", "onScript"):
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
        for name in ("endingTick", "snapshot"):
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
        for name in ("consumer", "maxTicksPerTrigger", "maxEventsPerTrigger", "onSnapshotLost"):
            if name in given:
                raise BadOption(f"{name}: not supported by spark.read", hint=f"omit {name}")


def read_dsn(options: Mapping[str, str]) -> str:
    """The connection string of ``dsn`` or ``service``.  Raises BadOption for a password in it."""
    dsn, service = options.get("dsn", ""), options.get("service", "")
    if bool(dsn) == bool(service):
        raise BadOption(
            "service, dsn: exactly one of the two is required",
            hint="use a section of pg_service.conf, .option('service', 'shop'), or a connection"
            " string, .option('dsn', 'host=db1 dbname=shop user=lake')",
        )
    if service:
        return conninfo.make_conninfo(service=service)
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise BadOption(
            "dsn: invalid connection string",
            hint="use libpq syntax: host=… port=… dbname=… user=…, or postgresql://…",
        ) from None
    for secret in SECRETS:
        if parts.get(secret):
            raise BadOption(
                f"dsn: {secret} is not allowed",
                detail="the Spark UI displays the value of dsn",
                hint="use a password file (passfile=…, ~/.pgpass), a service, or"
                " .option('password', …), whose value Spark redacts",
            )
    return dsn


def _tables(text: str) -> tuple[TableName, ...]:
    return tuple(dict.fromkeys(TableName.parse(name) for name in _list(text)))


def _list(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _start(reader: Reader) -> Start:
    given = [
        n for n in ("startingOffsets", "startingTick", "startingTimestamp") if n in reader.options
    ]
    if len(given) > 1:
        raise BadOption(f"{', '.join(given)}: mutually exclusive", hint="use one of them")
    return Start(
        reader.choice("startingOffsets", ["earliest", "latest"], ""),
        reader.number("startingTick", 1),
        reader.time("startingTimestamp"),
    )


class Reader:
    """Typed option values; every method raises BadOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def required(self, name: str, hint: str) -> str:
        """Text of a required option."""
        value = self.options.get(name, "").strip()
        if not value:
            raise BadOption(f"option {name}: required", hint=hint)
        return value

    def number(self, name: str, least: int) -> int | None:
        """Integer of at least ``least``; None: not set."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise BadOption(
                f"{name}: {text!r} is not an integer of at least {least}",
                hint=f"use .option('{name}', {max(least, 10)})",
            )
        return value

    def flag(self, name: str, otherwise: bool) -> bool:
        """Boolean option."""
        return self.choice(name, ["true", "false"], str(otherwise).lower()) == "true"

    def choice(self, name: str, choices: list[str], otherwise: str) -> str:
        """One of several words, in lower case; ``otherwise`` if not set."""
        text = self.options.get(name)
        if text is None:
            return otherwise
        if text.strip().lower() not in choices:
            raise BadOption(
                f"{name}: invalid value {text!r}", hint=f"use one of {', '.join(choices)}"
            )
        return text.strip().lower()

    def policy(self, name: str, *choices: GapPolicy) -> GapPolicy:
        """One of several policies; the first is the default."""
        return GapPolicy(self.choice(name, [*choices], choices[0]))

    def time(self, name: str) -> datetime | None:
        """Timestamp; UTC if it has no zone."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise BadOption(
                f"{name}: {text!r} is not an ISO 8601 timestamp",
                hint=f"use .option('{name}', '2026-01-31T12:00:00+00:00')",
            ) from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
