"""Accumulator of a batch's events: sorts them by table and computes net changes.

    accumulator = Accumulator(interest)
    for block in stream(conn, batch):
        accumulator.add(block)
        if accumulator.bytes >= limit:
            work on accumulator.take(), a Part
    work on accumulator.take()

It queries no database and knows only the routes of this node's tables, so that one thread may read
the next batch while another writes this one.  The blocks stay with the part: events without net
changes, and those that the target refuses, are decoded from them in order.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from londiste.applier.plan import TableChange
from londiste.changes.decode import decode_all, singles
from londiste.changes.keyed import KeyedType, columns_digest, read_type
from londiste.changes.kinds import is_message, is_truncate
from londiste.changes.types import Change, Malformed, Op, RowChange, Truncate
from londiste.db.copy import unescaped
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.errors import ApplyError, EventError
from londiste.pgq.blocks import Alone, EventBlock
from londiste.pgq.types import Event
from londiste.replication.apply.net_changes.encoded import PACKED, STEPS, NetFold
from londiste.replication.apply.net_changes.states import WRONG, contradiction
from londiste.replication.apply.routing import Route, RoutingTable
from londiste.replication.tablesync.states import in_copy

#: What an event takes in memory besides its text: entries in two dicts, two strings.
EVENT_BYTES = 320
#: The same of a row in a packed event.
ROW_BYTES = 150

#: The fields of an event as COPY wrote them.
_Fields = list[str]
#: Bytes from which on an event is too long to be copied around.
LARGE = 4 << 20
#: Bytes of such events, and of what comes with them, that are held together: while they are
#: written they are in memory a few times.
LARGE_BYTES = 16 << 20

#: What is done with an event that is not a plain row.
_Other = Callable[[_Fields], None]
#: What is known of a type of events: the name of their table, as COPY wrote it; for plain rows the
#: fold, its dicts, its start and the steps of the operation; else what is done with them.
_Kind = tuple[str, NetFold, dict[str, int], dict[str, str], int, tuple[int, ...], _Other | None]


@dataclass
class BatchPart:
    """Some events of a batch, in order, reduced to net changes where possible without decoding.

    events -- number of events; applied -- those of them that this process applies.
    folds -- net changes by table of this node; one with a ``reason`` has none.
    messages -- of the cascade, in their order.
    first -- number of the first event of a table, and the table's name there.
    blocks -- the events.
    handed -- lines of events for the handlers of their tables, in order.
    """

    interest: RoutingTable
    events: int = 0
    applied: int = 0
    folds: dict[TableName, NetFold] = field(default_factory=dict)
    messages: list[Event] = field(default_factory=list)
    blocks: list[EventBlock] = field(default_factory=list)
    first: dict[TableName, tuple[int, TableName]] = field(default_factory=dict)
    handed: list[tuple[Route, str]] = field(default_factory=list)

    def work(self) -> Iterator[tuple[Route, list[Event]]]:
        """The events for handlers, in order: neighbours of one table together."""
        for _, some in itertools.groupby(self.handed, key=lambda one: id(one[0])):
            lines = list(some)
            route = lines[0][0]
            block = EventBlock("".join(f"{line}\n" for _, line in lines).encode(), len(lines))
            skips = self.interest.skips.rows
            if route.wants.events is not None and route.wants.events.skips_rows:
                skips = frozenset()
            yield route, [one for event in block for one in _left(event, skips)]

    def changes(self, tables: Collection[TableName]) -> Iterator[tuple[TableName, TableChange]]:
        """The changes of these tables of this node, decoded in the order of the events.

        Raises EventError.
        """
        route, skips = self.interest.route, self.interest.skips.rows
        for block in self.blocks:
            for event in block:
                found = None if is_message(event.type) else route(event.extra1, event.txid)
                if found is None or found.dest not in tables or (event.id, 0) in skips:
                    continue
                try:
                    for change in _decoded(event, found):
                        if not isinstance(change, RowChange | Truncate):
                            continue
                        row = change.row if isinstance(change, RowChange) else 0
                        if (event.id, row) in skips:
                            continue
                        wanted = found.change(event, change)
                        if wanted is not None:
                            yield found.dest, wanted
                except EventError as error:
                    if error.finding is None:
                        error.finding = ApplyError(table=str(found.source), dest=str(found.dest))
                    raise


class Accumulator:
    """Accumulates the events of a batch, block by block; ``take`` returns them as a ``Part``.

    interest -- which tables' events count, and where they go.
    bytes -- estimated memory of the events.
    """

    def __init__(self, interest: RoutingTable) -> None:
        self.interest = interest
        self.bytes = 0
        self._part = BatchPart(interest)
        self._long = False
        #: By type, the kind that came last; by type and name all of them.
        self._kinds: dict[str, _Kind] = {}
        self._pairs: dict[tuple[str, str], _Kind] = {}
        self._columns: dict[str, tuple[str, ...]] = {}

    def has_room(self, block: EventBlock, limit: int) -> bool:
        """Whether the block fits; otherwise ``take`` the present part first.

        limit -- of ``bytes``.
        """
        if block.nbytes > LARGE:
            limit = min(limit, LARGE_BYTES)
        return not self.bytes or self.bytes + block.nbytes <= limit

    def is_full(self, limit: int) -> bool:
        """Whether the part has to be taken before more is read."""
        return self.bytes >= (min(limit, LARGE_BYTES) if self._long else limit)

    def take(self) -> BatchPart:
        """The part: all that was added since the last call."""
        part, self._part = self._part, BatchPart(self.interest)
        self.bytes = 0
        self._long = False
        self._know_nothing()
        return part

    def add(self, block: EventBlock) -> None:
        """Adds the events of a block.

        Raises EventError for a retried event, and for one that is no text.  Events of unknown form
        are found when they are decoded.
        """
        part, kinds = self._part, self._kinds
        part.events += len(block)
        self.bytes += block.nbytes + EVENT_BYTES * len(block)
        texts: list[str] = []
        large = block.nbytes > LARGE and len(block) == 1
        try:
            if large:
                block.alone()
            else:
                texts = block.lines()
        except EventError:
            # It may be one that is skipped, or of another table.
            block = self.interest.readable(block)
            large, texts = False, block.lines()
        part.blocks.append(block)
        if large:
            self._add_large(block)
            return
        applied = 0
        for line in texts:
            fields = line.split("\t")
            id, _, _, retry, kind, data, name, _, key, _ = fields
            found = kinds.get(kind)
            if found is None or found[0] != name:
                found = self._kind(fields)
            _, fold, codes, lines, start, nexts, other = found
            if retry != r"\N":
                raise retried(int(id))
            if other is not None:
                other(fields)
                continue
            # From here on ``NetFold.row``, without the call.
            if "\\" in data:
                data = unescaped(data) or ""
            if "\\" in key:
                key = unescaped(key) or ""
            now = codes.get(key, start)
            if now >= PACKED:
                now = fold.unpack(now)
            then = nexts[now]
            if then == WRONG:
                self._contradicted(fold, fields)
                applied += 1
                continue
            codes[key] = then
            lines[key] = data
            applied += 1
        part.applied += applied

    def _add_large(self, block: EventBlock) -> None:
        """Adds one long event without a second copy of its data in memory."""
        self._long = True
        fields = block.alone()
        kind, name = fields[4], fields[6]
        found = self._kinds.get(kind)
        if found is None or found[0] != name:
            found = self._kind(fields)
        if fields[3] != r"\N":
            raise retried(int(fields[0]))
        _, fold, _, _, _, _, other = found
        route = self.interest.find(unescaped(name))
        what = _type(kind, route)
        if other is not None or what is None:
            (other or self._count)(fields)
        else:
            self._plain(fold, what, fields)

    # -- what is done with which event -----------------------------------------------------

    def _kind(self, fields: _Fields) -> _Kind:
        kind, name = fields[4], fields[6]
        found = self._pairs.get((kind, name))
        if found is None:
            found = self._pairs[kind, name] = self._look(fields)
        self._kinds[kind] = found
        return found

    def _look(self, fields: _Fields) -> _Kind:
        name = fields[6]
        kind = unescaped(fields[4])
        if is_message(kind):
            return _other(name, self._message)
        route = self.interest.find(unescaped(name))
        if route is None:
            return _other(name, _nothing)
        if route.wants.events is not None:
            hand: _Other = functools.partial(self._hand, route)
            if route.snapshot is not None:
                hand = functools.partial(_after_copy, route.snapshot, hand)
            return _other(name, hand)
        fold = self._part.folds.get(route.dest)
        if fold is None:
            fold = self._part.folds[route.dest] = NetFold()
            self._part.first[route.dest] = (int(fields[0]), route.source)
            if route.dest in self.interest.skips.tables:
                # Which one it is shows when they are decoded; the others are folded without it.
                fold.fail("an event is skipped")
        what = _type(fields[4], route)
        other = self._how(fold, what, fields, route)
        if route.snapshot is not None:
            # While it matters whether a row came with the copy, speed does not.
            if other is None and what is not None:
                other = functools.partial(self._plain, fold, what)
            other = functools.partial(_after_copy, route.snapshot, other or self._count)
        if other is not None or what is None:
            return _other(name, other)
        nexts = STEPS[what.op, what.state]
        return name, fold, fold.codes, fold.lines, fold.start, nexts, None

    def _how(
        self, fold: NetFold, what: KeyedType | None, fields: _Fields, route: Route
    ) -> _Other | None:
        """The action for such events; None for plain rows."""
        if fold.reason:
            return self._count
        if what is None:
            if is_truncate(unescaped(fields[4])):
                ignored = route.wants.ignore_truncate
                return self._count if ignored else functools.partial(self._truncate, fold)
            fold.fail("the events name no columns")
            return self._count
        columns = self._columns_of(what, fields)
        if columns is None:
            fold.fail("the columns do not match the type of the events")
        elif route.by_state is not None and not route.by_state.fits(what, columns):
            fold.fail("the events have no full row images by the key")
        else:
            kept = route.columns(columns)
            fold.admit(what.op, what.key, kept, alike=kept == columns)
        if not what.key and what.op is Op.DELETE:
            fold.fail("rows without a key are deleted")
        if fold.reason:
            return self._count
        if not what.key:
            return functools.partial(self._keyless, fold, what.pack)
        if what.pack:
            return functools.partial(self._pack, fold, what)
        return None

    def _columns_of(self, what: KeyedType, fields: _Fields) -> tuple[str, ...] | None:
        """The columns of the images of a type, from the first image."""
        known = self._columns.get(fields[4])
        if known is not None:
            return known
        line, _, _ = _data_of(fields).partition("\n")
        try:
            names = json.JSONDecoder(object_pairs_hook=_names).decode(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(names, tuple) or columns_digest(names) != what.row:
            return None
        self._columns[fields[4]] = names
        return names

    # -- events that are not plain rows ----------------------------------------------------

    def _plain(self, fold: NetFold, what: KeyedType, fields: _Fields) -> None:
        self._part.applied += 1
        fold.row(unescaped(fields[8]) or "", _data_of(fields), what.op, what.state)
        self._look_again(fold)

    def _keyless(self, fold: NetFold, pack: bool, fields: _Fields) -> None:
        self._part.applied += 1
        fold.keyless(_data_of(fields), pack)

    def _pack(self, fold: NetFold, what: KeyedType, fields: _Fields) -> None:
        self._part.applied += 1
        data, keys = _data_of(fields), (unescaped(fields[8]) or "").split("\n")
        self.bytes += ROW_BYTES * len(keys)
        if data.count("\n") + 1 != len(keys):
            fold.fail("a packed event has different numbers of keys and rows")
        else:
            fold.pack(keys, data, what.op, what.state)
        self._look_again(fold)

    def _truncate(self, fold: NetFold, fields: _Fields) -> None:
        self._part.applied += 1
        fold.truncate()
        self._know_nothing()

    def _message(self, fields: _Fields) -> None:
        self._part.applied += 1
        line = fields.line() if isinstance(fields, Alone) else "\t".join(fields)
        block = EventBlock(line.encode() + b"\n", 1)
        self._part.messages += block

    def _hand(self, route: Route, fields: _Fields) -> None:
        self._part.applied += 1
        line = fields.line() if isinstance(fields, Alone) else "\t".join(fields)
        self._part.handed.append((route, line))

    def _count(self, fields: _Fields) -> None:
        self._part.applied += 1

    def _contradicted(self, fold: NetFold, fields: _Fields) -> None:
        what = read_type(unescaped(fields[4]))
        fold.fail(contradiction(what.op if what else Op.UPDATE, fold.truncated))
        self._know_nothing()

    def _look_again(self, fold: NetFold) -> None:
        if fold.reason:
            self._know_nothing()

    def _know_nothing(self) -> None:
        # Emptied, not replaced: the loop has the first in hand.
        self._kinds.clear()
        self._pairs.clear()


def _decoded(event: Event, route: Route) -> Iterator[Change]:
    """``decode_all`` whose errors show nothing of events with hidden values."""
    try:
        yield from decode_all(event)
    except EventError as error:
        if route.wants.rows is None and route.wants.all_columns:
            raise
        # The cause quotes the event, too, and would be in a traceback.
        raise _veiled(event, error) from None


def _veiled(event: Event, error: EventError) -> EventError:
    """The error without any content of the event."""
    cause = error.__cause__
    what = f": {cause.blind}" if isinstance(cause, Malformed) else ""
    return EventError(
        f"event {event.id} cannot be decoded{what}",
        detail="its data is hidden: this node must not receive values of the table",
        hint=error.hint,
        event_id=event.id,
    )


def _other(name: str, other: _Other | None) -> _Kind:
    return name, _NONE, {}, {}, 0, (), other


_NONE = NetFold()


def _data_of(fields: _Fields) -> str:
    """The data of an event."""
    return fields[5] if isinstance(fields, Alone) else unescaped(fields[5]) or ""


def _nothing(fields: _Fields) -> None:
    """Not our table."""


def _after_copy(snapshot: Snapshot, other: _Other, fields: _Fields) -> None:
    if not in_copy(int(fields[2]), snapshot):
        other(fields)


def _type(kind: str, route: Route | None) -> KeyedType | None:
    """The parsed type of an event, as COPY wrote it, with the table that it goes to."""
    what = read_type(unescaped(kind))
    return what if route is None or route.by_state is None else route.by_state.type(what)


def _left(event: Event, skips: Collection[tuple[int, int]]) -> Iterable[Event]:
    """The event without the rows that an operator skips."""
    if not skips or event.id not in {number for number, _ in skips}:
        return [event]
    if (event.id, 0) in skips:
        return []
    try:
        return [one for row, one in enumerate(singles(event), 1) if (event.id, row) not in skips]
    except EventError as error:
        # Whether its values are meant to come here is not known yet.
        raise _veiled(event, error) from None


def _names(pairs: list[tuple[str, object]]) -> tuple[str, ...]:
    return tuple([name for name, _ in pairs])


def retried(number: int) -> EventError:
    """Error of an event that was inserted again, out of order."""
    return EventError(
        f"event {number} was retried",
        detail="its order among the other events is lost",
        hint="do not call pgq.event_retry for the worker of a node",
        event_id=number,
    )
