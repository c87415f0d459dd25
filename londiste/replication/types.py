"""Replicated tables and sequences as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, unquote

from londiste.db.names import TableName
from londiste.handlers import registry, wanted
from londiste.handlers.base import Wants
from londiste.handlers.wanted import Choice

#: What can capture a table, and its letter among the trigger flags.
TRIGGERS = {"capture": "C", "logutriga": "L", "jsontriga": "J", "sqltriga": "Q"}


@dataclass(frozen=True)
class ReplicatedTable:
    """One row of ``londiste.get_table_list``.

    name -- as the events have it.
    dest -- the table in this database.
    local -- this node keeps the data; without it all else is empty.
    state -- text of the sync state: None, in-copy, catching-up, wanna-sync:N, do-sync:N, ok.
    snapshot -- what the copy has seen, as text; None when no filter is needed.
    attrs -- decoded key=value pairs.
    dropped_ddl -- statements that put back what the copy took off.
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
    def wants(self) -> Wants:
        """What its attributes ask for.  Raises BadOption when this process does not know it."""
        return wanted.wants(self.attrs)


#: In which way tables can be asked to be copied.
COPY_MODES = ("auto", "snapshot", "resumable")


def copy_mode(table: ReplicatedTable) -> str:
    """In which way the user wants it copied: auto, snapshot or resumable."""
    return table.attrs.get("copy_mode", "auto")


def with_copy_mode(attrs: Mapping[str, str], mode: str) -> dict[str, str]:
    """The attributes of a table that is to be copied in this way."""
    rest = {name: value for name, value in attrs.items() if name != "copy_mode"}
    return rest if mode in {"", "auto"} else {**rest, "copy_mode": mode}


@dataclass(frozen=True)
class ReplicatedSequence:
    """One row of ``londiste.get_seq_list``; ``last_value`` is the published value."""

    name: TableName
    last_value: int
    local: bool


@dataclass(frozen=True)
class PendingForeignKey:
    """A foreign key that was taken off for a copy; ``definition`` makes it again."""

    from_table: TableName
    to_table: TableName
    name: str
    definition: str


@dataclass(frozen=True)
class TableOptions:
    """How tables are added.

    expect_sync -- the rows are there already: no copy.
    skip_truncate -- keep the rows that are there when the copy comes.
    dest -- name of the table in this database, when it differs; one table only.
    create -- make a table that is missing, after the provider's.
    trigger_flags -- letters B A C Q L J I U D S of ``londiste.create_trigger``.
    trigger -- capture, logutriga, jsontriga or sqltriga; empty leaves it to the flags.
    form -- row, statement or auto: how our own capture writes; empty is auto.
    trigger_args -- raw arguments for the trigger: pkey=…, ignore=…, when=…, ev_extra3=…
    triggers -- False: none on this node.
    insert_only -- admit tables without key; UPDATE and DELETE fail at the source.
    copy_mode -- snapshot or resumable: in which way the table is copied; empty and auto: by rule.
    choice -- handler, row filter and columns.
    """

    expect_sync: bool = False
    skip_truncate: bool = False
    dest: TableName | None = None
    create: bool = False
    trigger_flags: str = ""
    trigger_args: tuple[str, ...] = ()
    triggers: bool = True
    insert_only: bool = False
    trigger: str = ""
    form: str = ""
    copy_mode: str = ""
    choice: Choice = field(default_factory=Choice)

    def words(self, *, root: bool = True) -> list[str]:
        """The list that ``local_add_table`` takes as ``i_trg_args``, on the root or below."""
        words = list(self.trigger_args)
        if self.form:
            words.append(f"form={self.form}")
        flags = self.trigger_flags + TRIGGERS.get(self.trigger, "")
        if flags:
            words.append(f"tgflags={flags}")
        for word, given in (
            ("expect_sync", self.expect_sync),
            ("skip_truncate", self.skip_truncate),
            ("no_triggers", not self.triggers),
            ("insert_only", self.insert_only),
        ):
            if given:
                words.append(word)
        more = registry.make(self.choice.handler).words(root=root)
        return [*words, *(word for word in more if word not in words)]

    @property
    def wants(self) -> Wants:
        """What the choice comes to.  Raises BadOption."""
        return wanted.wants(self.choice.attrs())


def decode_attrs(text: str | None) -> dict[str, str]:
    """``a=1&b=x%2cy`` as a dict; a key without ``=`` has the value ''."""
    pairs: dict[str, str] = {}
    for item in (text or "").split("&"):
        if item:
            key, _, value = item.partition("=")
            pairs[unquote(key.replace("+", " "))] = unquote(value.replace("+", " "))
    return pairs


def encode_attrs(pairs: Mapping[str, str]) -> str | None:
    """The stored form; None for no pairs."""
    return "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items()) or None
