"""Net changes of one table per key, computed without decoding rows.

Our own capture gives each row the text of its key (``changes/keyed.py``), so the last image of a
key is found without decoding any: images stay the lines of JSON that the provider's server has
written, up to the server that reads them here.  Per event this is two entries in two dicts; there
is no object for an event.

A packed event whose keys nothing else in the run has met is passed on as it is.  It is taken apart
when a later event meets one of its keys.

The result is right where equal keys have equal texts; the caller knows whether they do here, and
whether the columns exist.  What cannot be folded is told by ``reason``: the caller then decodes the
events and goes the slow way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from londiste.applier.plan import RowSet, Verb
from londiste.changes.types import Op
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

#: Codes from here on are those of keys that lie in a pack: this plus its number.
PACKED: Final = 16

STEPS: Final = {(op, state): steps(op, state) for op in Op for state in (False, True)}

_VERBS: Final[dict[int, tuple[Verb, ...]]] = {
    INSERTED: (Verb.INSERT,),
    UPDATED: (Verb.UPDATE,),
    DELETED: (Verb.DELETE,),
    REPLACED: (Verb.DELETE, Verb.INSERT),
    SET: (Verb.SET,),
    UNSET: (Verb.UNSET,),
    RESET: (Verb.UNSET, Verb.INSERT),
}


class _Pack:
    """An unopened packed event: its remaining verb, keys and rows."""

    __slots__ = ("count", "data", "keys", "known")

    def __init__(self, known: int, keys: Sequence[str], data: str, count: int) -> None:
        self.known = known
        self.keys = keys
        self.data = data
        self.count = count


class NetFold:
    """States of the keys of one table in a run of events.

    ``codes`` and ``lines`` are there for the loop that feeds it, which does for a plain event what
    ``row`` does.

    codes -- key text -> state of ``keystate``, or PACKED and more.
    lines -- key text -> last image.
    start -- state of a key that is not in ``codes``.
    reason -- why the run cannot be folded, '' while it can.
    """

    __slots__ = (
        "_alike",
        "_loose",
        "_packs",
        "codes",
        "columns",
        "key",
        "lines",
        "reason",
        "start",
    )

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.lines: dict[str, str] = {}
        self.start = UNSEEN
        self.reason = ""
        self.key: tuple[str, ...] | None = None
        self.columns: tuple[str, ...] = ()
        self._alike = True
        self._loose: list[str] = []
        self._packs: list[_Pack | None] = []

    @property
    def truncated(self) -> bool:
        """Whether the table is emptied first."""
        return self.start == GONE

    def admit(
        self, op: Op, key: tuple[str, ...], columns: tuple[str, ...], *, alike: bool = True
    ) -> None:
        """Checks events of a new type: whether their form is that of the others.

        columns -- those of the images, in their order, that are to be written.
        alike -- the images have no others.
        """
        if self.key is None:
            self.key = key
        if key != self.key:
            self.fail("the key changes among the events")
        if not set(key) <= set(columns):
            self.fail("the events lack key columns")
        if op is Op.DELETE:
            return
        self._alike = self._alike and alike
        if not self.columns:
            self.columns = columns
        elif set(columns) != set(self.columns):
            self.fail("the columns change among the events")
        elif columns != self.columns:
            self._alike = False

    def fail(self, reason: str) -> None:
        """Stops computing net changes; the first reason is kept."""
        self.reason = self.reason or reason
        self._forget()

    def truncate(self) -> None:
        """Records a TRUNCATE: earlier changes no longer matter."""
        self._forget()
        self.start = GONE

    def row(self, key: str, line: str, op: Op, state: bool) -> None:
        """One row."""
        now = self.codes.get(key, self.start)
        if now >= PACKED:
            now = self.unpack(now)
        then = STEPS[op, state][now]
        if then == WRONG:
            self.fail(contradiction(op, self.truncated))
            return
        self.codes[key] = then
        self.lines[key] = line

    def keyless(self, data: str, pack: bool) -> None:
        """Adds one or many rows of a table without a key: inserts only."""
        if pack:
            self._packs.append(_Pack(INSERTED, (), data, data.count("\n") + 1))
        else:
            self._loose.append(data)

    def pack(self, keys: list[str], data: str, op: Op, state: bool) -> None:
        """Adds many rows: their keys, and their images, one to a line."""
        codes = self.codes
        then = STEPS[op, state][self.start]
        fresh = dict.fromkeys(keys, PACKED + len(self._packs))
        if then != WRONG and len(fresh) == len(keys) and codes.keys().isdisjoint(keys):
            codes.update(fresh)
            self._packs.append(_Pack(then, keys, data, len(keys)))
            return
        for key, line in zip(keys, data.split("\n"), strict=True):
            self.row(key, line, op, state)

    def unpack(self, code: int) -> int:
        """Opens the pack that contains a key with this code; returns the key's state."""
        pack = self._packs[code - PACKED]
        assert pack is not None
        self._packs[code - PACKED] = None
        self.codes.update(dict.fromkeys(pack.keys, pack.known))
        self.lines.update(zip(pack.keys, pack.data.split("\n"), strict=True))
        return pack.known

    def result(self) -> list[RowSet]:
        """The net changes, after ``truncated``; each key in the lists of one state only.

        Do it in the order of ``Verb``.  Nothing may be added afterwards.
        """
        rows: list[list[str]] = [[] for _ in range(RESET + 1)]
        packs: list[list[str]] = [[] for _ in range(RESET + 1)]
        counts = [0] * (RESET + 1)
        add, codes = [group.append for group in rows], self.codes
        for key, line in self.lines.items():
            add[codes[key]](line)
        for pack in self._packs:
            if pack is not None:
                packs[pack.known].append(pack.data)
                counts[pack.known] += pack.count
        rows[INSERTED] += self._loose
        found = {
            verb: RowSet(verb, self.key or (), self.columns, [], [], 0, self._alike)
            for verb in Verb
        }
        for state, verbs in _VERBS.items():
            for verb in verbs:
                found[verb].lines += rows[state]
                found[verb].packs += packs[state]
                found[verb].count += len(rows[state]) + counts[state]
        return [group for group in found.values() if group.count]

    def _forget(self) -> None:
        # Emptied, not replaced: the feeding loop has them in hand.
        self.codes.clear()
        self.lines.clear()
        self._loose.clear()
        self._packs.clear()
