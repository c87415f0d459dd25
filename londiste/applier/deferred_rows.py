"""Deferred rows: rows whose unique value still belongs to another row of the table.

Written one by one, changes may meet each other in an order that was none: events of a table's state
tell one row after the other what each has *now*, so the first may have a value that a row has given
away whose own event comes next.  Such a row is taken out of the table and kept here as it is to be;
later events of its key change it here; when all is written it is put back.

Why that is right.  The table and the rows set aside are, together, at every moment what the events
so far make of a table without unique constraints besides its key: taking a row out and putting it
back changes nothing of that.  When every event of a batch is written, that is what was committed on
the provider, where no two rows have a unique value in common.  So all rows go back, in any order,
and one that does not says that the table is not the provider's.

The same order has inserts that are told before the delete of the row that they replace.  Such a row
is set aside as one too many: the state of its key, which comes with the delete, says how it is.  If
none comes, the insert was wrong.

Putting a row back earlier, or in vain, does no harm either; a value that it takes too early only
sets another row aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.db.relation import Folding, Relation

Image = dict[str, str | None]

#: What a unique and an exclusion constraint refuse with.
CONFLICTS = frozenset({"23505", "23P01"})


class Contradiction(Exception):
    """An event that cannot follow: it inserts a row that exists."""


@dataclass(eq=False)
class Row:
    """A row that is not in its table.

    image -- the columns as they are to be; one that is missing has its default.
    change -- the last event that had a part in it.
    twice -- the table has a row with its key, too.
    before -- the row that was taken out of the table, if a policy may want it back.
    """

    shape: Relation
    image: Image
    change: RowChange
    twice: bool = False
    before: Image | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the row is put back with."""
        return tuple(name for name in self.image if not self.shape.by_name[name].generated)


def follow(image: Image, change: RowChange) -> Image | None:
    """Applies an event of the same key to a row; None: the row is deleted.

    Columns that the event does not name keep their values.  Raises Contradiction.
    """
    if change.op is Op.DELETE:
        return None
    if change.op is Op.INSERT and not change.state:
        raise Contradiction
    return {**image, **change.image}


class DeferredRows:
    """The deferred rows of all tables."""

    def __init__(self) -> None:
        self._rows: dict[TableName, list[Row]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def rows(self) -> list[Row]:
        """All of them, in the order in which they came."""
        return [row for rows in self._rows.values() for row in rows]

    def add(self, row: Row) -> None:
        """Sets a row aside; there is none with its key."""
        self._rows.setdefault(row.shape.name, []).append(row)

    def remove(self, row: Row) -> None:
        """Removes a row that is back in its table, or deleted."""
        rows = self._rows[row.shape.name]
        rows.remove(row)
        if not rows:
            del self._rows[row.shape.name]

    def empty(self, table: TableName) -> None:
        """Drops the deferred rows of a truncated table."""
        self._rows.pop(table, None)

    def forget(self) -> None:
        """Drops all rows, after the end of their transaction."""
        self._rows.clear()

    def find(
        self,
        change: RowChange,
        shape: Relation,
        same: Callable[[Sequence[Mapping[str, str | None]]], int | None],
    ) -> Row | None:
        """The deferred row of an event's key, if there is one.

        same -- finds the key of the event among keys by the operator of its type, where the text
            does not tell; returns its place among them.
        """
        rows = self._rows.get(shape.name)
        key = change.key or shape.key
        if not rows or not key:
            return None
        foldings = [shape.by_name[name].folding for name in key]
        if Folding.NEVER in foldings:
            place = same([{name: row.image.get(name) for name in key} for row in rows])
            return None if place is None else rows[place]
        wanted = _canonical(change.image, key, foldings)
        return next((r for r in rows if _canonical(r.image, key, foldings) == wanted), None)


def _canonical(
    image: Mapping[str, str | None], key: Sequence[str], foldings: Sequence[Folding]
) -> list[str | None]:
    values = [image.get(name) for name in key]
    return [
        value if value is None else folding.canonical(value)
        for value, folding in zip(values, foldings, strict=True)
    ]
