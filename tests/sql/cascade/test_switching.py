"""Closing a root, promoting a branch, and the operation record of the switch."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from londiste.cascade.switching.steps.notes import NodeAddress, Ticket
from londiste.cascade.switching.steps.roots import CloseRoot
from londiste.orchestration.connections import Connections
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret
from tests.support.waiting import wait_for


def begin(db: Database, token: Any = None, kind: str = "switchover", new: str = "n2") -> Any:
    return ret(db, "pgq_node.begin_operation", "q", token, kind, "n1", new, "somebody", "n1", False)


def insert(db: Database) -> None:
    db.execute("select pgq.insert_event('q', 'type', 'data')")


def refused(db: Database) -> bool:
    try:
        insert(db)
    except psycopg.Error as error:
        assert error.sqlstate == "LD102"
        return True
    return False


def node_type(db: Database) -> str:
    return str(db.value("select node_type from pgq_node.node_info"))


def test_a_change_is_noted_once_and_found_again(pgq_db: Database) -> None:
    make_root(pgq_db)
    code, _, token, tick = begin(pgq_db)
    assert (code, tick) == (200, None)
    assert begin(pgq_db)[:3] == (201, begin(pgq_db)[1], token)
    assert begin(pgq_db, token)[0] == 201
    other = begin(pgq_db, new="n3")
    assert other[0] == 405
    assert "n2" in other[1] and "somebody" in other[1]
    assert ret(pgq_db, "pgq_node.end_operation", "q", token)[0] == 200
    assert ret(pgq_db, "pgq_node.end_operation", "q", token)[0] == 301
    assert begin(pgq_db, new="n3")[0] == 200
    assert (
        ret(pgq_db, "pgq_node.begin_operation", "?", None, "x", "a", "b", "c", "d", False)[0] == 404
    )


def test_last_tick_of_a_closed_root_covers_all_events(pgq_db: Database) -> None:
    make_root(pgq_db)
    insert(pgq_db)
    token = begin(pgq_db)[2]
    assert ret(pgq_db, "pgq_node.close_root", "q", "00000000-0000-0000-0000-000000000000")[0] == 405
    code, _, tick = ret(pgq_db, "pgq_node.close_root", "q", token)
    assert code == 200
    assert refused(pgq_db)
    seen = pgq_db.value(
        "select count(*) from pgq.tick t join pgq.event_1 e"
        " on txid_visible_in_snapshot(e.ev_txid, t.tick_snapshot)"
        " where t.tick_id = %s and ev_type = 'type'",
        tick,
    )
    assert seen == 1
    again = ret(pgq_db, "pgq_node.close_root", "q", token)
    assert (again[0], again[2]) == (201, tick)
    # Nobody but a worker writes into its tables, whatever he looked at before.
    with psycopg.connect(pgq_db.dsn) as conn, pytest.raises(psycopg.Error) as caught:
        conn.execute("insert into pgq.event_1_0 (ev_time, ev_txid) values (now(), 1)")
    assert caught.value.sqlstate == "LD102"
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute("set session_replication_role = replica")
        conn.execute("insert into pgq.event_1_0 (ev_time, ev_txid) values (now(), 1)")
        conn.rollback()
    assert ret(pgq_db, "pgq_node.reopen_root", "q", token)[0] == 200
    assert not refused(pgq_db)
    assert pgq_db.value("select pgq.force_tick('q')") == tick
    assert pgq_db.value("select pgq.ticker('q')") > tick


def test_worker_of_a_closed_root_writes_nothing_after_the_last_tick(pgq_db: Database) -> None:
    """Its session may write into a closed queue, and does so while others change the cascade."""
    make_root(pgq_db)
    pgq_db.execute("create sequence s; select londiste.local_add_seq('q', 's')")
    token = begin(pgq_db)[2]
    pgq_db.execute("select pgq.force_tick('q')")
    pgq_db.execute("select pgq.ticker('q')")
    worker = pgq_db.connect(autocommit=False)
    worker.execute("set session_replication_role = replica")
    say = (
        "select (pgq_node.set_global_watermark('q', null)).ret_code,"
        " (londiste.root_check_seqs('q')).ret_code"
    )
    closing = pgq_db.connect()
    closing.execute("set lock_timeout = '100ms'")
    worker.execute(say)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        closing.execute("select pgq_node.close_root('q', %s)", [token])
    worker.commit()
    closing.execute("select pgq_node.close_root('q', %s)", [token])
    written = pgq_db.value("select count(*) from pgq.event_1")
    pgq_db.execute("select setval('s', 1000000)")
    assert worker.execute(say).fetchall() == [(200, 100)]
    worker.commit()
    assert pgq_db.value("select count(*) from pgq.event_1") == written
    # Opened again it says it.
    pgq_db.execute("select pgq_node.reopen_root('q', %s)", token)
    worker.execute(say)
    worker.commit()
    said = pgq_db.execute("select ev_type from pgq.event_1 order by ev_id desc limit 2")
    assert {kind for (kind,) in said} == {"pgq.global-watermark", "londiste.update-seq"}


def test_a_producer_that_waited_for_the_closing_inserts_nothing(pgq_db: Database) -> None:
    """It has looked at the queue before; its insert comes after the lock."""
    make_root(pgq_db)
    token = begin(pgq_db)[2]
    told: list[str | None] = []
    with psycopg.connect(pgq_db.dsn) as closing, psycopg.connect(pgq_db.dsn) as late:
        closing.execute("lock table pgq.event_1 in exclusive mode")
        pid = late.info.backend_pid

        def produce() -> None:
            try:
                late.execute("select pgq.insert_event('q', 'late', 'data')")
                told.append(None)
            except psycopg.Error as error:
                told.append(error.sqlstate)

        thread = threading.Thread(target=produce)
        thread.start()
        wait_for(
            lambda: pgq_db.value(
                "select 1 from pg_locks where pid = %s and not granted and"
                " relation::regclass::text like 'pgq.event_1%%'",
                pid,
            ),
            what="the producer at the lock",
        )
        answer = closing.execute(
            "select ret_code from pgq_node.close_root('q', %s)", [token]
        ).fetchone()
        assert answer == (200,)
        closing.commit()
        thread.join()
    assert told == ["LD102"]
    assert pgq_db.value("select count(*) from pgq.event_1 where ev_type = 'late'") == 0


def test_writers_continue_while_close_waits_for_one_of_them(pgq_db: Database) -> None:
    make_root(pgq_db)
    step = CloseRoot(NodeAddress("n1", pgq_db.dsn), "q", Ticket(begin(pgq_db)[2]))
    failed: list[BaseException] = []

    def close() -> None:
        try:
            with Connections(name="closing", lock_timeout=60.0) as sites:
                step.run(sites)
        except BaseException as error:
            failed.append(error)

    waits = (
        "select 1 from pg_locks l join pg_stat_activity a using (pid)"
        " where a.application_name = 'closing' and a.datname = current_database()"
        " and not l.granted and l.mode = 'ExclusiveLock'"
    )
    thread = threading.Thread(target=close)
    with psycopg.connect(pgq_db.dsn) as writer:
        writer.execute("select pgq.insert_event('q', 'long', 'data')")
        thread.start()
        wait_for(lambda: pgq_db.value(waits), what="the closing at the lock")
        insert(pgq_db)
        # It went in before the closing had what it waits for, or gave up.
        assert thread.is_alive()
        assert pgq_db.value("select last_tick from pgq_node.operation") is None
        writer.commit()
    thread.join(60)
    assert not failed
    assert refused(pgq_db)
    assert pgq_db.value("select last_tick from pgq_node.operation") is not None


def test_a_root_with_an_open_writer_is_not_closed(pgq_db: Database) -> None:
    make_root(pgq_db)
    token = begin(pgq_db)[2]
    with psycopg.connect(pgq_db.dsn) as writer:
        writer.execute("select pgq.insert_event('q', 'type', 'data')")
        with psycopg.connect(pgq_db.dsn) as conn:
            conn.execute("set local lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                conn.execute("select * from pgq_node.close_root('q', %s)", [token])
        writer.commit()
    assert not refused(pgq_db)


def test_a_branch_is_promoted_at_its_tick_by_the_change_that_is_noted(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=5)
    insert_as_worker = "set session_replication_role = replica"
    assert refused(pgq_db)
    nobody = "00000000-0000-0000-0000-000000000000"
    assert ret(pgq_db, "pgq_node.promote_node", "q", nobody, 5)[0] == 405
    token = begin(pgq_db)[2]
    behind = ret(pgq_db, "pgq_node.promote_node", "q", token, 6)
    assert behind[0] == 405 and "tick 5" in behind[1]
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute(insert_as_worker)
        conn.execute("select pgq.insert_event('q', 'forwarded', '')")
        conn.commit()
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 5)[0] == 200
    assert node_type(pgq_db) == "root"
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 5)[0] == 201
    assert not refused(pgq_db)
    pgq_db.execute("select pgq.force_tick('q')")
    assert pgq_db.value("select pgq.ticker('q')") == 6
    state = ret(pgq_db, "pgq_node.get_worker_state", "q")
    assert "n2" in state
    # Too late to take it back.
    assert ret(pgq_db, "pgq_node.cancel_operation", "q", token)[0] == 405


def test_tick_skipped_by_a_killed_worker_is_created_at_promotion(
    pgq_db: Database,
) -> None:
    make_branch(pgq_db, tick=5)
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute("set session_replication_role = replica")
        conn.execute(
            "insert into pgq.event_1_0 (ev_id, ev_time, ev_type) values (4711, now(), 'handed on')"
        )
        conn.execute("update pgq_node.local_state set last_tick_id = 6 where queue_name = 'q'")
    token = begin(pgq_db)[2]
    # The old root of a switchover lives, and its ticks are asked for.
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 6)[0] == 405
    assert ret(pgq_db, "pgq_node.end_operation", "q", token)[0] == 200
    token = begin(pgq_db, kind="takeover")[2]
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 7)[0] == 405
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 6)[0] == 200
    newest = "select tick_id, tick_event_seq from pgq.tick order by tick_id desc limit 1"
    assert pgq_db.execute(newest) == [(6, 4711)]
    insert(pgq_db)
    pgq_db.execute("select pgq.force_tick('q')")
    assert pgq_db.value("select pgq.ticker('q')") == 7
    assert pgq_db.value("select max(ev_id) from pgq.event_1 where ev_type = 'type'") > 4711


def test_cancelled_switch_promotes_no_node(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=5)
    token = begin(pgq_db)[2]
    assert ret(pgq_db, "pgq_node.cancel_operation", "q", token)[0] == 200
    assert ret(pgq_db, "pgq_node.promote_node", "q", token, 5)[0] == 405
    assert node_type(pgq_db) == "branch"


def test_a_closed_root_becomes_a_branch_at_its_last_tick(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)[0] == 200
    token = begin(pgq_db)[2]
    assert ret(pgq_db, "pgq_node.become_branch", "q", token, "n2")[0] == 405
    tick = ret(pgq_db, "pgq_node.close_root", "q", token)[2]
    assert ret(pgq_db, "pgq_node.become_branch", "q", token, "n9")[0] == 404
    assert ret(pgq_db, "pgq_node.become_branch", "q", token, "n2")[0] == 200
    assert ret(pgq_db, "pgq_node.become_branch", "q", token, "n2")[0] == 201
    assert node_type(pgq_db) == "branch"
    row = pgq_db.execute("select provider_node, last_tick_id, uptodate from pgq_node.local_state")
    assert row == [("n2", tick, False)]
    assert refused(pgq_db)
    assert ret(pgq_db, "pgq_node.reopen_root", "q", token)[0] == 301


def test_the_three_steps_of_other_programs(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)[0] == 200
    assert ret(pgq_db, "pgq_node.demote_root", "?", 1, "n2")[0] == 404
    with pytest.raises(psycopg.Error, match="steps in wrong order"):
        ret(pgq_db, "pgq_node.demote_root", "q", 2, "n2")
    assert ret(pgq_db, "pgq_node.demote_root", "q", 1, "n2")[0] == 200
    assert refused(pgq_db)
    with pytest.raises(psycopg.Error, match="incorrect step number"):
        ret(pgq_db, "pgq_node.demote_root", "q", 4, "n2")
    tick = ret(pgq_db, "pgq_node.demote_root", "q", 2, "n2")[2]
    assert ret(pgq_db, "pgq_node.demote_root", "q", 3, "n2")[2] == tick
    assert ret(pgq_db, "pgq_node.demote_root", "q", 3, "n2")[0] == 301
    assert node_type(pgq_db) == "branch"
    assert ret(pgq_db, "pgq_node.promote_branch", "q")[0] == 200
    assert ret(pgq_db, "pgq_node.promote_branch", "q")[0] == 301
    assert ret(pgq_db, "pgq_node.promote_branch", "?")[0] == 404
    assert not refused(pgq_db)


def test_a_root_that_was_replaced_is_fenced(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.fence_root", "q")[0] == 200
    assert ret(pgq_db, "pgq_node.fence_root", "q")[0] == 201
    assert refused(pgq_db)


def test_only_a_branch_is_promoted(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    assert ret(pgq_db, "pgq_node.promote_branch", "q")[0] == 301
    assert ret(pgq_db, "pgq_node.demote_root", "q", 1, None)[0] == 301
    assert ret(pgq_db, "pgq_node.fence_root", "q")[0] == 301


def test_a_node_gets_another_name(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)[0] == 200
    assert ret(pgq_db, "pgq_node.register_subscriber", "q", "n2", "w2", None)[0] == 200
    assert ret(pgq_db, "pgq_node.rename_node", "q", "n2", "n1")[0] == 405
    assert ret(pgq_db, "pgq_node.rename_node", "q", "n2", "second")[0] == 200
    assert ret(pgq_db, "pgq_node.rename_node", "q", "n2", "second")[0] == 301
    assert ret(pgq_db, "pgq_node.rename_node", "q", "n1", "first")[0] == 200
    names = [name for name, *_ in pgq_db.execute("select * from pgq_node.get_queue_locations('q')")]
    assert names == ["first", "second"]
    subscribers = pgq_db.execute(
        "select node_name, worker_name, node_watermark from pgq_node.get_subscriber_info('q')"
    )
    assert subscribers == [("second", "w2", 1)]
    consumers = {
        name for (name,) in pgq_db.execute("select consumer_name from pgq.get_consumer_info('q')")
    }
    assert consumers == {".global_watermark", ".second.watermark", "w2"}
    assert ret(pgq_db, "pgq_node.get_worker_state", "q")[0] == 100
    assert ret(pgq_db, "pgq_node.rename_node", "?", "a", "b")[0] == 404


def test_a_part_moves_with_its_combined_branch(pgq_db: Database) -> None:
    make_branch(pgq_db, "all")
    assert ret(pgq_db, "pgq_node.set_partition_watermark", "all", "part", 7)[0] == 201
    for name in ("n1", "n2"):
        ret(pgq_db, "pgq_node.register_location", "part", name, f"dbname={name}", False)
    made = ret(pgq_db, "pgq_node.create_node", "part", "leaf", "n2", "w2", "n1", 1, "all")
    assert made[0] == 200
    assert ret(pgq_db, "pgq_node.set_partition_watermark", "all", "part", 7)[0] == 200
    at = pgq_db.value("select last_tick_id from pgq_node.local_state where queue_name = 'part'")
    assert at == 7


def test_rejoined_root_has_no_events_after_the_common_tick(pgq_db: Database) -> None:
    make_root(pgq_db)
    for name in ("n2", "n3"):
        assert ret(pgq_db, "pgq_node.register_location", "q", name, "dbname=x", False)[0] == 200
    insert(pgq_db)
    pgq_db.execute("select pgq.force_tick('q')")
    tick = pgq_db.value("select pgq.ticker('q')")
    for name in ("n2", "n3"):
        assert ret(pgq_db, "pgq_node.register_subscriber", "q", name, f"w{name}", tick)[0] == 200
    pgq_db.execute("select pgq.register_consumer_at('q', 'wn2.copy.public.t', %s)", tick)
    insert(pgq_db)
    assert ret(pgq_db, "pgq_node.fence_root", "q")[0] == 200
    token = begin(pgq_db, kind="resurrect")[2]

    def back(provider: str = "n2", at: int = tick) -> Any:
        return ret(pgq_db, "pgq_node.return_as_branch", "q", token, provider, at, ["n3"])

    assert back()[0] == 405
    code, _, last = ret(pgq_db, "pgq_node.close_root", "q", token)
    assert code == 200 and last > tick
    # Somebody has read it all.
    pgq_db.execute("select pgq.register_consumer_at('q', 'other', %s)", last)
    assert back(provider="?")[0] == 404
    assert back(at=last + 1)[0] == 404
    pgq_db.execute("select pgq.register_consumer_at('q', 'wn3', %s)", last)
    assert back()[0] == 405
    assert node_type(pgq_db) == "root"
    pgq_db.execute("select pgq.register_consumer_at('q', 'wn3', %s)", tick)
    assert back()[0] == 200
    assert back()[0] == 201
    assert pgq_db.value("select max(tick_id) from pgq.tick") == tick
    assert pgq_db.value("select count(*) from pgq.event_1 where ev_type = 'type'") == 1
    assert pgq_db.value("select last_tick from pgq.get_consumer_info('q', 'other')") == tick
    left = pgq_db.execute("select subscriber_node from pgq_node.subscriber_info")
    assert left == [("n3",)]
    assert not pgq_db.execute("select from pgq.get_consumer_info('q', 'wn2.copy.public.t')")
    state = "select provider_node, last_tick_id from pgq_node.local_state"
    assert pgq_db.execute(state) == [("n2", tick)]
    assert refused(pgq_db)
    assert ret(pgq_db, "pgq_node.return_as_branch", "?", token, "n2", tick, [])[0] == 404
