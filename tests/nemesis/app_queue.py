"""A queue of the application beside the cascade: each event is consumed once, with its effect."""

from __future__ import annotations

import threading
from typing import Any

import psycopg

import londiste
from londiste.errors import LondisteError, NodeBusy
from tests.nemesis.cast import Cast
from tests.nemesis.writer import APP_QUEUE, EVERY
from tests.support.waiting import wait_for

_EXPECTED = f"select n from nemesis.ledger where n %% {EVERY} = 0 and era = any(%s)"


class _Consumer(londiste.Consumer):
    queue = APP_QUEUE
    name = "app"
    delivery = londiste.EXACTLY_ONCE_HERE

    def process_batch(self, batch: Any, events: Any, ctx: Any) -> None:
        for event in events:
            ctx.db.execute("insert into nemesis.consumed values (%s)", [event.data])


class AppConsumer:
    """Consumes the queue of one database until it is stopped; errors of a server are retried."""

    def __init__(self, cast: Cast, node: str) -> None:
        self.cast, self.node = cast, node
        self.wrong: list[str] = []
        #: Its database is put back, and for a moment there is none.
        self.away = False
        self._turns = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consumer {node}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)

    def forget(self) -> None:
        """What has begun before is of the old database, and its error is none."""
        self._turns += 1

    def check(self, root: str, eras: list[int]) -> None:
        """The effects are those of the transactions that were committed here.

        eras -- those in which this database was the root.
        """
        expected = sorted(n for (n,) in self.cast.rows(root, _EXPECTED, eras))

        def consumed() -> list[int]:
            return [n for (n,) in self.cast.rows(self.node, "select n from nemesis.consumed")]

        try:
            wait_for(lambda: sorted(consumed()) == expected, timeout=30, what="the application")
        except AssertionError:
            found = consumed()
            twice = sorted({n for n in found if found.count(n) > 1})
            raise AssertionError(
                f"queue of {self.node}: twice {twice[:5]}, missing"
                f" {sorted(set(expected) - set(found))[:5]}, too many"
                f" {sorted(set(found) - set(expected))[:5]}; {self.wrong}"
            ) from None
        assert not self.wrong, self.wrong[:3]

    def _run(self) -> None:
        consumer = _Consumer(self.cast.places[self.node].dsn, poll_interval=0.1)
        while not self._over.is_set():
            turn, away = self._turns, self.away
            try:
                while consumer.work():
                    pass
            except LondisteError as error:
                restored = away or self.away or turn != self._turns
                if not error.retry and not isinstance(error, NodeBusy) and not restored:
                    self.wrong.append(f"{type(error).__name__}: {error}")
                consumer.close()
            except psycopg.Error as error:
                self.wrong.append(repr(error))
                consumer.close()
            self._over.wait(0.1)
        consumer.close()
