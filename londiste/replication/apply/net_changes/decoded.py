"""Net changes of one table per key, computed from decoded changes.

A row that is inserted, updated twice and deleted inside one batch costs nothing; an update of
a hot row costs one statement instead of thousands.  What is left can be written as sets,
because it no longer matters in which order different keys are written.

Two things decide what is left of a key: whether its row was there before the first event, and
whether it is there after the last one; ``keystate`` has the table.

Events that cannot follow each other (insert of a row that is there, update of one that is
not) and keys whose texts do not tell whether they are equal are left to the row-by-row way,
which then names the event that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from londiste.applier.plan import Net, TableChange
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.relation import Folding, Relation
from londiste.replication.apply.net_changes.states import (
    DELETED,
    GONE,
    INSERTED,
    REPLACED,
    RESET,
    SET,
    UNSEEN,
    UNSET,
    UPDATED,
    WRONG,
    contradiction,
    steps,
)

Key = tuple[str, ...]

_STEPS = {(op, state): steps(op, state) for op in Op for state in (False, True)}
_THERE = {INSERTED, UPDATED, REPLACED, SET, RESET}


class NotFoldable(Exception):
    """No net changes can be computed; the text says why."""


class _Entry:
    """State of one key, and its last image."""

    __slots__ = ("change", "known")

    def __init__(self, known: int, change: RowChange) -> None:
        self.known = known
        self.change = change


def fold(changes: Iterable[TableChange], shape: Relation) -> Net:
    """The net changes of one table; ``changes`` in the order of their events.

    Raises NotFoldable.
    """
    truncated = False
    entries: dict[Key, _Entry] = {}
    keyless = _Keyless()
    columns: tuple[str, ...] | None = None
    canonical: Callable[[RowChange], Key] = _no_key
    for change in changes:
        if isinstance(change, Truncate):
            truncated = True
            entries.clear()
            keyless.clear()
            continue
        if change.partial:
            raise NotFoldable("updates contain only the changed columns")
        names = change.key or (shape.key if change.op is Op.INSERT else ())
        if names != columns:
            if columns is not None:
                raise NotFoldable("the key changes among the events")
            columns = names
            canonical = _canonical(names, shape)
        if not names:
            keyless.add(change)
            continue
        key = canonical(change)
        entry = entries.get(key)
        known = entry.known if entry is not None else GONE if truncated else UNSEEN
        then = _STEPS[change.op, change.state][known]
        if then == WRONG:
            raise NotFoldable(contradiction(change.op, truncated))
        if entry is None:
            entries[key] = _Entry(then, change)
            continue
        if (
            change.op is not Op.DELETE
            and known in _THERE
            and change.image.keys() != entry.change.image.keys()
        ):
            # a column came or went between the two: what the later image does not name stays
            change = change._replace(image={**entry.change.image, **change.image})
        entry.known, entry.change = then, change
    return _net(truncated, entries, keyless)


class _Keyless:
    """Net changes of a table without a key: equal rows are interchangeable."""

    def __init__(self) -> None:
        self.gone: list[RowChange] = []
        self._added: dict[tuple[tuple[str, str | None], ...], list[RowChange]] = {}

    def add(self, change: RowChange) -> None:
        row = tuple(change.image.items())
        if change.op is Op.INSERT:
            self._added.setdefault(row, []).append(change)
        elif change.op is Op.UPDATE:
            raise NotFoldable("the table has no key")
        elif self._added.get(row):
            self._added[row].pop()
        else:
            self.gone.append(change)

    def clear(self) -> None:
        self.gone.clear()
        self._added.clear()

    @property
    def added(self) -> list[RowChange]:
        return [change for changes in self._added.values() for change in changes]


def _net(truncated: bool, entries: dict[Key, _Entry], keyless: _Keyless) -> Net:
    deletes: list[RowChange] = list(keyless.gone)
    unsets: list[RowChange] = []
    updates: list[RowChange] = []
    sets: list[RowChange] = []
    inserts: list[RowChange] = keyless.added
    where: dict[int, tuple[list[RowChange], ...]] = {
        INSERTED: (inserts,),
        UPDATED: (updates,),
        DELETED: (deletes,),
        REPLACED: (deletes, inserts),
        SET: (sets,),
        UNSET: (unsets,),
        RESET: (unsets, inserts),
    }
    for entry in entries.values():
        for group in where.get(entry.known, ()):
            group.append(entry.change)
    return Net(truncated, deletes, updates, inserts, unsets, sets)


def _no_key(change: RowChange) -> Key:
    return ()


def _canonical(names: tuple[str, ...], shape: Relation) -> Callable[[RowChange], Key]:
    """Returns the function for a change's key in a form that only equal keys share."""
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
