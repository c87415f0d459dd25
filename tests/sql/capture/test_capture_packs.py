"""Packed events: many rows of one statement in one event, in the order of the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode_all
from londiste.changes.types import Op, RowChange
from tests.fixtures.cluster import Database
from tests.support.queue_events import Fields, as_event, take_events, writer
from tests.support.suite.slow import first, pairs

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application with a captured table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int8 primary key, v text)")
        conn.execute("select londiste.create_capture('q', 't')")
        yield conn


def packed(events: list[Fields]) -> list[Fields]:
    return [event for event in events if '"pack":true' in (event.type or "")]


def keys(events: list[Fields]) -> list[str]:
    return [line for event in events for line in (event.extra3 or "").split("\n")]


def test_eight_rows_are_plain_and_more_are_packed_by_five_hundred(app: Session) -> None:
    app.execute("insert into t select g, 'row ' || g from generate_series(1, 8) as g")
    events = take_events(app)
    assert len(events) == 8
    assert packed(events) == []
    for statement in (
        "insert into t select g, 'new' from generate_series(9, 1200) as g",
        "update t set v = v || E' \\n \\\\ \\u00e9'",
        "delete from t",
    ):
        app.execute(statement)
        events = take_events(app)
        assert [len(event.extra3.split("\n")) for event in packed(events) if event.extra3] in (
            [500, 500, 184],
            [500, 500, 192],
        )
        assert all(
            len((event.data or "").split("\n")) == len((event.extra3 or "").split("\n"))
            for event in events
        )
        told = [change for event in events for change in decode_all(as_event(event))]
        assert [c.image["id"] for c in told if isinstance(c, RowChange)] == keys(events)
        assert len(keys(events)) == len(set(keys(events))) >= 1192


def test_rows_keep_their_order_in_packs(app: Session) -> None:
    app.execute("create table log (a int8, b text)")
    app.execute("select londiste.create_capture('q', 'log')")
    app.execute(
        "insert into log select g, repeat('x', g % 3000) from generate_series(1, 3000) as g"
    )
    events = take_events(app)
    found = [json.loads(line)["a"] for event in events for line in (event.data or "").split("\n")]
    assert found == list(range(1, 3001))
    assert {event.extra3 for event in events} == {None}


def test_a_pack_has_about_a_megabyte_at_most(app: Session) -> None:
    app.execute("insert into t select g, repeat('x', 300000) from generate_series(1, 40) as g")
    sizes = [len(event.data or "") for event in packed(take_events(app))]
    assert len(sizes) >= 8
    assert max(sizes) < 1_400_000


def test_a_queue_for_foreign_consumers_has_no_packed_events(app: Session) -> None:
    app.execute("select pgq.set_queue_config('q', 'packed_events', 'false')")
    app.execute("insert into t select g, 'x' from generate_series(1, 30) as g")
    app.execute("update t set v = 'y'")
    events = take_events(app)
    assert len(events) == 60
    assert packed(events) == []
    app.execute("update t set id = 100 where id = 1")
    assert [json.loads(event.type or "")["op"] for event in take_events(app)] == [
        "DELETE",
        "DELETE",
        "INSERT",
    ]


@pytest.mark.parametrize("place", first([9, 700, 1, 20], 2))
@pytest.mark.parametrize("setting", ["", "packed_events=false", "per_tx_limit=9000"])
def test_a_changed_key_among_many_is_told_by_the_states_of_all_keys_before_and_after(
    app: Session, place: int, setting: str
) -> None:
    app.execute("insert into t select g, 'x' from generate_series(1, 1200) as g")
    take_events(app)
    if setting:
        app.execute("select pgq.set_queue_config('q', %s, %s)", setting.split("="))
    app.execute("update t set v = 'y', id = case id when %s then -id else id end", [place])
    told: dict[str, RowChange] = {}
    for event in take_events(app):
        for change in decode_all(as_event(event)):
            assert isinstance(change, RowChange)
            told[str(change.image["id"])] = change
    assert told.keys() == {str(n) for n in [*range(1, 1201), -place]}
    assert [key for key, c in told.items() if c.op is Op.DELETE] == [str(place)]
    assert all(c.image["v"] == "y" for c in told.values() if c.op is not Op.DELETE)
    assert told[str(place)].state and told[str(-place)].state


def test_keys_far_behind_are_compared_where_the_rows_are_wide(app: Session) -> None:
    app.execute("insert into t select g, repeat('x', 100000) from generate_series(1, 60) as g")
    take_events(app)
    app.execute("update t set v = v || 'y'")
    events = take_events(app)
    assert {json.loads(event.type or "")["op"] for event in events} == {"UPDATE"}
    assert keys(events) == [str(n) for n in range(1, 61)]
    assert max(len(event.data or "") for event in packed(events)) < 1_400_000
    app.execute("update t set v = 'z', id = case id when 50 then 500 else id end")
    assert {"50", "500"} <= set(keys(take_events(app)))


def test_the_limit_per_transaction_counts_rows(app: Session) -> None:
    app.execute("select pgq.set_queue_config('q', 'per_tx_limit', '20')")
    app.execute("insert into t select g, 'x' from generate_series(1, 20) as g")
    with pytest.raises(psycopg.Error) as caught:
        app.execute("update t set v = 'y' where id < 22; insert into t values (50, 'x')")
    assert caught.value.sqlstate == "LD102"


def test_every_way_to_write_many_rows_is_captured(app: Session) -> None:
    with app.cursor() as cursor, cursor.copy("copy t from stdin") as copy:
        for number in range(20):
            copy.write_row((number, "copied"))
    assert len(keys(take_events(app))) == 20
    app.execute(
        "insert into t select g, 'upserted' from generate_series(10, 39) as g"
        " on conflict (id) do update set v = excluded.v"
    )
    events = take_events(app)
    by_op: dict[str, int] = {}
    for event in events:
        op = json.loads(event.type or "")["op"]
        by_op[op] = by_op.get(op, 0) + len((event.extra3 or "").split("\n"))
    assert by_op == {"INSERT": 20, "UPDATE": 10}
    app.execute(
        "with gone as (delete from t where id < 20 returning *)"
        " insert into t select id + 100, v from gone"
    )
    events = take_events(app)
    assert json.loads(events[0].type or "")["op"] == "DELETE"
    assert len(keys(events)) == 40


def test_event_tables_compress_with_lz4_where_the_server_can(app: Session) -> None:
    row = app.execute(
        "select (select 'lz4' = any (enumvals) from pg_settings"
        " where name = 'default_toast_compression'),"
        " (select bool_and(attcompression = 'l') from pg_attribute"
        " where attrelid = any ('{pgq.event_1_0,pgq.event_1_1,pgq.event_1_2}'::regclass[])"
        " and attname in ('ev_data', 'ev_extra2', 'ev_extra3'))"
    ).fetchone()
    assert row is not None
    assert row[0] == row[1]


#: What an application does to a table, its trigger and its deferrable key included.
FOREIGN = (
    r"insert into f select g, E'line\n\\ ' || g from generate_series(1, 500) as g",
    "update f set v = v || '!' where id % 2 = 0",
    "update f set v = v",
    "update f set id = id + 5000 where id % 100 = 7",
    "update f set id = case id when 1 then 2 else 1 end where id in (1, 2)",
    "insert into f select g, 'again' from generate_series(1, 40) as g"
    " on conflict (id) do update set v = excluded.v, n = 1",
    "begin; delete from f where id = 10; insert into f values (10, 'new');"
    " update f set id = 9999 where id = 10; commit",
    "begin; insert into f values (20000, 'x'); savepoint s; delete from f; rollback to s;"
    " update f set n = 2 where id > 400; commit",
    "with gone as (delete from f where id < 30 returning *)"
    " insert into f select id, v, 3 from gone where id > 15",
    "delete from f where id between 100 and 200",
    "begin; truncate f; insert into f select g, 'after' from generate_series(1, 30) as g;"
    " update f set id = -id; commit",
)


def naive(rows: dict[str, str], events: list[Fields]) -> None:
    """A consumer that knows jsontriga and nothing of us, and trusts what it reads."""
    for event in events:
        told = json.loads(event.type or "")
        image = json.loads(event.data or "")
        if told["op"] == "TRUNCATE":
            rows.clear()
            continue
        key = json.dumps([image[column] for column in told["pkey"]])
        if told["op"] == "DELETE":
            rows.pop(key, None)
            continue
        assert (key in rows) == (told["op"] == "UPDATE"), event
        rows[key] = event.data or ""


# The table of a deferrable key has the row form in any case.
@pytest.mark.parametrize(
    ("key", "chosen"),
    pairs(["primary key (id) deferrable", "primary key (id)"], ["row", "statement"]),
)
@pytest.mark.parametrize("touched", first([True, False]))
def test_a_naive_consumer_has_the_right_table_without_packed_events(
    app: Session, chosen: str, touched: bool, key: str
) -> None:
    app.execute("select pgq.set_queue_config('q', 'packed_events', 'false')")
    app.execute(f"create table f (id int8, v text, n int4, {key})")
    app.execute("select londiste.create_capture('q', 'f', %s)", [[f"form={chosen}"]])
    if touched:
        app.execute(
            "create function touch() returns trigger language plpgsql as $$ begin"
            " if pg_trigger_depth() = 1 then update f set n = coalesce(n, 0) + 1"
            " where id in (new.id, new.id + 1); end if; return null; end $$;"
            'create trigger "A_touch" after insert or update on f'
            " for each row when (new.id % 50 = 0) execute function touch()"
        )
    rows: dict[str, str] = {}
    for statement in FOREIGN:
        try:
            app.execute(statement.encode())
        except psycopg.errors.Error:
            # A deferrable key arbitrates no conflict, one that is not may not be swapped.
            app.execute("rollback")
        naive(rows, take_events(app))
        there = app.execute("select row_to_json(f)::text from f").fetchall()
        assert sorted(rows.values()) == sorted(str(row[0]) for row in there), statement
