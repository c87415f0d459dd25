"""Input of the applier: changes of one table in order, and their net changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from londiste.changes.types import RowChange, Truncate
from londiste.db.relation import Relation

TableChange: TypeAlias = RowChange | Truncate


@dataclass(frozen=True)
class Net:
    """Net changes of a run of changes; each of the five lists has a key at most once.

    Done in this order: truncate, deletes, unsets, updates, sets, inserts.  A key that is in deletes
    or unsets and in inserts is replaced.

    truncated -- the table is emptied first; the lists hold what happened after that.
    deletes, unsets -- the image holds at least the key; an unset may find no row.
    updates, sets, inserts -- the last image of the row; a set may find the row or not.
    """

    truncated: bool
    deletes: Sequence[RowChange]
    updates: Sequence[RowChange]
    inserts: Sequence[RowChange]
    unsets: Sequence[RowChange]
    sets: Sequence[RowChange]


class Verb(StrEnum):
    """Operation on a set of rows; sets of one table are written in this order."""

    DELETE = "delete"
    UNSET = "unset"
    UPDATE = "update"
    SET = "set"
    INSERT = "insert"


@dataclass
class RowSet:
    """Rows of one table with the same operation, as JSON texts that are not parsed.

    key -- columns that find the row.
    columns -- those of the images; of deletes and unsets only the key is used.
    lines -- one image each; packs -- many images each, one to a line.
    count -- of the images.
    alike -- the images have the columns in this order.
    """

    verb: Verb
    key: tuple[str, ...]
    columns: tuple[str, ...]
    lines: list[str]
    packs: list[str]
    count: int
    alike: bool = True


@dataclass(frozen=True)
class TablePlan:
    """The work for one table of this node.

    truncated -- it is emptied first.
    sets -- what is done then, in this order; each key in one set of rows only, except that one of
        a delete or unset may be in an insert.  None when only the order of the events is right;
        ``reason`` says why.
    changes -- of this table in the order of the events, where they are at hand.
    """

    shape: Relation
    truncated: bool
    sets: Sequence[RowSet] | None
    reason: str = ""
    changes: Sequence[TableChange] = ()


#: The changes of all tables of some plans in the order of their events, decoded again each time.
ReplayChanges: TypeAlias = Callable[[], Iterable[tuple[Relation, TableChange]]]
