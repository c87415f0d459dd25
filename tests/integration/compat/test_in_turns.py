"""Old and new programs on one queue in turns, and sessions that break: each event counts once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import londiste
from londiste.compat import pgq
from tests.fixtures.cluster import Database
from tests.support.skytools.running import column, ini, send

QUEUE = "q"


def test_an_old_and_a_new_consumer_take_turns(pgq_db: Database, tmp_path: Path) -> None:
    class Old(pgq.Consumer):
        def process_event(self, db: Any, ev: Any) -> None:
            db.cursor().execute("insert into seen values ('old ' || %s)", [ev.data])
            ev.tag_done()

    class New(londiste.Consumer):
        delivery = londiste.EXACTLY_ONCE_HERE

        def process_event(self, event: londiste.Event, ctx: londiste.Context) -> None:
            ctx.db.execute("insert into seen values ('new ' || %s)", [event.data])

    pgq_db.execute("select pgq.create_queue('q'); create table seen (data text)")
    conf = ini(tmp_path, "job", db=pgq_db.dsn, pgq_queue_name=QUEUE, loop_delay=0)
    Old("job", "db", [conf]).start()
    for number in range(3):
        send(pgq_db, QUEUE, ("t", f"{number} a"))
        Old("job", "db", [conf]).start()
        send(pgq_db, QUEUE, ("t", f"{number} b"))
        New(pgq_db.dsn, queue_name=QUEUE, consumer_name="job").run_once()
    assert column(pgq_db, "select data from seen") == [
        f"{who} {number} {letter}"
        for number in range(3)
        for who, letter in (("old", "a"), ("new", "b"))
    ]


def test_positions_in_another_database_are_shared(
    pgq_db: Database, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    other = new_database(pgq=True)
    for kind, base, delivery in (
        ("batch", pgq.RemoteConsumer, londiste.EXACTLY_ONCE_ELSEWHERE_BY_BATCH),
        ("tick", pgq.SerialConsumer, londiste.EXACTLY_ONCE_ELSEWHERE),
    ):
        pgq_db.execute("select pgq.create_queue(%s)", kind)
        other.execute(f"create table {kind} (data text)")
        insert = f"insert into {kind} values (%s)"

        def by_old(self: Any, db: Any, batch_id: int, ev_list: Any, dst_db: Any) -> None:
            for ev in ev_list:
                dst_db.cursor().execute(self.insert, [ev.data])
                ev.tag_done()

        def by_new(self: Any, event: Any, ctx: Any) -> None:
            ctx.db.execute(self.insert, [event.data])

        old = type("Old", (base,), {"process_remote_batch": by_old, "insert": insert})
        new = type(
            "New",
            (londiste.Consumer,),
            {"process_event": by_new, "delivery": delivery, "insert": insert},
        )
        conf = ini(
            tmp_path,
            kind,
            src_db=pgq_db.dsn,
            dst_db=other.dsn,
            pgq_queue_name=kind,
            loop_delay=0,
        )
        old(kind, "src_db", "dst_db", [conf]).start()
        for number in range(2):
            send(pgq_db, kind, ("t", f"{number} old"))
            old(kind, "src_db", "dst_db", [conf]).start()
            send(pgq_db, kind, ("t", f"{number} new"))
            new(pgq_db.dsn, target_db=other.dsn, queue_name=kind, consumer_name=kind).run_once()
        wanted = [f"{number} {who}" for number in range(2) for who in ("old", "new")]
        assert column(other, f"select data from {kind}") == wanted


def test_a_session_that_breaks_in_a_batch_repeats_it(pgq_db: Database, tmp_path: Path) -> None:
    class Broken(pgq.Consumer):
        calls = 0

        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> None:
            Broken.calls += 1
            curs = db.cursor()
            for ev in ev_list:
                curs.execute("insert into seen values (%s)", [ev.data])
                if self.calls == 1:
                    curs.execute("select pg_backend_pid()")
                    pgq_db.execute("select pg_terminate_backend(%s)", curs.fetchone()[0])
                ev.tag_done()
            self.stop()

    pgq_db.execute("select pgq.create_queue('q'); create table seen (data text)")
    keys = {"db": pgq_db.dsn, "pgq_queue_name": QUEUE, "exception_sleep": 0.1}
    Broken("job", "db", [ini(tmp_path, "job", loop_delay=0, **keys)]).start()
    send(pgq_db, QUEUE, ("t", "a"), ("t", "b"))
    Broken("job", "db", [ini(tmp_path, "job", loop_delay=0.1, **keys)]).start()
    assert Broken.calls == 2
    assert column(pgq_db, "select data from seen") == ["a", "b"]
