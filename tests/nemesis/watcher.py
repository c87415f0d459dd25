"""A reader of a node that looks all the time, and knows what it may see (P1, P2, and positions)."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from tests.nemesis.cast import QUEUE, TICKS, Cast
from tests.nemesis.writer import ALWAYS, TOTAL

POSITION = (
    "select s.last_tick_id from pgq_node.local_state s join pgq_node.node_info n"
    " on n.queue_name = s.queue_name and n.worker_name = s.consumer_name"
    f" where n.node_type <> 'root' and n.queue_name = '{QUEUE}'"
)
_OK = (
    "select array_agg(table_name) from londiste.table_info where local and merge_state = 'ok'"
    " and table_name = any(%s)"
)
#: What a subscriber at a tick has to have: the transactions that the tick's snapshot sees.
_EXPECTED = f"""
select l.n from nemesis.ledger l cross join {TICKS} t
where t.tick_id = %s and (l.era < %s or txid_visible_in_snapshot(l.txid, t.tick_snapshot))
"""


class Watcher:
    """Looks at one node, in one snapshot each time."""

    def __init__(self, cast: Cast, node: str, life: Any) -> None:
        self.cast, self.node, self.life = cast, node, life
        self.looks = 0
        self.exact = 0
        self.wrong: list[str] = []
        #: Its database is put back: what was seen before is not compared.
        self.away = False
        self._position = 0
        self._turns = 0
        self._era_tick = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"watcher {node}", daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)

    def moved(self, era_tick: int) -> None:
        """Another root takes writes; before this tick all are of earlier eras."""
        with self._lock:
            self._turns += 1
            self._position = 0
            self._era_tick = era_tick

    def forget(self) -> None:
        """Another node is made in the database, which may begin at an earlier tick."""
        with self._lock:
            self._turns += 1
            self._position = 0

    def check(self) -> None:
        """AssertionError on what it has seen."""
        if self._error is not None:
            raise AssertionError(f"the watcher of {self.node} has failed: {self._error!r}")
        assert not self.wrong, self.wrong[:3]

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    with self.cast.connect(self.node) as conn:
                        while not self._over.wait(0.03):
                            self._look(conn)
                except psycopg.OperationalError:
                    self._over.wait(0.1)
        except BaseException as error:
            self._error = error

    def _look(self, conn: psycopg.Connection[Any]) -> None:
        turn, away = self._turns, self.away
        root, era = self.life.model.root, self.life.writer.era
        with conn.transaction():
            conn.execute("set transaction isolation level repeatable read, read only")
            row = conn.execute(POSITION).fetchone()
            ok = (conn.execute(_OK, [list(ALWAYS)]).fetchone() or [None])[0] or []
            ledger = [n for (n,) in conn.execute("select n from nemesis.ledger").fetchall()]
            tokens = {n for (n,) in conn.execute("select n from nemesis.token").fetchall()}
            total = (conn.execute("select sum(balance) from nemesis.account").fetchone() or [0])[0]
        if row is None or root == self.node:
            return
        self.looks += 1
        tick, seen = int(row[0]), set(ledger)
        found = []
        if tick < self._position:
            found.append(f"position went back from {self._position} to {tick}")
        if "nemesis.ledger" in ok:
            if len(seen) != len(ledger):
                twice = sorted(n for n in seen if ledger.count(n) > 1)
                found.append(f"transactions applied twice: {twice[:5]}")
            if "nemesis.token" in ok and tokens != seen:
                found.append(f"half transactions: {sorted(tokens ^ seen)[:5]}")
            found += self._prefix(root, era, tick, seen)
        if "nemesis.account" in ok and total != TOTAL:
            found.append(f"the accounts have {total}")
        with self._lock:
            if away or self.away:
                self._position = 0
            elif turn == self._turns:
                self._position = max(tick, self._position)
                self.wrong += [f"{self.node} at tick {tick}: {one}" for one in found]

    def _prefix(self, root: str, era: int, tick: int, seen: set[int]) -> list[str]:
        if tick < self._era_tick:
            return []
        try:
            expected = {n for (n,) in self.cast.rows(root, _EXPECTED, tick, era)}
            known = self.cast.value(root, f"select tick_id from {TICKS} t where tick_id = %s", tick)
        except psycopg.OperationalError:
            return []
        if known is None or expected == seen:
            self.exact += 1
            return []
        return [
            f"not what the tick sees: missing {sorted(expected - seen)[:5]},"
            f" too many {sorted(seen - expected)[:5]}"
        ]
