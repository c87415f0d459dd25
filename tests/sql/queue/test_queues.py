"""Queues are created, configured and dropped with everything that belongs to them."""

from __future__ import annotations

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    insert,
    queue_with_consumer,
    refused,
    refused_like,
    rotate,
    tick,
    value,
)
from tests.support.suite.slow import only


def test_a_queue_is_created_once(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert value(conn, "select pgq.create_queue('q')") == 1
    assert value(conn, "select pgq.create_queue('q')") == 0
    assert column(conn, "select queue_name from pgq.queue") == ["q"]


def test_a_queue_without_a_name_is_refused(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    with refused("LD005", "Invalid NULL value"):
        conn.execute("select pgq.create_queue(null)")


def test_a_new_queue_has_its_tables_sequences_indexes_and_first_tick(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    number = value(conn, "select queue_id from pgq.queue")
    relations = column(
        conn,
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relname ~ '^event_[0-9]' order by 1",
    )
    assert relations == sorted(
        [
            f"event_{number}",
            f"event_{number}_id_seq",
            f"event_{number}_tick_seq",
            f"event_{number}_way",
        ]
        + [f"event_{number}_{n}" for n in range(3)]
        + [f"event_{number}_{n}_txid_idx" for n in range(3)]
    )
    parents = conn.execute(
        "select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits"
        " where inhrelid::regclass::text like 'pgq.event%' and inhrelid in"
        " (select oid from pg_class where relkind = 'r') order by 1"
    ).fetchall()
    assert parents == [
        (f"pgq.event_{number}", "pgq.event_template"),
        *((f"pgq.event_{number}_{n}", f"pgq.event_{number}") for n in range(3)),
    ]
    defaults = column(
        conn,
        "select pg_get_expr(adbin, adrelid) from pg_attrdef d join pg_attribute a"
        " on a.attrelid = d.adrelid and a.attnum = d.adnum where attname = 'ev_id'",
    )
    assert defaults == [f"nextval('pgq.event_{number}_id_seq'::regclass)"] * 3
    assert column(conn, "select tick_id from pgq.tick") == [1]
    options = column(
        conn, "select reloptions from pg_class where relname = %s", f"event_{number}_0"
    )
    assert sorted(options[0]) == ["autovacuum_enabled=off", "fillfactor=100"]


def test_a_new_queue_has_the_documented_settings(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    row = conn.execute(
        "select queue_ntables, queue_cur_table, queue_rotation_period::text,"
        " queue_external_ticker, queue_disable_insert, queue_ticker_paused,"
        " queue_ticker_max_count, queue_ticker_max_lag::text, queue_ticker_idle_period::text,"
        " queue_per_tx_limit, queue_extra_maint, queue_data_pfx = 'pgq.event_' || queue_id,"
        " queue_event_seq = 'pgq.event_' || queue_id || '_id_seq',"
        " queue_tick_seq = 'pgq.event_' || queue_id || '_tick_seq',"
        " queue_switch_step1 = queue_switch_step2 from pgq.queue"
    ).fetchone()
    assert row == (
        *(3, 0, "02:00:00", False, False, False, 500, "00:00:03", "00:01:00"),
        *(None, None, True, True, True, True),
    )


@pytest.mark.parametrize("name", ["", "with space", "O'Brien", 'quo"ted', "ÄÖ", "x" * 200])
def test_any_text_names_a_queue(pgq_db: Database, name: str) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn, name)
    assert insert(conn, "e", name) == 1
    assert value(conn, "select queue_name from pgq.get_queue_info(%s)", name) == name
    assert value(conn, "select pgq.drop_queue(%s, true)", name) == 1


def test_two_sessions_can_create_the_same_queue(pgq_db: Database) -> None:
    first, second = pgq_db.connect(autocommit=False), pgq_db.connect(lock_timeout_ms=50)
    assert value(first, "select pgq.create_queue('q')") == 1
    with pytest.raises(Exception, match="lock timeout"):
        second.execute("select pgq.create_queue('q')")
    first.commit()
    assert value(second, "select pgq.create_queue('q')") == 0


def test_dropping_an_unknown_queue_is_refused(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    with refused("LD001", "No such event queue"):
        conn.execute("select pgq.drop_queue('nope')")
    with refused("LD001", "No such event queue"):
        conn.execute("select pgq.drop_queue('nope', true)")
    assert value(conn, "select pgq.drop_queue(null)") is None


def test_a_queue_with_consumers_is_dropped_only_by_force(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    insert(conn, "e")
    with refused("LD104", "cannot drop queue, consumers still attached"):
        conn.execute("select pgq.drop_queue('q')")
    with refused("LD104", "cannot drop queue, consumers still attached"):
        conn.execute("select pgq.drop_queue('q', false)")
    assert value(conn, "select pgq.drop_queue('q', true)") == 1
    left = column(
        conn,
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relname ~ '^event_[0-9]'",
    )
    assert left == []
    for table in ("queue", "tick", "subscription", "consumer", "retry_queue"):
        assert value(conn, f"select count(*) from pgq.{table}") == 0, table


def test_a_queue_without_consumers_is_dropped(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    assert value(conn, "select pgq.drop_queue('q')") == 1


#: Parameters of a queue, a value for each, and what is stored.
PARAMETERS = [
    ("ticker_max_count", "7", "7"),
    ("ticker_max_lag", "5 seconds", "00:00:05"),
    ("ticker_idle_period", "2 minutes", "00:02:00"),
    ("ticker_paused", "true", "true"),
    ("rotation_period", "30 min", "00:30:00"),
    ("external_ticker", "t", "true"),
    ("per_tx_limit", "9", "9"),
    ("disable_insert", "on", "true"),
    ("extra_maint", "{pg_temp.f,g}", "{pg_temp.f,g}"),
    ("ntables", "4", "4"),
    ("max_retries", "0", "0"),
    ("key_retention", "1 week", "7 days"),
    ("packed_events", "no", "false"),
]


def test_a_parameter_is_set(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q'), pgq.create_queue('other')")
    for parameter, given, stored in PARAMETERS:
        stands = f"select queue_name, queue_{parameter}::text from pgq.queue"
        before = dict(conn.execute(stands).fetchall())
        assert before["q"] == before["other"] != stored, parameter
        assert value(conn, "select pgq.set_queue_config('q', %s, %s)", parameter, given) == 1
        assert dict(conn.execute(stands).fetchall()) == {**before, "q": stored}, parameter


def test_a_limit_is_taken_away_with_null(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', '9')")
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', null)")
    assert value(conn, "select queue_per_tx_limit from pgq.queue") is None


@pytest.mark.parametrize(
    "parameter", ["foo", "queue_ticker_paused", "name", "data_pfx", "cur_table", "NTABLES", ""]
)
def test_an_unknown_parameter_is_refused(pgq_db: Database, parameter: str) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    with refused("LD005", f'cannot change parameter "{parameter}"'):
        conn.execute("select pgq.set_queue_config('q', %s, '1')", [parameter])


def test_a_value_of_the_wrong_type_is_refused(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    with refused("LD005", "bad value for parameter ticker_max_count: many"):
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', 'many')")
    with refused("LD005", "bad value for parameter ticker_max_lag: soon"):
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', 'soon')")


@pytest.mark.parametrize(
    ("parameter", "nonsense"),
    [
        ("ticker_max_count", "0"),
        ("ticker_max_lag", "-1 s"),
        ("ticker_idle_period", "-1 day"),
        ("rotation_period", "-00:00:01"),
        ("per_tx_limit", "0"),
        ("ntables", "0"),
        ("ntables", "1"),
        ("ntables", "101"),
        ("max_retries", "-1"),
        ("key_retention", "0"),
        ("key_retention", "10000 years"),
        ("rotation_period", "300000 years"),
        ("ticker_max_count", "2147483648"),
        ("ticker_paused", "perhaps"),
        ("extra_maint", "no array"),
    ],
)
def test_nonsense_is_refused(pgq_db: Database, parameter: str, nonsense: str) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    before = conn.execute("select * from pgq.queue").fetchone()
    with refused("LD005", f"bad value for parameter {parameter}: {nonsense}"):
        conn.execute("select pgq.set_queue_config('q', %s, %s)", [parameter, nonsense])
    assert conn.execute("select * from pgq.queue").fetchone() == before


def test_every_parameter_that_is_no_limit_needs_a_value(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    for parameter in column(conn, "select param_name from pgq.get_queue_config('q')"):
        if parameter in ("per_tx_limit", "extra_maint", "max_retries"):
            conn.execute("select pgq.set_queue_config('q', %s, null)", [parameter])
        else:
            with refused("LD005", "Invalid NULL value"):
                conn.execute("select pgq.set_queue_config('q', %s, null)", [parameter])


def test_all_parameters_are_told_in_the_form_that_sets_them(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q'), pgq.create_queue('p')")
    conn.execute("select pgq.set_queue_config('q', 'extra_maint', '{a.b,c}')")
    conn.execute("select pgq.set_queue_config('q', 'rotation_period', '1 day')")
    found = conn.execute("select * from pgq.get_queue_config('q')").fetchall()
    values = {name: stored for name, stored, _ in found}
    assert values == {
        "ticker_max_count": "500",
        "ticker_max_lag": "00:00:03",
        "ticker_idle_period": "00:01:00",
        "ticker_paused": "false",
        "rotation_period": "1 day",
        "external_ticker": "false",
        "per_tx_limit": None,
        "disable_insert": "false",
        "ntables": "3",
        "extra_maint": "{a.b,c}",
        "max_retries": None,
        "key_retention": "1 day",
        "packed_events": "true",
    }
    assert all(description for _, _, description in found)
    for name, stored in values.items():
        assert value(conn, "select pgq.set_queue_config('p', %s, %s)", name, stored) == 1
    again = conn.execute("select * from pgq.get_queue_config('p')").fetchall()
    assert again == found
    with refused("LD001", "No such event queue"):
        conn.execute("select pgq.get_queue_config('nope')")


def tables_of(conn: Connection) -> list[str]:
    return column(
        conn,
        "select c.relname::text from pg_class c join pg_inherits i on i.inhrelid = c.oid"
        " where i.inhparent = (select queue_data_pfx::regclass from pgq.queue) order by 1",
    )


@pytest.mark.parametrize("turns", only(range(5), 0, 2, 4))
def test_more_tables_come_at_once_and_nothing_is_lost(pgq_db: Database, turns: int) -> None:
    conn, slow = pgq_db.connect(), pgq_db.connect()
    queue_with_consumer(conn)
    conn.execute("select pgq.register_consumer('q', 'slow')")
    written: list[str] = []

    def turn() -> None:
        insert(conn, str(len(written)))
        written.append(str(len(written)))
        tick(conn)
        consume(conn)
        rotate(conn)

    conn.execute("select pgq.unregister_consumer('q', 'slow')")
    for _ in range(turns):
        turn()
    conn.execute("select pgq.register_consumer('q', 'slow')")
    first = len(written)
    turn()
    insert(slow, "before")
    conn.execute("select pgq.set_queue_config('q', 'ntables', '6')")
    insert(slow, "after")
    assert len(tables_of(conn)) == 6
    turn()
    found: list[str] = []
    while value(conn, "select pgq.next_batch('q', 'slow')") is not None:
        found += consume(conn, consumer="slow")
    assert found == [*written[first:-1], "before", "after", written[-1]]
    used = set()
    for _ in range(12):
        turn()
        while value(conn, "select pgq.next_batch('q', 'slow')") is not None:
            consume(conn, consumer="slow")
        used.add(value(conn, "select queue_cur_table from pgq.queue"))
    assert used == set(range(6)), "rotation goes through all of them"


def test_new_tables_are_like_the_others(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    conn.execute("select pgq.set_queue_config('q', 'ntables', '5')")
    number = value(conn, "select queue_id from pgq.queue")
    look = (
        "select reloptions, relacl::text, (select replace(pg_get_indexdef(indexrelid),"
        "   right(relname, 1), 'N') from pg_index where indrelid = c.oid),"
        " (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = c.oid and adnum = 1)"
        f" from pg_class c where relname ~ '^event_{number}_[0-9]$'"
    )
    first, *others = conn.execute(look).fetchall()
    assert len(others) == 4 and all(first[:2] == other[:2] for other in others)
    assert {row[3] for row in (first, *others)} == {first[3]}
    assert all(row[2] for row in others)


def test_tables_that_nobody_needs_are_taken_away(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    conn.execute("select pgq.set_queue_config('q', 'ntables', '6')")
    fewer = "select pgq.set_queue_config('q', 'ntables', '3')"
    answers: list[str] = []
    for n in range(14):
        insert(conn, str(n))
        tick(conn)
        if n % 6 != 5:
            assert consume(conn) == [str(n)]
        if n < 12:
            try:
                with conn.transaction():
                    conn.execute(fewer)
                    answers.append(f"{value(conn, 'select queue_cur_table from pgq.queue')} done")
                    raise LookupError
            except psycopg.Error as error:
                assert error.sqlstate == "LD100" and error.diag.message_hint
                assert len(tables_of(conn)) == 6
                answers.append(str(error.diag.message_detail).split(": ")[1])
            except LookupError:
                pass
        while value(conn, "select pgq.next_batch('q', 'c')") is not None:
            consume(conn)
        assert rotate(conn)
    assert answers[:6] == [
        "it took the events before the last rotation",
        "1 done",
        "2 done",
        "it takes the events now",
        "it took the events before the last rotation",
        "it took the events before the last rotation",
    ]
    conn.execute(fewer)
    assert len(tables_of(conn)) == 3
    for n in range(4):
        insert(conn, f"on {n}")
        tick(conn)
        assert consume(conn) == [f"on {n}"]
        assert rotate(conn)
    conn.execute("select pgq.drop_queue('q', true)")
    assert value(conn, "select count(*) from pg_class where relname ~ '^event_[0-9]'") == 0


def test_a_table_that_a_consumer_has_to_read_stays(pgq_db: Database) -> None:
    conn, late = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queue_with_consumer(conn)
    conn.execute("select pgq.set_queue_config('q', 'ntables', '4')")
    late.execute("set transaction isolation level repeatable read")
    for n in range(3):
        insert(conn, str(n))
        tick(conn)
        consume(conn)
        assert rotate(conn)
        if n == 2:
            late.execute("select 1 from pgq.queue")
    for n in range(2):
        insert(conn, str(n))
        tick(conn)
        consume(conn)
        assert rotate(conn)
    insert(late, "late")
    late.commit()
    with refused_like("LD100", "queue q needs event table pgq.event_[0-9]+_3"):
        conn.execute("select pgq.set_queue_config('q', 'ntables', '3')")
    tick(conn)
    assert consume(conn) == ["late"]
    assert value(conn, "select pgq.set_queue_config('q', 'ntables', '3')") == 1


def test_a_table_that_is_written_to_is_not_waited_for(pgq_db: Database) -> None:
    conn, writer = pgq_db.connect(), pgq_db.connect(autocommit=False)
    conn.execute("select pgq.create_queue('q')")
    table = value(conn, "select queue_data_pfx || '_2' from pgq.queue")
    writer.execute(f"lock table {table} in row exclusive mode")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        conn.execute("select pgq.set_queue_config('q', 'ntables', '2')")
    assert len(tables_of(conn)) == 3


def test_nulls_and_unknown_queues_are_refused_by_set_queue_config(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    for arguments in ("null, 'ticker_paused', 't'", "'q', null, 't'", "'q', 'ticker_paused', null"):
        with refused("LD005", "Invalid NULL value"):
            conn.execute(f"select pgq.set_queue_config({arguments})")
    with refused("LD001", "No such event queue"):
        conn.execute("select pgq.set_queue_config('nope', 'ticker_paused', 't')")
