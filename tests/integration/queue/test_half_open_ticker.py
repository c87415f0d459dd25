"""A ticker whose connections fall silent opens new ones."""

from __future__ import annotations

import time

from londiste.pgq import queues
from londiste.ticker.database import DatabaseTicker
from londiste.ticker.rounds import Periods
from tests.fixtures.cluster import Database
from tests.support.lines import Line
from tests.support.waiting import wait_for


def test_a_ticker_on_a_silent_connection_continues_on_a_new_one(pgq_db: Database) -> None:
    queues.create_queue(pgq_db.connect(), "q")
    ticks = "select max(tick_id) from pgq.tick"

    def ticked(what: str) -> None:
        before = pgq_db.value(ticks)
        pgq_db.value("select pgq.insert_event('q', 't', 'd')")
        pgq_db.value("select pgq.force_tick('q')")
        wait_for(lambda: pgq_db.value(ticks) > before, what=what)

    with Line(pgq_db.dsn) as line:
        periods = Periods(tick=0.05, longest_pause=0.1, answer=1.0)
        ticker = DatabaseTicker(line.dsn, periods)
        ticker.start()
        try:
            ticked("a tick")
            line.stall()
            ticked("a tick on a new connection")
        finally:
            ticker.stop()
            line.mend()
            assert ticker.join(time.monotonic() + 30)
