"""What a table of this node wants, as data, and the frame of every handler, which says it.

A handler decides and touches nothing: from its options follows a ``TableRules``, and copy, replay,
large batches and compare each look at that in one place.  A handler of your own is a subclass of
``Handler`` (docs/howto/handlers.md)::

    @dataclass(frozen=True)
    class Region(Handler):
        '''Only the rows of one region.'''

        NAME = "region"
        name: str = option(help="the region")

        def wants(self) -> TableRules:
            return TableRules(where=f"region = {literal(self.name)}")
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from londiste.errors import UsageError
from londiste.handlers.event_actions import EventWork

#: Makes of a row what is written of it: texts by column, None for NULL.
RowFunction: TypeAlias = Callable[[dict[str, str | None]], dict[str, str | None]]


@dataclass(frozen=True)
class TableRules:
    """What becomes of a table's rows and events on this node.

    stored -- its rows are copied and its events are written into the table; otherwise both are
        passed over.
    where -- SQL condition over the row as the source has it: rows for which it is not true are
        not kept here; '' for all.
    columns -- only these are written here; None for all.
    skip_columns -- these are not.
    ignore_truncate -- a TRUNCATE of the source leaves the rows here alone.
    rows -- changes every row on its way, between the two databases; it gets and gives texts by
        column, of all columns or of the key alone, and is pure and pickles.
    changed -- the columns whose values it changes.
    events -- what is done with every event instead of writing its row; the rows are copied if
        ``stored``.
    renamed -- columns that have another name here: (there, here).
    incomparable -- why the rows here are not those of the source; '' where they are.
    on_error -- what becomes of an event that does not fit the rows here: halt, keep, overwrite or
        log.
    """

    stored: bool = True
    where: str = ""
    columns: frozenset[str] | None = None
    skip_columns: frozenset[str] = frozenset()
    ignore_truncate: bool = False
    rows: RowFunction | None = None
    changed: frozenset[str] = frozenset()
    events: EventWork | None = None
    renamed: tuple[tuple[str, str], ...] = ()
    incomparable: str = ""
    on_error: str = "halt"

    def keeps(self, column: str) -> bool:
        """Whether a column of the source is written here."""
        if column in self.skip_columns:
            return False
        return self.columns is None or column in self.columns

    @property
    def all_columns(self) -> bool:
        """No column is left out on purpose."""
        return self.columns is None and not self.skip_columns

    @property
    def whole(self) -> bool:
        """The table is what the source's is: nothing is left out on purpose."""
        rows_too = not self.where and self.rows is None and not self.ignore_truncate
        return self.stored and self.all_columns and rows_too

    def of(self, held: TableRules) -> TableRules:
        """What is left where only ``held`` comes to a table that wants this."""
        where = f"({held.where}) and ({self.where})" if held.where and self.where else ""
        columns = (
            self.columns if held.columns is None else held.columns & (self.columns or held.columns)
        )
        return dataclasses.replace(
            self,
            where=where or held.where or self.where,
            columns=columns,
            skip_columns=self.skip_columns | held.skip_columns,
            changed=self.changed | held.changed,
        )


#: What nearly every table wants: everything.
ALL = TableRules()


@dataclass(frozen=True)
class Handler:
    """A handler of one table; its fields are its options.

    Types of options are str, int, bool, tuple[str, ...] (``a,b``) and StrEnum; ``option`` gives a
    field its description.  Options without default must be given.

    NAME -- in commands and in the database; ALIASES -- older names.
    OF_LONDISTE_3 -- what to write instead where Londiste 3 took an option, or took it from
        elsewhere: a hint by option, '*' for all others.
    """

    NAME: ClassVar[str] = ""
    ALIASES: ClassVar[tuple[str, ...]] = ()
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def configure(cls, settings: Mapping[str, str]) -> None:
        """Takes from the settings of the process what is no option of a table: secrets."""

    @classmethod
    def complete(cls, pairs: Mapping[str, str]) -> Mapping[str, str]:
        """The options that are stored, from those that a command was given."""
        return pairs

    def wants(self) -> TableRules:
        """What follows from the options.  Raises UsageError when they do not fit together."""
        return ALL

    def holds(self) -> TableRules:
        """What ``wants`` says of rows and columns, as far as another node can know it."""
        return self.wants()

    @property
    def dest(self) -> str:
        """The table of this node, where an option names it; '' leaves it to the command."""
        return ""

    def words(self, *, root: bool) -> Iterable[str]:
        """Trigger arguments and words for ``londiste.local_add_table``, on the root or below."""
        return ()


def option(default: Any = dataclasses.MISSING, *, help: str) -> Any:
    """A field of a handler that is an option, described by ``help``."""
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata={"help": help})
    return dataclasses.field(default=default, metadata={"help": help})


def literal(text: str) -> str:
    """A text as it is written in SQL."""
    if "\0" in text:
        raise UsageError("a text with a zero byte", hint="no value of PostgreSQL has one")
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
