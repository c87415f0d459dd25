"""Net changes of a tick: one change for each row that it changed.

    first \\ last       insert or update    delete
    insert             insert              nothing
    update, delete     update              delete
    state              insert              delete

Events come in any order; the order of the changes of a row is that of their ids.  An event of the
state of a row does not tell whether the row existed before, so what follows from it is a state.

Such an event takes back what an earlier insert has told: one part of a query may log an insert
before another part logs, as a state, that the row which it replaces was deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.engine.spark.stream import preimages
from londiste.engine.spark.stream.preimages import Change
from londiste.errors import EventError
from londiste.pgq.types import Event, Tick

_Key = tuple[int, TableName, tuple[str | None, ...]]


class NetChanges:
    """First and last change of each row."""

    def __init__(self, preimages: bool = False) -> None:
        """preimages -- an update that leaves the row as it was is no change."""
        self._preimages = preimages
        self._ticks: dict[int, Tick] = {}
        self._first: dict[_Key, Change] = {}
        self._last: dict[_Key, Change] = {}
        self._with_state: set[_Key] = set()

    def add(self, event: Event, tick: Tick, change: RowChange) -> None:
        """Takes a change.  Raises EventError for one that cannot be combined with others."""
        if change.partial:
            raise EventError(
                f"event {event.id}: table {change.table}: row image has only the changed columns",
                detail="a net change needs all columns",
                hint="omit deduplicationMode, or replace the table's trigger pgq.sqltriga",
                event_id=event.id,
            )
        self._ticks[tick.id] = tick
        # Rows of a table without a key are not the same row.
        where = str(event.id), str(change.row)
        values = tuple(change.image[name] for name in change.key) if change.key else where
        key = (tick.id, change.table, values)
        if change.state:
            self._with_state.add(key)
        place = event.id, change.row
        for known, sign in ((self._first, -1), (self._last, 1)):
            found = known.get(key)
            if found is None or ((found[0].id, found[1].row) < place) == (sign > 0):
                known[key] = (event, change)

    def changes(self) -> Iterator[tuple[Event, Tick, RowChange, Change]]:
        """The net changes, in the order of events; each with the one that has the old row."""
        order = sorted(self._last, key=lambda key: (self._last[key][0].id, self._last[key][1].row))
        for key in order:
            first, (event, last) = self._first[key], self._last[key]
            inserted = first[1].op is Op.INSERT and key in self._with_state
            change = net(first[1]._replace(state=True) if inserted else first[1], last)
            if change is None:
                continue
            if self._preimages and change.op is Op.UPDATE:
                first = preimages.old_row(*first)
                if first[1].image == change.image:
                    continue
                # What is asked for is the old row of an update.
                first = first[0]._replace(extra2=first[0].data), first[1]._replace(op=Op.UPDATE)
            yield event, self._ticks[key[0]], change, first


def net(first: RowChange, last: RowChange) -> RowChange | None:
    """The net change of a row; None: there is none."""
    if last.op is Op.DELETE:
        created = first.op is Op.INSERT and not first.state
        return None if created else last
    if first.state:
        return last._replace(op=Op.INSERT, state=True)
    return last._replace(op=Op.INSERT if first.op is Op.INSERT else Op.UPDATE)
