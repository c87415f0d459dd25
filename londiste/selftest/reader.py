"""A reader of the target that checks at every moment what it sees, and measures the latency."""

from __future__ import annotations

import threading
import time

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection, session
from londiste.errors import LondisteError
from londiste.replication import sqlapi as tables
from londiste.selftest.pair import ACCOUNT, LEDGER, NAME, QUEUE, TOKEN, Pair
from londiste.selftest.promises import Book
from londiste.selftest.writer import TOTAL, Writer

_SESSION = f"{NAME}: reader"
#: Seconds between two looks, and at least between two checks.
_LOOK, _CHECK = 0.025, 0.25

_HASH = "coalesce(sum(hashint8extended(n, 0)), 0)"
_SEEN = f"""
select (select count(*) from {LEDGER}), (select count(distinct n) from {LEDGER}),
    (select {_HASH} from {LEDGER}), (select {_HASH} from {TOKEN}),
    (select sum(balance) from {ACCOUNT})
"""
#: What the target has to have at a tick: the transactions that the snapshot of the tick sees.
_EXPECTED = f"""
select count(l.n), {_HASH.replace("n,", "l.n,")}
from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue and q.queue_name = '{QUEUE}'
left join {LEDGER} l on txid_visible_in_snapshot(l.txid, t.tick_snapshot)
where t.tick_id = %s group by t.tick_id
"""
#: What to do next: the tables of the test are gone, unless they are kept.
LOOK_CLOSER = "repeat the test and keep its tables: londiste selftest SOURCE TARGET --keep"


class Reader:
    """Looks until it is stopped; ``calm`` marks times without a fault."""

    def __init__(self, pair: Pair, writer: Writer, book: Book) -> None:
        self.calm = False
        #: Seconds from commit to visible, and whether no fault was on.
        self.latencies: list[tuple[float, bool]] = []
        self.position = 0
        #: The error that ended it.
        self.failed: BaseException | None = None
        self._pair, self._writer, self._book = pair, writer, book
        self._newest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="selftest reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(30)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with (
                    session(self._pair.target.dsn, name=_SESSION, autocommit=True) as target,
                    session(self._pair.source.dsn, name=_SESSION, autocommit=True) as root,
                ):
                    self._look(target, root)
            except (psycopg.OperationalError, LondisteError):
                self._over.wait(0.2)
            except BaseException as error:
                self.failed = error
                return

    def _look(self, target: Connection, root: Connection) -> None:
        due = 0.0
        while not self._over.wait(_LOOK):
            with target.transaction():
                row = target.execute(
                    f"select n from {LEDGER} where n > %s order by n".encode(), [self._newest]
                ).fetchall()
            self._arrived([int(n) for (n,) in row])
            if time.monotonic() >= due:
                began = time.monotonic()
                self._check(target, root)
                due = time.monotonic() + max(_CHECK, 5 * (time.monotonic() - began))

    def _arrived(self, numbers: list[int]) -> None:
        now = time.monotonic()
        for n in numbers:
            committed = self._writer.committed.get(n)
            if committed is not None:
                self.latencies.append((now - committed, self.calm))
        self._newest = max([self._newest, *numbers])

    def _check(self, target: Connection, root: Connection) -> None:
        """Compares one snapshot of the target with what the source had at its tick."""
        with target.transaction():
            target.execute("set transaction isolation level repeatable read, read only")
            node = nodes.find_node_info(target, QUEUE)
            ok = {str(t.name) for t in tables.get_table_list(target, QUEUE) if t.state == "ok"}
            seen = target.execute(_SEEN.encode()).fetchone()
        if node is None or seen is None:
            return
        tick, (count, distinct, ledger, tokens, balance) = node.last_tick, seen
        where = f"target at tick {tick}"
        self._book.checked("position")
        if tick < self.position:
            self._broke("position", f"the position went back from {self.position}", where)
        self.position = max(tick, self.position)
        if LEDGER not in ok:
            return
        self._book.checked("once")
        if count != distinct:
            self._broke("once", f"{count - distinct} transactions were applied twice", where)
        if {TOKEN, ACCOUNT} <= ok:
            self._book.checked("whole")
            if tokens != ledger or balance != TOTAL:
                parts = [LEDGER, TOKEN] if tokens != ledger else [ACCOUNT]
                self._broke("whole", f"parts of transactions in {', '.join(parts)}", where)
        expected = root.execute(_EXPECTED.encode(), [tick]).fetchone()
        if expected is not None:
            self._book.checked("order")
            if expected != (count, ledger):
                self._broke(
                    "order",
                    f"the target has {count} transactions, the tick sees {expected[0]}"
                    + (", not the same" if count == expected[0] else ""),
                    where,
                )

    def _broke(self, promise: str, what: str, where: str) -> None:
        self._book.broke(promise, what, where, LOOK_CLOSER)
