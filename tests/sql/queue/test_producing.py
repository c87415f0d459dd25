"""Events are stored with the fields they were given, by the transaction that inserts them."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_steps import column, insert, refused, rotate, value

ALL = (
    "select ev_id, ev_txid::text, ev_owner, ev_retry, ev_type, ev_data,"
    " ev_extra1, ev_extra2, ev_extra3, ev_extra4 from pgq.event_template order by ev_id"
)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    pgq_db.execute("select pgq.create_queue('q')")
    return pgq_db


def test_the_short_form_fills_extras_with_null(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    assert value(conn, "select pgq.insert_event('q', 'type', 'data')") == 1
    txid = value(conn, "select txid_current()::text")
    assert conn.execute(ALL).fetchall() == [
        (1, txid, None, None, "type", "data", None, None, None, None)
    ]
    assert value(conn, "select ev_time = now() from pgq.event_template")


def test_the_long_form_stores_every_field(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    assert value(conn, "select pgq.insert_event('q', 't', 'd', '1', '2', '3', '4')") == 1
    txid = value(conn, "select txid_current()::text")
    assert conn.execute(ALL).fetchall() == [(1, txid, None, None, "t", "d", "1", "2", "3", "4")]


def test_type_and_data_may_be_null(queue: Database) -> None:
    conn = queue.connect()
    assert value(conn, "select pgq.insert_event('q', null, null)") == 1


def test_every_producer_goes_through_the_long_form(queue: Database) -> None:
    conn = queue.connect()
    conn.execute(
        "create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text,"
        " ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text) returns int8"
        " language sql as 'select -1::int8'"
    )
    assert value(conn, "select pgq.insert_event('q', 't', 'd')") == -1


def test_ids_count_up_from_one(queue: Database) -> None:
    conn = queue.connect()
    assert [insert(conn, "e") for _ in range(3)] == [1, 2, 3]


def test_an_explicit_id_is_kept_and_costs_one_of_the_sequence(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    raw = "select pgq.insert_event_raw('q', %s, %s, %s, %s, 't', 'd', '1', '2', '3', '4')"
    assert value(conn, raw, 77, "2020-01-02 03:04:05+00", 5, 6) == 77
    assert value(conn, raw, None, None, None, None) == 2
    txid = value(conn, "select txid_current()::text")
    assert conn.execute(ALL).fetchall() == [
        (2, txid, None, None, "t", "d", "1", "2", "3", "4"),
        (77, txid, 5, 6, "t", "d", "1", "2", "3", "4"),
    ]
    times = column(conn, "select ev_time = now() from pgq.event_template order by ev_id")
    assert times == [True, False]
    assert value(conn, "select ev_time::text from pgq.event_template where ev_id = 77") == (
        "2020-01-02 03:04:05+00"
    )


@pytest.mark.parametrize(
    "call",
    [
        "pgq.insert_event('nope', 't', 'd')",
        "pgq.insert_event(null, 't', 'd')",
        "pgq.insert_event('nope', 't', 'd', null, null, null, null)",
        "pgq.insert_event_raw('nope', null, null, null, null, 't', 'd', null, null, null, null)",
    ],
)
def test_an_unknown_queue_is_refused(queue: Database, call: str) -> None:
    conn = queue.connect()
    with refused("LD001", "No such queue"):
        conn.execute(f"select {call}")


def test_a_disabled_queue_takes_events_only_from_replicas(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("update pgq.queue set queue_disable_insert = true")
    with refused("LD102", "Insert into queue disallowed"):
        insert(conn, "e")
    with refused("LD102", "Writing to queue disabled"):
        conn.execute("select pgq.current_event_table('q')")
    conn.execute("set session_replication_role = replica")
    assert insert(conn, "e") > 0
    assert value(conn, "select pgq.current_event_table('q')").startswith("pgq.event_")


def test_the_current_table_is_named_and_takes_rows_by_copy(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    table = value(conn, "select pgq.current_event_table('q')")
    assert table == value(conn, "select queue_data_pfx || '_' || queue_cur_table from pgq.queue")
    with conn.cursor() as cursor, cursor.copy(f"copy {table} (ev_time, ev_type) from stdin") as to:
        to.write_row(["2020-01-01", "a"])
        to.write_row(["2020-01-01", "b"])
    txid = value(conn, "select txid_current()")
    stored = conn.execute("select ev_id, ev_txid, ev_type from pgq.event_template order by 1")
    assert stored.fetchall() == [(1, txid, "a"), (2, txid, "b")]


def test_the_current_table_of_an_unknown_queue_is_refused(queue: Database) -> None:
    conn = queue.connect()
    with refused("LD001", "Event queue not found"):
        conn.execute("select pgq.current_event_table('nope')")


def test_learning_the_current_table_gives_the_transaction_its_id_first(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    conn.execute("select pgq.current_event_table('q')")
    assert value(conn, "select txid_current_if_assigned()") is not None


class TestLimitPerTransaction:
    LIMIT = "Queue 'q' allows max 2 events from one TX"

    @pytest.fixture
    def limited(self, queue: Database) -> Database:
        queue.execute("update pgq.queue set queue_per_tx_limit = 2")
        return queue

    def test_one_event_more_is_refused(self, limited: Database) -> None:
        conn = limited.connect(autocommit=False)
        insert(conn, "1")
        insert(conn, "2")
        with refused("LD102", self.LIMIT):
            insert(conn, "3")

    def test_a_statement_over_the_limit_is_refused(self, limited: Database) -> None:
        conn = limited.connect()
        with refused("LD102", self.LIMIT):
            conn.execute("select pgq.insert_event('q', 't', n::text) from generate_series(1, 3) n")
        assert value(conn, "select count(*) from pgq.event_template") == 0

    def test_the_next_transaction_counts_anew(self, limited: Database) -> None:
        conn = limited.connect(autocommit=False)
        for _ in range(3):
            insert(conn, "1")
            insert(conn, "2")
            conn.commit()
        insert(conn, "1")
        conn.rollback()
        insert(conn, "1")
        insert(conn, "2")

    def test_events_undone_by_a_savepoint_do_not_count(self, limited: Database) -> None:
        conn = limited.connect(autocommit=False)
        insert(conn, "1")
        for _ in range(5):
            with pytest.raises(psycopg.errors.DivisionByZero), conn.transaction():
                insert(conn, "2")
                conn.execute("select 1 / 0")
        insert(conn, "2")
        with refused("LD102", self.LIMIT):
            insert(conn, "3")

    def test_events_of_a_kept_savepoint_count(self, limited: Database) -> None:
        conn = limited.connect(autocommit=False)
        conn.execute("select")  # begins the transaction, so that the blocks are savepoints
        with conn.transaction():
            insert(conn, "1")
            with conn.transaction():
                insert(conn, "2")
        with refused("LD102", self.LIMIT):
            insert(conn, "3")

    def test_queues_count_apart(self, limited: Database) -> None:
        conn = limited.connect(autocommit=False)
        conn.execute("select pgq.create_queue('free')")
        for _ in range(2):
            insert(conn, "1")
        for _ in range(5):
            insert(conn, "1", "free")

    def test_a_setting_of_the_session_does_not_break_inserts(self, limited: Database) -> None:
        conn = limited.connect()
        number = value(conn, "select queue_id from pgq.queue")
        conn.execute(f"set pgq.events_in_tx_{number} = 'rubbish'")
        assert insert(conn, "1") > 0


def test_events_go_to_the_new_table_after_rotation(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    tables = []
    for _ in range(4):
        insert(conn, "e")
        newest = "select tableoid::regclass::text from pgq.event_template order by ev_id desc"
        tables.append(value(conn, newest)[-1])
        assert rotate(conn)
    assert tables == ["0", "1", "2", "0"]


def test_queues_beyond_the_written_ones_take_events_too(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.create_queue('n' || n) from generate_series(1, 21) n")
    for n in range(1, 22):
        insert(conn, f"of {n}", f"n{n}")
    stored = conn.execute(
        "select ev_data, (select queue_name from pgq.queue where e.tableoid::regclass::text"
        " = queue_data_pfx || '_' || queue_cur_table) from pgq.event_template e"
    ).fetchall()
    assert sorted(stored) == sorted((f"of {n}", f"n{n}") for n in range(1, 22))


def test_a_session_that_has_inserted_before_reaches_a_queue_created_since(queue: Database) -> None:
    writer, other = queue.connect(), queue.connect()
    insert(writer, "e")
    other.execute("select pgq.create_queue('new')")
    assert insert(writer, "e", "new") == 1
    other.execute("select pgq.drop_queue('new'), pgq.create_queue('newer')")
    assert insert(writer, "e", "newer") == 1
    with refused("LD001", "No such queue"):
        insert(writer, "e", "new")


def test_what_a_session_remembers_of_a_queue_is_checked_for_every_event(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    setting = f"pgq.table_of_{value(conn, 'select queue_id from pgq.queue')}"
    assert insert(conn, "remembers") == 1
    assert value(conn, f"show {setting}") == "0"
    assert rotate(conn)
    assert insert(conn, "has rotated") == 2
    assert value(conn, f"show {setting}") == "1"
    for lie in ("0", "2", "7", "rubbish", ""):
        conn.execute(f"set {setting} = '{lie}'")
        insert(conn, lie)
    stored = column(conn, "select tableoid::regclass::text from pgq.event_template order by ev_id")
    assert [name[-1] for name in stored] == ["0", *"111111"]
    ids = column(conn, "select ev_id from pgq.event_template order by ev_id")
    assert ids == list(range(1, 8)), "no id is lost on the way"


def test_a_session_that_has_inserted_before_learns_of_a_refusal_and_of_a_limit(
    queue: Database,
) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    for _ in range(3):
        insert(conn, "e")
    conn.commit()
    other.execute("update pgq.queue set queue_disable_insert = true")
    with refused("LD102", "Insert into queue disallowed"):
        insert(conn, "e")
    conn.rollback()
    other.execute("update pgq.queue set queue_disable_insert = false, queue_per_tx_limit = 1")
    insert(conn, "e")
    with refused("LD102", "Queue 'q' allows max 1 events from one TX"):
        insert(conn, "e")
    conn.rollback()
    other.execute("update pgq.queue set queue_per_tx_limit = null")
    for _ in range(3):
        insert(conn, "e")


def test_names_of_queues_cannot_break_the_function_that_is_written_for_them(
    queue: Database,
) -> None:
    conn = queue.connect()
    names = ["$function$ x", "-- fast: end", "-- fast: begin", "o'hara\\", "%s %L $$", "*/ end;"]
    for name in names:
        conn.execute("select pgq.create_queue(%s)", [name])
    source = "select prosrc from pg_proc where proname = '_insert_event' and pronargs = 7"
    written = value(conn, source)
    for name in names:
        for expected in (1, 2):
            assert value(conn, "select pgq.insert_event(%s, 't', 'd')", name) == expected
    conn.execute("select pgq._generate_store_event()")
    assert value(conn, source) == written
    for name in reversed(names):
        conn.execute("select pgq.drop_queue(%s)", [name])
    assert value(conn, source).count("-- fast: ") == 2
    assert insert(conn, "e") == 1


def test_the_written_function_keeps_its_rights_and_its_search_path(queue: Database) -> None:
    found = queue.execute(
        "select prosecdef, proconfig, has_function_privilege('pgq_writer', oid, 'execute'),"
        " has_function_privilege('pgq_reader', oid, 'execute')"
        " from pg_proc where proname = '_insert_event' and pronargs = 7"
    )
    assert found == [(True, ["search_path=pg_catalog, pg_temp"], False, False)]


def test_a_pinned_search_path_keeps_foreign_functions_out(queue: Database) -> None:
    conn = queue.connect()
    conn.execute(
        "create schema evil; create function evil.nextval(text) returns int8"
        " language plpgsql as $$ begin raise exception 'evil'; end $$"
    )
    conn.execute("set search_path = evil, pg_catalog")
    assert insert(conn, "e") == 1
