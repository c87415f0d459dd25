"""Handlers ``applyfn`` and ``multimaster``: call a function of this database for each event.

The function has the arguments

    (conf text, tick_id bigint, ev_id bigint, ev_time timestamptz, ev_txid bigint, ev_retry integer,
     ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text)

and is called once per row, in the order of the events, with the replica role; its result is
ignored.  A packed event is unpacked first.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

import psycopg

from londiste.changes import rewrite
from londiste.changes.decode import singles
from londiste.changes.types import Malformed
from londiste.db import call
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import has_function
from londiste.error_values import Values
from londiste.errors import BadOption, EventError, LondisteError, from_database
from londiste.handlers.base import Handler, TableRules, option
from londiste.handlers.event_actions import At, EventWork, partial
from londiste.pgq.types import Event

ARGUMENTS = (
    "text,bigint,bigint,timestamp with time zone,bigint,integer,text,text,text,text,text,text"
)
_MERGE = "londiste.merge_on_time"
#: Calls that are under way at a time.
_TOGETHER = 200


@dataclass(frozen=True)
class CallFunction(EventWork):
    """Calls a function for each event.

    function -- ``schema.name``.
    conf -- its first argument; Londiste's own function also gets the table's name.
    """

    function: str
    conf: str

    def needs_whole_rows(self) -> bool:
        return self.function == _MERGE

    def work(self, at: At, events: Sequence[Event]) -> None:
        rows = itertools.chain.from_iterable(map(singles, events))
        for some in _portions(self._prepared(at, rows)):
            try:
                with at.conn.transaction(), at.conn.pipeline():
                    answers = [call.later(at.conn, self.function, *one[1]) for one in some]
                del answers
            except (psycopg.Error, LondisteError) as error:
                known = from_database(
                    error, where=describe_dsn(at.conn.info.dsn), values=Values.APART
                )
                if known.retry:
                    raise known from error
                self._one_by_one(at, some)

    def _one_by_one(self, at: At, some: Sequence[tuple[Event, Sequence[Any]]]) -> None:
        """Calls it again for each event, to name the one that fails."""
        for event, arguments in some:
            try:
                call.rows(at.conn, self.function, *arguments)
            except LondisteError as error:
                if error.retry:
                    raise
                cause, where = error.__cause__, describe_dsn(at.conn.info.dsn)
                known = from_database(
                    cause if isinstance(cause, psycopg.Error) else error,
                    where=where,
                    values=Values.APART,
                )
                raise EventError(
                    f"event {event.id}: table {event.extra1}: function {self.function} failed:"
                    f" {known.message}",
                    detail=known.detail,
                    hint=known.hint
                    or "correct the function on this node; the worker then retries the event",
                    event_id=event.id,
                ) from error

    def _prepared(self, at: At, events: Iterable[Event]) -> Iterator[tuple[Event, Sequence[Any]]]:
        merging = self.function == _MERGE
        conf = self.conf
        if merging:
            conf = json.dumps({**json.loads(conf), "table": str(at.dest)})
        for event in events:
            told = _as_json(event) if merging else event
            id, time, txid, retry, *texts = told
            yield event, (conf, at.tick_id, id, time, txid, retry, *texts)

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        schema, _, name = self.function.partition(".")
        if not name:
            raise BadOption(
                f"func_name={self.function}: the schema is missing",
                hint=f"--handler-arg func_name=public.{schema}",
            )
        signature = f"{TableName(schema, name).quoted}({ARGUMENTS})"
        if not has_function(conn, signature):
            raise BadOption(
                f"function {self.function} with the arguments of applyfn does not exist in"
                f" {describe_dsn(conn.info.dsn)}",
                detail=f"required: {self.function}({ARGUMENTS})",
                hint="create it on this node, or correct func_name",
            )


def _portions(
    rows: Iterator[tuple[Event, Sequence[Any]]],
) -> Iterator[list[tuple[Event, Sequence[Any]]]]:
    while some := list(itertools.islice(rows, _TOGETHER)):
        yield some


def _as_json(event: Event) -> Event:
    """The event in Londiste's JSON form, whatever its trigger.  Raises EventError."""
    kind = event.type or ""
    if kind.startswith("{"):
        return event
    if kind == "R":
        schema, _, name = (event.extra1 or "").partition(".")
        return event._replace(type=json.dumps({"op": "TRUNCATE", "table": [schema, name]}))
    if rewrite.is_fragment(kind):
        raise partial(event, "multimaster")
    try:
        rows = rewrite.read(kind, event.data or "", None)
    except Malformed as error:
        raise EventError(
            f"event {event.id} cannot be decoded: {error}", event_id=event.id
        ) from error
    if rows is None:
        raise EventError(f"event {event.id} contains no row ({kind[:40]})", event_id=event.id)
    schema, _, name = (event.extra1 or "").partition(".")
    header = {"op": rows.op.name, "table": [schema, name], "pkey": list(rows.key)}
    return event._replace(type=json.dumps(header), data=json.dumps(rows.rows[0].image))


@dataclass(frozen=True)
class ApplyFunction(Handler):
    """Calls a function of this node's database for every event, instead of writing its row."""

    NAME: ClassVar[str] = "applyfn"

    func_name: str = option(help="function with its schema")
    func_conf: str = option("", help="first argument of the function")

    def wants(self) -> TableRules:
        return TableRules(
            events=CallFunction(self.func_name, self.func_conf),
            incomparable="a function applies its events",
        )


@dataclass(frozen=True)
class MultiMaster(Handler):
    """Multi-master table: a received row replaces an older version, never a newer one."""

    NAME: ClassVar[str] = "multimaster"
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = {
        "*": f"{_MERGE} takes timefield only; for a function of your own: --handler multimaster"
        " --handler-arg timefield=… --handler-arg func_name=… --handler-arg func_conf='a=1&b=2'",
    }

    timefield: str = option(help="column with the time of the last write of a row")
    func_name: str = option(_MERGE, help="your own function instead, with the arguments of applyfn")
    func_conf: str = option("", help="options for your own function: a=1&b=2")

    def wants(self) -> TableRules:
        if self.func_name == _MERGE:
            if self.func_conf:
                raise BadOption(
                    "handler multimaster: func_conf requires func_name",
                    detail=f"{_MERGE} has only the option timefield",
                    hint="remove func_conf, or set func_name",
                )
            return TableRules(
                events=CallFunction(_MERGE, json.dumps({"timefield": self.timefield}))
            )
        more = f"&{self.func_conf}" if self.func_conf else ""
        conf = urlencode({"timefield": self.timefield}) + more
        return TableRules(events=CallFunction(self.func_name, conf))

    def words(self, *, root: bool) -> Iterable[str]:
        # The table is written here too, and is that of another queue.
        return () if root else ("no_triggers", "no_merge")
