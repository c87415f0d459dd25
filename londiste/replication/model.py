"""Replicated tables and sequences as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from londiste.cascade.model import decode_attrs as decode_attrs
from londiste.cascade.model import encode_attrs as encode_attrs
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers import registry, table_rules
from londiste.handlers.base import TableRules
from londiste.handlers.table_rules import HandlerAttrs

#: What can capture a table, and its letter among the trigger flags.
TRIGGERS = {"capture": "C", "logutriga": "L", "jsontriga": "J", "sqltriga": "Q"}
_FLAGS = "tgflags="


@dataclass(frozen=True)
class ReplicatedTable:
    """One row of ``londiste.get_table_list``.

    name -- as the events name it.
    dest -- the table in this database.
    local -- this node replicates the data; otherwise all other fields are empty.
    state -- text of the sync state: None, in-copy, catching-up, wanna-sync:N, do-sync:N, ok.
    snapshot -- what the copy has seen, as text; None when no filter is needed.
    attrs -- decoded key=value pairs.
    dropped_ddl -- statements that restore what the copy dropped.
    copy_role, copy_pos -- part of a copy from several queues; None and 0 when there is one.
    """

    name: TableName
    dest: TableName
    local: bool
    state: str | None = None
    snapshot: str | None = None
    attrs: Mapping[str, str] = field(default_factory=dict)
    dropped_ddl: str | None = None
    copy_role: str | None = None
    copy_pos: int = 0

    @cached_property
    def wants(self) -> TableRules:
        """The rules of its attributes.  Raises BadOption for a handler that this process does
        not know.
        """
        return table_rules.wants(self.attrs)

    @cached_property
    def holds(self) -> TableRules:
        """The rules on another node, whose keys are not known here.  Raises BadOption."""
        return table_rules.holds(self.attrs)

    @property
    def is_whole(self) -> bool:
        """Whether all columns are replicated unchanged; False where its handlers are not known."""
        try:
            return self.wants.whole
        except BadOption:
            return False

    @property
    def known_rules(self) -> TableRules | None:
        """Its rules; None where its rows are not stored, or its handlers are not known."""
        try:
            return self.wants if self.wants.stored else None
        except BadOption:
            return None

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that its rules name; none where its handlers are not known."""
        try:
            return self.holds.named if self.holds.stored else frozenset()
        except BadOption:
            return frozenset()

    @property
    def keeps_rows(self) -> bool:
        """Whether another node stores its rows; its handlers may not be known here."""
        try:
            return self.holds.stored
        except BadOption:
            return True

    @property
    def in_children(self) -> bool:
        """Whether its rows are stored in child tables, as far as its handler is known here."""
        try:
            return self.holds.spreads
        except BadOption:
            return False


#: Attribute of a table whose events from before are to go out of the queue of this branch.
FORGET = "forget_events"
#: Attribute of a table of a branch that was changed: the nodes below have yet to copy it again.
COPY_BELOW = "copy_subscribers"

MERGE_ALL, NO_MERGE = "merge_all", "no_merge"

#: In which way tables can be asked to be copied.
COPY_MODES = ("auto", "snapshot", "resumable")


def copy_mode(table: ReplicatedTable) -> str:
    """The requested copy mode: auto, snapshot or resumable."""
    return table.attrs.get("copy_mode", "auto")


def most_parts(table: ReplicatedTable) -> int:
    """How many queues may copy into one table at a time."""
    number = table.attrs.get("max_parallel_copy", "")
    return int(number) if number.isdecimal() and int(number) > 0 else 8


def with_copy_mode(attrs: Mapping[str, str], mode: str) -> dict[str, str]:
    """The attributes of a table that is to be copied in this mode."""
    rest = {name: value for name, value in attrs.items() if name != "copy_mode"}
    return rest if mode in {"", "auto"} else {**rest, "copy_mode": mode}


@dataclass(frozen=True)
class ReplicatedSequence:
    """One row of ``londiste.get_seq_list``; ``last_value`` is the published value."""

    name: TableName
    last_value: int
    local: bool


@dataclass(frozen=True)
class SequenceValue:
    """One row of ``londiste.sequence_values``; ``unused``: the value is the next one."""

    name: TableName
    last_value: int
    unused: bool


@dataclass(frozen=True)
class PendingForeignKey:
    """A foreign key that was dropped for a copy; ``definition`` creates it again."""

    from_table: TableName
    to_table: TableName
    name: str
    definition: str


@dataclass(frozen=True)
class TableOptions:
    """How tables are added.

    expect_sync -- the target already has the rows: no copy.
    skip_truncate -- keep the rows of the target when the copy starts.
    dest -- name of the table in this database, when it differs; one table only.
    create -- create a missing table like the provider's: columns and primary key.
    create_full -- the same with all parts; create_without -- parts to exclude (``Part``);
        create_needs -- also create the functions and extensions that it needs.
    allow_code -- created tables may run code of the provider: such functions, volatile ones, rules.
    trigger_flags -- letters B A C Q L J I U D S of ``londiste.create_trigger``.
    trigger -- capture, logutriga, jsontriga or sqltriga; empty leaves it to the flags.
    form -- row, statement or auto: how the native capture writes; empty is auto.
    trigger_args -- raw arguments for the trigger: pkey=…, ignore=…, when=…, ev_extra3=…
    triggers -- False: none on this node.
    insert_only -- admit tables without key; UPDATE and DELETE fail at the source.
    whole_row -- admit them with UPDATE and DELETE, which match a row by all its columns.
    copy_mode -- snapshot or resumable: copy mode; empty and auto: by size and key.
    choice -- handler, row filter, columns, and the conflict policy.
    sequences -- also replicate those of its columns: serial, identity, and named by defaults.
    copy_node -- copy from this node; ``?``: from the nearest node upstream that has the rows.
    merge -- merge_all: all queues whose leaves are here fill the table; no_merge: this one alone.
    max_parallel_copy -- how many of them copy at a time.
    unique_keys -- the keys of all rows of all sources differ: a filter may delete by key.
    """

    expect_sync: bool = False
    skip_truncate: bool = False
    dest: TableName | None = None
    create: bool = False
    create_full: bool = False
    create_without: tuple[str, ...] = ()
    create_needs: bool = False
    allow_code: bool = False
    trigger_flags: str = ""
    trigger_args: tuple[str, ...] = ()
    triggers: bool = True
    insert_only: bool = False
    whole_row: bool = False
    trigger: str = ""
    form: str = ""
    copy_mode: str = ""
    choice: HandlerAttrs = field(default_factory=HandlerAttrs)
    sequences: bool = True
    copy_node: str = ""
    merge: str = ""
    max_parallel_copy: int | None = None
    unique_keys: bool = False

    def words(self, *, root: bool = True) -> list[str]:
        """The value of ``i_trg_args`` of ``local_add_table``, on the root or below."""
        words = list(self.trigger_args)
        if self.form:
            words.append(f"form={self.form}")
        flags = self.trigger_flags + TRIGGERS.get(self.trigger, "")
        if flags:
            words.append(f"tgflags={flags}")
        for word, given in (
            ("expect_sync", self.expect_sync),
            # The table is emptied when it is added: no part empties it of the others' rows.
            ("skip_truncate", self.skip_truncate or self.merge == MERGE_ALL),
            ("no_triggers", not self.triggers),
            (self.merge, bool(self.merge)),
            ("insert_only", self.insert_only and not self.whole_row),
            ("whole_row", self.whole_row),
        ):
            if given:
                words.append(word)
        more = registry.make(self.choice.handler).words(root=root)
        return [*words, *(word for word in more if word not in words)]

    @property
    def wants(self) -> TableRules:
        """The rules that follow from the attributes.  Raises BadOption."""
        return table_rules.wants(self.choice.attrs())


def with_trigger(words: Sequence[str]) -> list[str]:
    """The words for ``londiste.create_trigger``, with a letter for the trigger.

    The native capture, which is not the default of the SQL function, because Londiste 3 calls the
    same function; jsontriga where only a compatible trigger will do.
    """
    flags = [word for word in words if word.startswith(_FLAGS)]
    given = flags[-1][len(_FLAGS) :].upper() if flags else ""
    if set(given) & set(TRIGGERS.values()) or "no_triggers" in words:
        return list(words)
    compatible = (
        set(given) & {"B", "S"}
        or "skip" in {word.lower() for word in words}
        or any(word.startswith(("ev_type=", "ev_data=", "ev_extra1=")) for word in words)
    )
    rest = [word for word in words if not word.startswith(_FLAGS)]
    return [*rest, f"{_FLAGS}{given}{'J' if compatible else 'C'}"]


@dataclass(frozen=True)
class StaleCapture:
    """A capture that does not match its table.

    reason -- what differs, and the statement that helps; kind -- changed, owner, dropped, or
        locked: not compared.
    """

    table: str
    reason: str
    kind: str


@dataclass(frozen=True)
class SkippedEvents:
    """Events that an operator skips.

    rows -- event and row in it, 0 for a single row; tables -- of this node, of these events.
    """

    rows: frozenset[tuple[int, int]] = frozenset()
    tables: frozenset[TableName] = frozenset()


#: None is skipped.
NO_SKIPS: Final = SkippedEvents()
