"""Many changes of one table, folded to one per key.

A row that is inserted, updated twice and deleted inside one batch costs nothing; an update of
a hot row costs one statement instead of thousands.  What is left can be written as sets,
because it no longer matters in which order different keys are written.

Two states decide what is left of a key: whether its row was there before the first event, and
whether it is there after the last one:

    first event   last event   what is left
    insert        delete       nothing
    insert        other        insert, with the last image
    other         delete       delete
    delete        insert …     delete and insert: columns that only this node has start anew,
                               as they would event by event
    update        update       update, with the last image

Events that cannot follow each other (insert of a row that is there, update of one that is
not) and keys whose texts do not tell whether they are equal are left to the row-by-row way,
which then names the event that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.shape import Folding, TableShape
from londiste.engine.applyspec import Net, TableChange

Key = tuple[str, ...]


class NotFoldable(Exception):
    """Only the order of the events is right for these changes; the text says why."""


class _Entry:
    """What is known of one key: ``first`` row before, ``there`` row after, and its last image."""

    __slots__ = ("change", "existed", "replaced", "there")

    def __init__(self, change: RowChange) -> None:
        self.existed = change.op is not Op.INSERT
        self.there = change.op is not Op.DELETE
        self.replaced = False
        self.change = change


def fold(changes: Iterable[TableChange], shape: TableShape) -> Net:
    """The net effect of the changes of one table, which are in the order of their events.

    Raises NotFoldable.
    """
    truncated = False
    entries: dict[Key, _Entry] = {}
    keyless: list[RowChange] = []
    columns: tuple[str, ...] | None = None
    canonical: Callable[[RowChange], Key] = _no_key
    for change in changes:
        if isinstance(change, Truncate):
            truncated = True
            entries.clear()
            keyless.clear()
            continue
        if change.partial:
            raise NotFoldable("updates hold only the changed columns")
        names = change.key or (shape.key if change.op is Op.INSERT else ())
        if names != columns:
            if columns is not None:
                raise NotFoldable("the key changes among the events")
            columns = names
            canonical = _canonical(names, shape)
        if not names:
            if change.op is not Op.INSERT:
                raise NotFoldable("the table has no key")
            keyless.append(change)
            continue
        key = canonical(change)
        entry = entries.get(key)
        if entry is None:
            entries[key] = _Entry(change)
        else:
            _next(entry, change)
    return _net(truncated, entries, keyless)


def _next(entry: _Entry, change: RowChange) -> None:
    if change.op is Op.INSERT:
        if entry.there:
            raise NotFoldable("a row is inserted twice")
        entry.there = True
        entry.replaced = entry.existed
        entry.change = change
        return
    if not entry.there:
        raise NotFoldable("a row is changed after it was deleted")
    if change.op is Op.DELETE:
        entry.there = False
        entry.replaced = False
        if not entry.existed:
            entry.change = change
            return
    elif change.image.keys() != entry.change.image.keys():
        # a column came or went between the two: what the later image does not name stays
        change = change._replace(image={**entry.change.image, **change.image})
    entry.change = change


def _net(truncated: bool, entries: dict[Key, _Entry], keyless: list[RowChange]) -> Net:
    deletes: list[RowChange] = []
    updates: list[RowChange] = []
    inserts: list[RowChange] = list(keyless)
    for entry in entries.values():
        if entry.existed and (entry.replaced or not entry.there):
            if truncated:
                raise NotFoldable("a row is changed after the table was emptied")
            deletes.append(entry.change)
        if entry.there and (entry.replaced or not entry.existed):
            inserts.append(entry.change)
        elif entry.there:
            if truncated:
                raise NotFoldable("a row is changed after the table was emptied")
            updates.append(entry.change)
    return Net(truncated, deletes, updates, inserts)


def _no_key(change: RowChange) -> Key:
    return ()


def _canonical(names: tuple[str, ...], shape: TableShape) -> Callable[[RowChange], Key]:
    """The function that gives the key of a change in the form that only equal keys share."""
    foldings: list[tuple[str, Folding]] = []
    for name in names:
        column = shape.by_name.get(name)
        if column is None or column.folding is Folding.NEVER:
            kind = column.type_name if column else "no column of the table"
            raise NotFoldable(f"the text of key column {name} does not identify a row ({kind})")
        foldings.append((name, column.folding))
    plain = all(folding is Folding.TEXT for _, folding in foldings)

    def read(change: RowChange) -> Key:
        values = [change.image.get(name) for name in names]
        if None in values:
            raise NotFoldable("a key column is NULL")
        texts = [value for value in values if value is not None]
        if plain:
            return tuple(texts)
        return tuple(
            folding.canonical(text) for text, (_, folding) in zip(texts, foldings, strict=True)
        )

    return read
