"""Base class of handlers, and ``TableRules``: how a table is copied and applied.

A handler is pure: its options determine a ``TableRules``, which copy, replay, large batches and
compare follow.  A handler of your own is a subclass of ``Handler`` (docs/howto/handlers.md)::

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
    """How a table's rows and events are handled on this node.

    stored -- its rows are copied and its events are written into the table; otherwise both are
        ignored.
    where -- SQL condition over the row as the source has it: rows for which it is not true are
        excluded; '' for all.
    text_of -- the column of whose text ``where`` is a hash; '' for any other condition.
    columns -- only these are written here; None for all.
    skip_columns -- these are not.
    ignore_truncate -- a TRUNCATE of the source is ignored on this node.
    rows -- changes every row between the two databases; it takes and returns texts by column, of
        all columns or of the key only, and is pure and pickles.
    changed -- the columns whose values it changes.
    examples -- of the values that ``rows`` makes, by column: its type here has to take them.
    events -- the action for every event instead of writing its row; the rows are copied if
        ``stored``.
    renamed -- columns with another name here: (source, target).
    incomparable -- why the target's rows differ from the source's; '' where they do not.
    on_error -- conflict policy: halt, keep, overwrite or log.
    """

    stored: bool = True
    where: str = ""
    text_of: str = ""
    columns: frozenset[str] | None = None
    skip_columns: frozenset[str] = frozenset()
    ignore_truncate: bool = False
    rows: RowFunction | None = None
    changed: frozenset[str] = frozenset()
    examples: tuple[tuple[str, str], ...] = ()
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
        """Whether no column is excluded."""
        return self.columns is None and not self.skip_columns

    @property
    def whole(self) -> bool:
        """Whether the table equals the source's: nothing is excluded."""
        rows_too = not self.where and self.rows is None and not self.ignore_truncate
        return self.stored and self.all_columns and rows_too

    @property
    def named(self) -> frozenset[str]:
        """The columns of the source that the rules name, but for those of ``where``."""
        return (self.columns or frozenset()) | self.skip_columns | self.changed

    @property
    def spreads(self) -> bool:
        """Whether rows of the table are stored in child tables."""
        return self.stored and self.events is not None and self.events.spreads

    @property
    def by_statement(self) -> bool:
        """Whether a statement that writes rows of the source has the same effect on its rows here.

        False for a handler of which only the events of rows are known: those of ``events`` and
        ``incomparable``.
        """
        return self.whole and self.events is None and not (self.incomparable or self.renamed)

    def of(self, held: TableRules) -> TableRules:
        """The rules that remain where the provider's rules are ``held``."""
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
        """Takes secrets from the settings of the process, which are not options of a table."""

    @classmethod
    def complete(cls, pairs: Mapping[str, str]) -> Mapping[str, str]:
        """The options to store, from those of a command."""
        return pairs

    def wants(self) -> TableRules:
        """The rules of the options.  Raises UsageError when they exclude each other."""
        return ALL

    def holds(self) -> TableRules:
        """The rules about rows and columns, as far as another node can know them."""
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
        raise UsageError(
            "text contains a zero byte", hint="remove the zero byte: PostgreSQL does not support it"
        )
    quoted = "'" + text.replace("'", "''") + "'"
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
