"""An in-memory server with the transaction behaviour that batches depend on.

Transactions take ids, finish in any order, and a snapshot tells which have finished.  ``select``
is the rule by which ``pgq.batch_event_sql`` finds the events between two ticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from londiste.db.snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
    """Which transactions' events a batch reads: a range, filtered by both snapshots, and a list."""

    last: Snapshot
    current: Snapshot
    start: int
    end: int
    listed: tuple[int, ...]

    def takes(self, txid: int) -> int:
        """How often the rows of a transaction come out."""
        in_range = (
            self.start <= txid <= self.end and self.current.sees(txid) and not self.last.sees(txid)
        )
        return int(in_range) + self.listed.count(txid)


def select(last: Snapshot, current: Snapshot) -> Selection:
    """The rule: a range from xmax to xmax, lowered to what touches it, the rest a list."""
    start = last.xmax
    listed = []
    for txid in sorted((x for x in last.xip if current.sees(x)), reverse=True):
        if txid == start - 1:
            start = txid
        else:
            listed.append(txid)
    return Selection(last, current, start, current.xmax, tuple(listed))


@dataclass
class Transaction:
    """A running transaction: its id once it has one, and the ids of its subtransactions."""

    txid: int
    subids: list[int] = field(default_factory=list)
    #: One list per open savepoint, the first for the transaction itself.
    levels: list[list[int]] = field(default_factory=lambda: [[]])


class Server:
    """Transactions, events and ticks; every method is one step of one session."""

    def __init__(self) -> None:
        self.next_txid = 3
        self.latest_completed = 2
        self.running: dict[int, Transaction] = {}
        self.next_event = 1
        #: event id -> transaction, as the table holds it for those that committed.
        self.events: dict[int, int] = {}
        #: event id -> number of ticks before its commit.
        self.committed_before_tick: dict[int, int] = {}
        #: Events that a ticking transaction inserted itself.
        self.of_ticker: set[int] = set()
        self.ticks: list[Snapshot] = []

    def begin(self) -> int:
        """Begins a transaction that has its id at once."""
        txid = self._take_txid()
        self.running[txid] = Transaction(txid)
        return txid

    def insert(self, txid: int) -> None:
        """Inserts an event; it carries the top transaction's id, whatever savepoint is open."""
        transaction = self.running[txid]
        if len(transaction.levels) > 1:
            transaction.subids.append(self._take_txid())
        transaction.levels[-1].append(self.next_event)
        self.next_event += 1

    def savepoint(self, txid: int) -> None:
        self.running[txid].levels.append([])

    def release(self, txid: int) -> None:
        levels = self.running[txid].levels
        if len(levels) > 1:
            kept = levels.pop()
            levels[-1] += kept

    def rollback_to(self, txid: int) -> None:
        levels = self.running[txid].levels
        if len(levels) > 1:
            levels.pop()

    def commit(self, txid: int) -> None:
        transaction = self.running.pop(txid)
        for event in (event for level in transaction.levels for event in level):
            self.events[event] = txid
            self.committed_before_tick[event] = len(self.ticks)
        self._complete(transaction)

    def rollback(self, txid: int) -> None:
        self._complete(self.running.pop(txid))

    def burn(self, count: int) -> None:
        """Other transactions come and go."""
        self.next_txid += count
        self.latest_completed = max(self.latest_completed, self.next_txid - 1)

    def snapshot(self, own: int | None = None) -> Snapshot:
        """What a statement sees.  ``xmax`` follows the latest that completed, not the newest;
        a transaction's own id is not among those that run.
        """
        xmax = self.latest_completed + 1
        xip = frozenset(x for x in self.running if x < xmax and x != own)
        return Snapshot(min([*xip, xmax]), xmax, xip)

    def tick(self, *, events: int = 0) -> None:
        """A tick in a transaction of its own, which may insert events too."""
        txid = self.begin()
        for _ in range(events):
            self.of_ticker.add(self.next_event)
            self.insert(txid)
        snapshot = self.snapshot(own=txid)
        self.commit(txid)
        self.ticks.append(snapshot)

    def _take_txid(self) -> int:
        self.next_txid += 1
        return self.next_txid - 1

    def _complete(self, transaction: Transaction) -> None:
        self.latest_completed = max(self.latest_completed, transaction.txid, *transaction.subids, 0)
