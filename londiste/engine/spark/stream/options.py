"""Options of the source ``format("pgq")``.

Spark shows options in its page and in plans, and hides the values of those only whose name says so.
So a password comes by a password file, a service, or the option ``password``; never inside ``dsn``.
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
from londiste.errors import BadOption
from londiste.pgq.consumer_kinds import ConsumerKind


class Mode(StrEnum):
    """What is read."""

    CHANGES = "changes"
    SNAPSHOT = "snapshot"
    SNAPSHOT_THEN_CHANGES = "snapshot-then-changes"


class Payload(StrEnum):
    """How the data of an event comes: columns of the table, a JSON text, or fields as they are."""

    TYPED = "typed"
    JSON = "json"
    RAW = "raw"


#: What is told of every change, behind the columns of its table.
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
    """What becomes of what has no place in the result."""

    FAIL = "fail"
    NULL = "null"
    STRING = "string"
    IGNORE = "ignore"
    ROW = "row"
    AGAIN = "again"


@dataclass(frozen=True)
class Start:
    """Where a new query begins; at most one of them is given.

    end -- ``earliest`` or ``latest``, or empty.
    """

    end: str = ""
    tick: int | None = None
    time: datetime | None = None

    @property
    def given(self) -> bool:
        """Whether the user has said it."""
        return self != Start()


@dataclass(frozen=True)
class Options:
    """All options; the names in Spark are in ``NAMES``.

    dsn -- without a password.
    kind -- what lists of consumers call this one.
    timed -- a last column, ``_event_time``; of payload typed, for programs of our own.
    tables -- empty: all of the queue.
    max_ticks, max_events -- of one micro-batch; None: no limit.
    partitions -- tasks that read a batch at a time, at most.
    values -- a value that its column in Spark cannot hold.
    strings -- columns that come as text.
    new_columns, missing_columns -- of an event, against the table as the query knows it.
    truncate, scripts -- changes that are not of one row.
    lost -- the session that held the snapshot of ``snapshot-then-changes`` is gone.
    snapshot -- name of a snapshot that the driver's program has exported and keeps.
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
        """The only table, where there has to be one."""
        (table,) = self.tables
        return table


#: As Spark's users write them; what they are for is in docs/howto/spark-streams.md.
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
_HOWTO = "docs/howto/spark-streams.md lists the options"


def parse(given: Mapping[str, str], *, stream: bool | None = None) -> Options:
    """Reads the options, whose names may be in any case.

    stream -- whether it is for ``readStream``; None: not known yet.

    Raises BadOption, with what to write instead.
    """
    options = read_names(given, _KNOWN, _HOWTO)
    reader = Reader(options)
    found = Options(
        dsn=read_dsn(options),
        password=options.get("password", ""),
        queue=reader.required("queue", "the queue to read: .option('queue', 'shop')"),
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
    """The options under their own names.

    known -- names by themselves in lower case; howto -- what lists them.

    Raises BadOption for one that is unknown.
    """
    options = {}
    for name, value in given.items():
        own = known.get(name.lower())
        if own is None:
            near = difflib.get_close_matches(name.lower(), known, 1)
            raise BadOption(
                f"unknown option {name}",
                hint=f"did you mean {known[near[0]]}?" if near else howto,
            )
        options[own] = str(value)
    return options


def _check(found: Options, given: Mapping[str, str], stream: bool | None) -> None:
    """What does not go together."""
    if found.mode is not Mode.CHANGES and found.payload is not Payload.TYPED:
        raise BadOption(
            f"payload={found.payload} does not go with mode={found.mode}",
            hint="a snapshot has the columns of its table: leave payload out",
        )
    if found.mode is Mode.SNAPSHOT and (found.start.given or found.end_tick is not None):
        raise BadOption(
            "a starting point or endingTick does not go with mode=snapshot",
            hint="the rows are those of now: leave it out",
        )
    if found.mode is not Mode.SNAPSHOT and found.snapshot:
        raise BadOption("snapshot is for mode=snapshot", hint="leave it out")
    if found.payload is Payload.TYPED and len(found.tables) != 1:
        raise BadOption(
            f"payload=typed is for one table, not {len(found.tables)}",
            hint="name it: .option('tables', 'public.orders'); or payload=json for any number",
        )
    if found.payload is Payload.RAW:
        for name in ("tables", "onTruncate", "onScript"):
            if name in given:
                raise BadOption(
                    f"{name} does not go with payload=raw",
                    hint="raw events are not read; payload=json does that",
                )
    if stream is True:
        if not found.consumer:
            raise BadOption(
                "a stream needs the option consumer",
                hint="a name of its own, under which the queue keeps events for it:"
                " .option('consumer', 'orders_to_lake')",
            )
        if found.mode is Mode.SNAPSHOT:
            raise BadOption(
                "mode=snapshot is for spark.read",
                hint="mode=snapshot-then-changes begins a stream with the rows that are there",
            )
        for name in ("endingTick", "snapshot"):
            if name in given:
                raise BadOption(f"{name} is for spark.read, not for a stream", hint=_HOWTO)
        if found.mode is Mode.SNAPSHOT_THEN_CHANGES and found.start.given:
            raise BadOption(
                "a starting point does not go with mode=snapshot-then-changes",
                hint="the changes begin where the snapshot is: leave it out",
            )
    if stream is False:
        if found.mode is Mode.SNAPSHOT_THEN_CHANGES:
            raise BadOption(
                "mode=snapshot-then-changes is for spark.readStream",
                hint="mode=snapshot reads the rows, mode=changes the events that are there",
            )
        for name in ("consumer", "maxTicksPerTrigger", "maxEventsPerTrigger", "onSnapshotLost"):
            if name in given:
                raise BadOption(f"{name} is for spark.readStream", hint="leave it out")


def read_dsn(options: Mapping[str, str]) -> str:
    """The connection string of ``dsn`` or ``service``.  Raises BadOption for a password in it."""
    dsn, service = options.get("dsn", ""), options.get("service", "")
    if bool(dsn) == bool(service):
        raise BadOption(
            "give service or dsn, one of them",
            hint="service names a section of pg_service.conf: .option('service', 'shop');"
            " dsn is a connection string: .option('dsn', 'host=db1 dbname=shop user=lake')",
        )
    if service:
        return conninfo.make_conninfo(service=service)
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        raise BadOption(
            "dsn is not a connection string",
            hint="write it as libpq does: host=… port=… dbname=… user=…, or postgresql://…",
        ) from None
    for secret in ("password", "sslpassword"):
        if parts.get(secret):
            raise BadOption(
                f"dsn has a {secret}, which Spark would show in its page",
                hint="put it into a password file (passfile=…, ~/.pgpass) or a service, or give it"
                " as .option('password', …), whose value Spark hides",
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
        raise BadOption(f"{' and '.join(given)} do not go together", hint="give one of them")
    return Start(
        reader.choice("startingOffsets", ["earliest", "latest"], ""),
        reader.number("startingTick", 1),
        reader.time("startingTimestamp"),
    )


class Reader:
    """Values of options by their kind; every method raises BadOption."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def required(self, name: str, hint: str) -> str:
        """The text of an option that has to be there."""
        value = self.options.get(name, "").strip()
        if not value:
            raise BadOption(f"the option {name} is missing", hint=hint)
        return value

    def number(self, name: str, least: int) -> int | None:
        """A whole number from ``least`` on; None: not given."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise BadOption(
                f"{name} is {text!r}, not a whole number from {least} on",
                hint=f".option('{name}', {max(least, 10)})",
            )
        return value

    def flag(self, name: str, otherwise: bool) -> bool:
        """Whether it is true."""
        return self.choice(name, ["true", "false"], str(otherwise).lower()) == "true"

    def choice(self, name: str, choices: list[str], otherwise: str) -> str:
        """One of several words, in lower case."""
        text = self.options.get(name)
        if text is None:
            return otherwise
        if text.strip().lower() not in choices:
            raise BadOption(f"{name} is {text!r}", hint=f"it can be: {', '.join(choices)}")
        return text.strip().lower()

    def policy(self, name: str, *choices: GapPolicy) -> GapPolicy:
        """The first one is the default."""
        return GapPolicy(self.choice(name, [*choices], choices[0]))

    def time(self, name: str) -> datetime | None:
        """A time; UTC where it has no zone."""
        text = self.options.get(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise BadOption(
                f"{name} is {text!r}, not a time",
                hint=f".option('{name}', '2026-01-31T12:00:00+00:00')",
            ) from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)


__all__ = [
    "CHANGE_NAMES",
    "NAMES",
    "GapPolicy",
    "Mode",
    "Options",
    "Payload",
    "Reader",
    "Start",
    "parse",
    "read_dsn",
    "read_names",
]
