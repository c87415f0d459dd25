"""Rules of the dispatcher: which events are dispatched, and how.

The options are those of the handler ``dispatch``.  Those of the section are for all tables; a
section ``[table schema.name]`` has those of one table on top of them, but is not ignored with the
tables that have none.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from londiste.changes.decode import decode_all, row_count
from londiste.changes.kinds import is_change
from londiste.changes.types import RowChange, Truncate
from londiste.db.names import TableName
from londiste.errors import BadOption, EventError, LondisteError
from londiste.handlers import registry
from londiste.handlers.dispatch import Dispatch, Dispatching, TableMode
from londiste.handlers.dispatch_presets import PRESETS
from londiste.handlers.event_actions import SkippedRows
from londiste.install.owners import is_reserved
from londiste.pgq.types import Batch, Event
from londiste.tools.dispatch import skips

#: Names of the handlers that dispatch.
HANDLERS = (Dispatch.NAME, *PRESETS)
#: Where an error tells of commands that decide about events and tables on a node, or of an option.
_FOR_NODES = ("londiste events", "londiste remove-table")
_ARGUMENT = "--handler-arg"
#: What a section of a table may have beside options of the handler.
HANDLER = "handler"
_MODE = "table_mode"


@dataclass(frozen=True)
class Rule:
    """The rule for the events of a table.

    work -- how they are dispatched; None: they are ignored.
    table -- the table that gets the rows; '' for one of the same name.
    """

    work: Dispatching | None
    table: str = ""


class DispatchRoute(NamedTuple):
    """Target and work of a table's events."""

    source: TableName
    dest: TableName
    work: Dispatching


@dataclass(frozen=True)
class Rules:
    """The rules of a queue: that of most tables, and those of some.

    skips -- events and rows that an operator skips, of all tables.
    """

    usual: Rule
    own: Mapping[TableName, Rule]
    skips: SkippedRows = frozenset()

    def of(self, table: TableName) -> Rule:
        """The rule of a table of the queue."""
        return self.own.get(table, self.usual)

    def chosen(self, names: Iterable[str], why: str) -> list[TableName]:
        """The dispatched tables: those of ``table_filter``, or else those with sections.

        why -- what needs to know them.  Raises BadOption when there is none.
        """
        tables = {TableName.parse(name) for name in names} or set(self.own)
        found = [one for one in sorted(tables, key=str) if self.of(one).work is not None]
        if not found:
            raise BadOption(
                f"no table selected {why}",
                hint="name tables: table_filter = public.orders, or a section"
                " [table public.orders]",
            )
        return found

    def dest(self, source: TableName) -> TableName:
        """The table that gets the rows of a source."""
        name = self.of(source).table
        return TableName.parse(name) if name else source

    def route(self, event: Event) -> DispatchRoute | None:
        """The rule for an event; None for one that is not a row change, or is ignored.

        Raises EventError for a row change that names no table, or a table of PostgreSQL or of
        Londiste: who may insert events is not trusted with these.
        """
        if not is_change(event.type) or (event.id, 0) in self.skips:
            return None
        source = _named(event.extra1) or _told(event)
        rule = self.of(source)
        if rule.work is None:
            return None
        dest = self.dest(source)
        if is_reserved(dest.schema):
            raise EventError(
                f"event {event.id} names table {dest}, which a dispatcher does not write",
                detail="an event with a table of PostgreSQL or of Londiste may be forged",
                hint="find out who inserts such events; skip this one:"
                f" {skips.option(event.id, 0, self.skips)}; or name the tables to dispatch:"
                " --set table_filter=public.TABLE,public.TABLE",
                event_id=event.id,
            )
        return DispatchRoute(source, dest, rule.work)

    def require_targets(self, names: Iterable[str]) -> None:
        """Raises BadOption for a table of PostgreSQL or of Londiste as target in the settings.

        names -- those of ``table_filter``.
        """
        for source in sorted({*self.own, *map(TableName.parse, names)}):
            dest = self.dest(source)
            if self.of(source).work is not None and is_reserved(dest.schema):
                raise BadOption(
                    f"table {source}: table {dest} is not available as target",
                    detail="a dispatcher writes no tables of PostgreSQL and of Londiste",
                    hint=f"[table {source}]: set table = SCHEMA.TABLE, or table_mode = ignore",
                )

    def require_sections(self, names: Iterable[str]) -> None:
        """Raises BadOption if ``table_mode = ignore`` omits what the settings name, or everything.

        names -- those of ``table_filter``.
        """
        if self.takes_all:
            return
        for source in sorted({*map(TableName.parse, names)} - self.own.keys(), key=str):
            raise BadOption(
                f"table_filter names {source}, but table_mode = ignore omits it",
                hint=f"add a section [table {source}], or remove table_mode = ignore",
            )
        if all(rule.work is None for rule in self.own.values()):
            raise BadOption(
                "no table is dispatched",
                detail="table_mode = ignore omits every table without a section of its own",
                hint="add a section for each table: [table public.orders]; or remove table_mode",
            )

    def explain(self, error: EventError, batch: Batch, events: Iterable[Event]) -> None:
        """Makes the error of an event speak of the consumer and its settings.

        events -- with that of the error among them, if it is known.
        """
        error.queue, error.batch_id = batch.queue, batch.id
        # There is no node here, and no command for one.
        who = batch.consumer
        error.message = error.message.replace(f" on node {who}:", f" by consumer {who}:")
        if any(command in error.hint for command in _FOR_NODES):
            rows = (row_count(one) for one in events if one.id == error.event_id)
            skips.explain(error, next(rows, None), self.skips)
        elif _ARGUMENT in error.hint and error.finding is not None:
            error.hint = (
                f"{_plain(error.hint)}; or in a section [table {error.finding.table}]: table or"
                " part_name, or table_mode = ignore"
            )

    @property
    def takes_all(self) -> bool:
        """Whether tables without a section are dispatched."""
        return self.usual.work is not None


def rules(
    handler: str, options: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]
) -> Rules:
    """The rules that settings say.

    handler, options -- for all tables; tables -- those of single ones.

    Raises BadOption for unknown options, and options that exclude each other.
    """
    if options.get("table") and tables:
        raise BadOption(
            f"table = {options['table']}: not available for all tables",
            hint="set it in the section of one table",
        )
    own: dict[TableName, Rule] = {}
    for name, given in tables.items():
        table = TableName.parse(name)
        given = {key: text(value) for key, value in given.items() if value is not None}
        mine = given.pop(HANDLER, "")
        # Another handler begins with defaults of its own.
        above = dict(options) if mine in {"", handler} else {}
        if above.get(_MODE) == TableMode.IGNORE:
            # Of the tables without a section.
            del above[_MODE]
        own[table] = _rule(mine or handler, {**above, **given}, f"[table {name}]: ")
    usual = _rule(handler, options, "")
    return Rules(usual, own)


def _rule(handler: str, options: Mapping[str, str], where: str) -> Rule:
    try:
        kind = registry.find(handler)
        if kind.NAME not in HANDLERS:
            raise BadOption(
                f"handler {handler} is not a dispatch handler",
                hint=f"use one of {', '.join(HANDLERS)}",
            )
        arguments = [f"{key}={value}" for key, value in options.items()]
        made = registry.make(registry.parse(handler, arguments))
        work = made.wants().events
    except LondisteError as error:
        raise bad_option(error, where) from error
    assert work is None or isinstance(work, Dispatching)
    return Rule(work, made.dest)


def bad_option(error: LondisteError, where: str = "") -> BadOption:
    """A handler's error about options, rewritten for a settings file."""

    return BadOption(
        where + _plain(error.message), detail=_plain(error.detail), hint=_plain(error.hint)
    )


def _plain(words: str) -> str:
    """Words about options of a handler as words about settings."""
    words = re.sub(_ARGUMENT + r" (\'?)([^',]*)\1", r"set \2", words)
    return re.sub(r": londiste change-handler$", "", words)


def text(value: Any) -> str:
    """A value of a settings file as an option of a handler."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


@functools.lru_cache(maxsize=4096)
def _named(name: str | None) -> TableName | None:
    try:
        return None if name is None else TableName.parse(name)
    except BadOption:
        return None


def _told(event: Event) -> TableName:
    """The table of an event whose field for it has none."""
    (change, *_) = decode_all(event)
    assert isinstance(change, RowChange | Truncate)
    return change.table
