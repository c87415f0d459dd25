"""Queues are created, configured and dropped with everything that belongs to them."""

from __future__ import annotations

import pytest

from tests.fix_cluster import Database
from tests.sql.queue_steps import column, insert, queue_with_consumer, refused, value


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
        [f"event_{number}", f"event_{number}_id_seq", f"event_{number}_tick_seq"]
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


@pytest.mark.parametrize(
    ("parameter", "given", "stored"),
    [
        ("ticker_max_count", "7", "7"),
        ("ticker_max_lag", "5 seconds", "00:00:05"),
        ("ticker_idle_period", "2 minutes", "00:02:00"),
        ("ticker_paused", "true", "true"),
        ("rotation_period", "30 min", "00:30:00"),
        ("external_ticker", "t", "true"),
        ("per_tx_limit", "9", "9"),
        ("disable_insert", "on", "true"),
        ("extra_maint", "{pg_temp.f,g}", "{pg_temp.f,g}"),
    ],
)
def test_a_parameter_is_set(pgq_db: Database, parameter: str, given: str, stored: str) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q'), pgq.create_queue('other')")
    before = value(conn, f"select queue_{parameter}::text from pgq.queue where queue_name = 'q'")
    assert value(conn, "select pgq.set_queue_config('q', %s, %s)", parameter, given) == 1
    found = dict(
        conn.execute(f"select queue_name, queue_{parameter}::text from pgq.queue").fetchall()
    )
    assert found == {"q": stored, "other": before}


def test_a_limit_is_taken_away_with_null(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', '9')")
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', null)")
    assert value(conn, "select queue_per_tx_limit from pgq.queue") is None


@pytest.mark.parametrize("parameter", ["foo", "queue_ticker_paused", "name", "data_pfx", "ntables"])
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


def test_nulls_and_unknown_queues_are_refused_by_set_queue_config(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("select pgq.create_queue('q')")
    for arguments in ("null, 'ticker_paused', 't'", "'q', null, 't'", "'q', 'ticker_paused', null"):
        with refused("LD005", "Invalid NULL value"):
            conn.execute(f"select pgq.set_queue_config({arguments})")
    with refused("LD001", "No such event queue"):
        conn.execute("select pgq.set_queue_config('nope', 'ticker_paused', 't')")
