"""Handlers ``noop``, ``vtable`` and others: tables whose rows replication does not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from londiste.handlers.base import Handler, TableRules


@dataclass(frozen=True)
class Nop(Handler):
    """Replication does not change the table's rows: no copy, events are ignored."""

    NAME: ClassVar[str] = "nop"

    def wants(self) -> TableRules:
        return TableRules(stored=False)

    def words(self, *, root: bool) -> Iterable[str]:
        return () if root else ("expect_sync",)


@dataclass(frozen=True)
class Virtual(Handler):
    """The table is registered on this node but does not exist; its events are ignored."""

    NAME: ClassVar[str] = "vtable"
    ALIASES: ClassVar[tuple[str, ...]] = ("fake_local",)

    def wants(self) -> TableRules:
        return TableRules(stored=False)

    def words(self, *, root: bool) -> Iterable[str]:
        return ("virtual_table",)


@dataclass(frozen=True)
class QueueTable(Handler):
    """An INSERT on the root becomes an event but no row; no node stores or applies it."""

    NAME: ClassVar[str] = "qtable"
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = {
        "queue": "on a leaf whose own queue is to get the events: --handler qsplitter"
        " --handler-arg queue=…; else --handler qtable without it",
    }

    def wants(self) -> TableRules:
        return TableRules(stored=False)

    def words(self, *, root: bool) -> Iterable[str]:
        return ("tgflags=BI", "skip", "expect_sync") if root else ("virtual_table",)
