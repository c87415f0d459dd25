"""Rotation empties only tables without readers; maintenance is listed in order."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    data_of,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    refused_like,
    rotate,
    tick,
    value,
)

CURRENT = "select queue_cur_table from pgq.queue where queue_name = 'q'"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def pass_by(queue: Database) -> None:
    """A tick, and the consumer behind it."""
    conn = queue.connect()
    tick(conn)
    consume(conn)


class TestRotation:
    def test_a_queue_goes_round_its_tables(self, queue: Database) -> None:
        conn = queue.connect()
        seen = []
        for _ in range(4):
            pass_by(queue)
            assert rotate(conn)
            seen.append(value(conn, CURRENT))
        assert seen == [1, 2, 0, 1]

    def test_the_steps_note_their_transactions(self, queue: Database) -> None:
        conn = queue.connect(autocommit=False)
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        steps = (
            "select queue_switch_step1 = txid_current(), queue_switch_step2 is null,"
            " queue_switch_step2 = txid_current(), queue_switch_time = now() from pgq.queue"
        )
        assert conn.execute(steps).fetchone() == (True, True, None, True)
        conn.commit()
        conn.execute("select pgq.maint_rotate_tables_step2()")
        assert conn.execute(steps).fetchone() == (False, False, True, False)

    def test_step_two_in_the_transaction_of_step_one_completes_nothing(
        self, queue: Database
    ) -> None:
        conn = queue.connect(autocommit=False)
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        conn.execute("select pgq.maint_rotate_tables_step2()")
        assert value(conn, "select queue_switch_step2 from pgq.queue") is None

    def test_incomplete_rotation_blocks_the_next_one(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        assert value(conn, CURRENT) == 1

    def test_rotation_waits_for_the_period(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.set_queue_config('q', 'rotation_period', '1 hour')")
        pass_by(queue)
        assert not rotate(conn)
        conn.execute("update pgq.queue set queue_switch_time = now() - interval '2 hours'")
        assert rotate(conn)

    def test_clock_set_back_does_not_block_rotation(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.set_queue_config('q', 'rotation_period', '1 hour')")
        pass_by(queue)
        conn.execute("update pgq.queue set queue_switch_time = now() + interval '50 minutes'")
        assert not rotate(conn)
        conn.execute("update pgq.queue set queue_switch_time = now() + interval '1 day'")
        assert rotate(conn)

    def test_rotation_waits_for_the_slowest_consumer(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'slow')")
        pass_by(queue)
        assert not rotate(conn)
        consume(conn, consumer="slow")
        assert rotate(conn)

    def test_rotation_continues_without_consumers(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.unregister_consumer('q', 'c')")
        for _ in range(4):
            insert(conn, "e")
            assert rotate(conn)
        assert value(conn, "select count(*) from pgq.event_template") == 2
        assert value(conn, "select pgq.register_consumer('q', 'c')") == 1, "a tick is left"

    def test_an_event_lives_for_two_periods(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "e")
        left = []
        for _ in range(3):
            pass_by(queue)
            assert rotate(conn)
            left.append(value(conn, "select count(*) from pgq.event_template"))
        assert left == [1, 1, 0]

    def test_old_ticks_go_with_their_events(self, queue: Database) -> None:
        conn = queue.connect()
        for _ in range(4):
            pass_by(queue)
            assert rotate(conn)
        ticks = column(conn, "select tick_id from pgq.tick order by 1")
        assert ticks == [5], "those before the switch before are gone"
        assert value(conn, "select sub_last_tick from pgq.subscription") == 5

    def test_position_before_the_previous_rotation_blocks_rotation(self, queue: Database) -> None:
        """A long transaction holds xmin of the consumer's tick back."""
        conn, slow = queue.connect(), queue.connect(autocommit=False)
        slow.execute("select txid_current()")
        insert(slow, "slow")
        pass_by(queue)
        assert rotate(conn), "the first switch only needs a position behind the creation"
        pass_by(queue)
        assert not rotate(conn)
        slow.commit()
        assert tick(conn)
        assert consume(conn) == ["slow"]
        assert rotate(conn)

    def test_reader_of_the_next_table_delays_rotation(self, queue: Database) -> None:
        conn, reader = queue.connect(), queue.connect(autocommit=False)
        pass_by(queue)
        number = value(conn, "select queue_id from pgq.queue")
        reader.execute(f"select * from pgq.event_{number}_1")
        assert not rotate(conn)
        reader.commit()
        assert rotate(conn)

    def test_uncommitted_registration_delays_rotation(self, queue: Database) -> None:
        conn, newcomer = queue.connect(), queue.connect(autocommit=False)
        pass_by(queue)
        newcomer.execute("select pgq.register_consumer('q', 'new')")
        assert not rotate(conn)
        newcomer.commit()
        assert rotate(conn), "it registered behind the newest tick"

    def test_open_writer_does_not_delay_rotation(self, queue: Database) -> None:
        conn, writer = queue.connect(), queue.connect(autocommit=False)
        pass_by(queue)
        insert(writer, "open")
        assert rotate(conn)
        writer.commit()
        tick(conn)
        assert consume(conn) == ["open"]

    def test_an_unknown_queue_is_nothing_to_do(self, queue: Database) -> None:
        assert queue.value("select pgq.maint_rotate_tables_step1('nope')") == 0

    def test_a_position_without_a_tick_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        conn.execute("delete from pgq.tick where tick_id = 2")
        with refused("LD107", "queue q maint failure: tick 2 not found"):
            conn.execute("select pgq.maint_rotate_tables_step1('q')")

    def test_a_restored_database_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("update pgq.queue set queue_switch_step1 = 9000000000")
        with refused_like("LD201", r"queue q maint failure: step1=9000000000, current=\d+"):
            conn.execute("select pgq.maint_rotate_tables_step1('q')")

    def test_a_transaction_with_an_old_snapshot_is_refused(self, queue: Database) -> None:
        pass_by(queue)
        conn = queue.connect(autocommit=False)
        conn.execute("set transaction isolation level repeatable read")
        with refused(
            "LD100", "ticks and rotation need a transaction in isolation level read committed"
        ):
            conn.execute("select pgq.maint_rotate_tables_step1('q')")


class TestTablesOfABatch:
    TABLES = "select pgq.batch_event_tables(%s)"

    def names(self, queue: Database, *numbers: int) -> list[str]:
        prefix = queue.value("select queue_data_pfx from pgq.queue")
        return [f"{prefix}_{n}" for n in numbers]

    def test_after_a_rotation_only_the_current_table_is_read(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        rotate(conn)
        pass_by(queue)
        tick(conn)
        assert column(conn, self.TABLES, open_batch(conn)) == self.names(queue, 1)

    def test_before_a_switch_only_the_previous_table(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'late')")
        pass_by(queue)
        batch = open_batch(conn, consumer="late")
        conn.execute("select txid_current()")
        conn.execute(
            "update pgq.queue set queue_cur_table = 1, queue_switch_step1 = txid_current(),"
            " queue_switch_step2 = null"
        )
        conn.execute("select pgq.maint_rotate_tables_step2()")
        assert column(conn, self.TABLES, batch) == self.names(queue, 0)

    def test_around_a_switch_both_the_previous_first(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        insert(conn, "before")
        rotate(conn)
        insert(conn, "after")
        tick(conn)
        batch = open_batch(conn)
        assert column(conn, self.TABLES, batch) == self.names(queue, 0, 1)
        assert data_of(conn, batch) == ["before", "after"]

    def test_during_a_switch_both(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        pass_by(queue)
        tick(conn)
        assert column(conn, self.TABLES, open_batch(conn)) == self.names(queue, 0, 1)

    @pytest.mark.parametrize("rotations", [1, 2, 3])
    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_an_event_written_late_to_an_old_table_is_delivered_once(
        self, queue: Database, level: str, rotations: int
    ) -> None:
        """A transaction that began before rotations writes where the queue was then."""
        conn, late = queue.connect(), queue.connect(autocommit=False)
        late.execute(f"set transaction isolation level {level}")
        late.execute("select 1")
        for _ in range(rotations):
            pass_by(queue)
            assert rotate(conn)
        pass_by(queue)
        insert(late, "late")
        insert(conn, "in time")
        tick(conn)
        assert consume(conn) == ["in time"]
        late.commit()
        tick(conn)
        for _ in range(3):
            rotate(conn)
        batch = open_batch(conn)
        tables = column(conn, self.TABLES, batch)
        assert data_of(conn, batch) == ["late"]
        assert self.names(queue, 0)[0] in tables
        conn.execute("select pgq.finish_batch(%s)", [batch])
        for _ in range(4):
            tick(conn)
            assert consume(conn) == []
            assert rotate(conn), "nothing keeps the table any more"

    def test_check_for_late_events_leaves_no_lock(self, queue: Database) -> None:
        conn, reader = queue.connect(), queue.connect(autocommit=False)
        pass_by(queue)
        rotate(conn)
        pass_by(queue)
        tick(conn)
        batch = open_batch(conn)
        reader.execute("select * from pgq.get_batch_cursor(%s, 'c', 1)", [batch])
        locked = column(
            reader,
            "select relation::regclass::text from pg_locks where pid = pg_backend_pid()"
            " and relation::regclass::text ~ 'event_[0-9]+_[0-9]$'",
        )
        assert locked == self.names(queue, 1)


class TestOperations:
    OPERATIONS = "select func_name, func_arg from pgq.maint_operations()"

    def listed(self, queue: Database, schema: str = "pgq") -> list[tuple[str, str | None]]:
        return [
            (row[0], row[1])
            for row in queue.execute(self.OPERATIONS)
            if row[0].startswith(f"{schema}.") or schema == ""
        ]

    def test_nothing_is_due_on_a_new_queue(self, pgq_db: Database) -> None:
        pgq_db.execute("select pgq.create_queue('q')")
        assert self.listed(pgq_db) == []

    def test_rotation_is_listed_in_two_steps(self, queue: Database) -> None:
        queue.execute("select pgq.create_queue('a')")
        queue.execute("select pgq.set_queue_config('a', 'rotation_period', '0')")
        assert self.listed(queue) == [
            ("pgq.maint_rotate_tables_step1", "a"),
            ("pgq.maint_rotate_tables_step1", "q"),
            ("pgq.maint_rotate_tables_step2", None),
        ]

    def test_incomplete_rotation_is_completed(self, queue: Database) -> None:
        conn = queue.connect()
        pass_by(queue)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        assert self.listed(queue) == [("pgq.maint_rotate_tables_step2", None)]

    def test_user_functions_run_after_rotation(self, queue: Database) -> None:
        for name in (
            "create schema my",
            *(f"create function my.{n}(text) returns int4 return 0" for n in "ab"),
        ):
            queue.execute(name)
        queue.execute("select pgq.set_queue_config('q', 'extra_maint', '{my.b,my.a,my.c}')")
        rows = self.listed(queue, "")
        assert rows[2:5] == [("my.b", "q"), ("my.a", "q"), ("pgq._refuse_maintenance", "q")]
        with pytest.raises(psycopg.Error, match=r"of queue q is not called: my\.c\n"):
            queue.execute("select pgq._refuse_maintenance('q')")

    def test_cascade_and_table_maintenance_run_last(self, pgq_db: Database) -> None:
        pgq_db.execute("select pgq.create_queue('q')")
        pgq_db.execute(
            "select pgq_node.register_location('q', 'n1', 'dbname=x', false),"
            " pgq_node.create_node('q', 'root', 'n1', 'w', null, null, null)"
        )
        rows = self.listed(pgq_db, "")
        assert ("pgq_node.maint_watermark", "q") in rows
        assert rows[-1] == ("londiste.periodic_maintenance", None)
        have_seqs = pgq_db.value("select to_regprocedure('londiste.root_check_seqs(text)')")
        if have_seqs:
            assert ("londiste.root_check_seqs", "q") not in rows
            pgq_db.execute(
                "insert into londiste.seq_info (queue_name, seq_name, local, last_value)"
                " values ('q', 'public.s', true, 1)"
            )
            rows = self.listed(pgq_db, "")
            assert ("londiste.root_check_seqs", "q") in rows

    def test_nothing_is_vacuumed_where_autovacuum_is_on(self, queue: Database) -> None:
        assert queue.value("show autovacuum") == "on"
        assert queue.execute("select pgq.maint_tables_to_vacuum()") == []


class TestStorage:
    def test_an_unknown_queue_is_not_tuned(self, queue: Database) -> None:
        assert queue.value("select pgq.tune_storage('nope')") == 0
        assert queue.value("select pgq.tune_storage(null)") is None
        assert queue.value("select pgq.tune_storage('q')") == 1

    def test_toast_is_left_alone_too(self, queue: Database) -> None:
        options = queue.execute(
            "select t.reloptions from pg_class c join pg_class t on t.oid = c.reltoastrelid"
            " where c.relname ~ '^event_[0-9]+_0$'"
        )
        assert options == [(["autovacuum_enabled=off"],)]


class TestUpgrade:
    def test_a_new_schema_needs_none(self, queue: Database) -> None:
        assert queue.value("select pgq.upgrade_schema()") == 0

    def test_missing_columns_are_added_once(self, queue: Database) -> None:
        queue.execute(
            "alter table pgq.queue drop column queue_extra_maint, drop column queue_per_tx_limit"
        )
        assert queue.value("select pgq.upgrade_schema()") == 2
        assert queue.value("select pgq.upgrade_schema()") == 0
        with psycopg.connect(queue.dsn) as conn:
            conn.execute("select pgq.insert_event('q', 't', 'd')")

    def test_missing_indexes_are_created_once(self, queue: Database) -> None:
        number = queue.value("select queue_id from pgq.queue")
        for index in ("rq_retry_idx", f"event_{number}_1_txid_idx"):
            queue.execute(f"drop index pgq.{index}")
        assert queue.value("select pgq.upgrade_schema()") == 2
        assert queue.value("select pgq.upgrade_schema()") == 0
