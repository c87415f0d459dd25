"""Changes inside a statement: replay of the captured events ends with the same rows."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode_all
from londiste.changes.types import Op, RowChange
from tests.fixtures.cluster import Database
from tests.support.queue_events import as_event, take_events, writer

Session = psycopg.Connection[tuple[object, ...]]
Rows = dict[str | None, dict[str, str | None]]

#: Fires before the triggers of capture, whose names begin with a lower-case letter or _.
TOUCH = """
create function touch() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() = 1 then
        update t set v = v || '+' where id = new.id or id = new.id + 1;
    end if;
    return null;
end
$$;
create trigger "A_touch" after insert or update on t for each row execute function touch();
"""


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and a table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            "create table t (id int4 primary key, v text, top int4 references t"
            " on update cascade on delete cascade)"
        )
        yield conn


def replay(conn: Session, rows: Rows) -> Rows:
    """What the events make of the rows, one after the other as they come."""
    for fields in take_events(conn):
        for change in decode_all(as_event(fields)):
            assert isinstance(change, RowChange)
            key = change.image["id"]
            if change.op is Op.DELETE:
                rows.pop(key, None)
            elif change.op is Op.INSERT or change.state or key in rows:
                rows[key] = change.image
    return rows


def there(conn: Session) -> Rows:
    found = conn.execute("select id::text, v, top::text from t").fetchall()
    return {key: {"id": key, "v": v, "top": top} for key, v, top in found}  # type: ignore[misc]


STATEMENTS = (
    "insert into t select g, 'a', nullif(g / 2, 0) from generate_series(1, 20) as g",
    "update t set v = v || 'b' where id < 12",
    "update t set id = id + 100 where id in (3, 4)",
    "insert into t values (3, 'again'), (30, 'new') on conflict (id) do update set v = 'up'",
    "update t set v = 'last', id = id + 100 where id = 1",
    "delete from t where id = 2",
    "with gone as (delete from t where id in (5, 103) returning *)"
    " insert into t select id, 'back' from gone",
    "delete from t where id = 101",
    # The delete goes on after the insert has ended.
    "with gone as (delete from t where id > 5 returning *)"
    " insert into t select id, 'limited' from gone limit 1",
)


@pytest.mark.parametrize("form", ["row", "statement"])
@pytest.mark.parametrize("touched", [True, False])
@pytest.mark.parametrize("cascades", [True, False])
def test_replay_ends_with_the_rows_that_triggers_and_cascades_left(
    app: Session, form: str, touched: bool, cascades: bool
) -> None:
    if not cascades:
        app.execute("alter table t drop constraint t_top_fkey")
    if touched:
        app.execute(TOUCH)
    app.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])
    chosen = app.execute("select form from londiste.capture_forms('q')").fetchone()
    assert chosen == ("row" if cascades else form,)
    rows: Rows = {}
    for statement in STATEMENTS:
        app.execute(statement)
        assert replay(app, rows) == there(app), statement
    # all of it in one transaction, too
    app.execute("delete from t")
    replay(app, rows)
    with app.transaction():
        for statement in STATEMENTS:
            app.execute(statement)
    assert replay(app, rows) == there(app)


@pytest.mark.parametrize("trigger", ["pgq.logutriga('q')", "pgq.jsontriga('q')"])
def test_the_compatible_triggers_end_with_other_rows(app: Session, trigger: str) -> None:
    app.execute(TOUCH)
    app.execute(
        f"create trigger b_log after insert or update or delete on t for each row"
        f" execute function {trigger}"
    )
    app.execute("insert into t values (1, 'a')")
    assert there(app)["1"]["v"] == "a+"
    assert replay(app, {})["1"]["v"] == "a"


def test_a_rolled_back_savepoint_takes_the_flag_back(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t values (1, 'a'), (2, 'b')")
    take_events(app)
    with app.transaction():
        with pytest.raises(ZeroDivisionError), app.transaction():
            app.execute("update t set id = 7 where id = 1")
            raise ZeroDivisionError
        app.execute("update t set v = 'c' where id = 2")
    (event,) = take_events(app)
    assert '"state"' not in (event.type or "")


@pytest.mark.parametrize("form", ["row", "statement"])
def test_the_statement_of_a_writer_without_rights_on_anything_else_is_captured(
    app: Session, form: str
) -> None:
    app.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])
    app.execute("create role fix_only_writer")
    try:
        app.execute("grant insert, update (v, id), select (id) on t to fix_only_writer")
        app.execute("set role fix_only_writer")
        app.execute("insert into t select g, 'x' from generate_series(1, 20) as g")
        app.execute("update t set id = 100 where id = 1")
        app.execute("reset role")
        assert replay(app, {}) == there(app)
    finally:
        app.execute("reset role")
        app.execute("drop owned by fix_only_writer")
        app.execute("drop role fix_only_writer")


@pytest.mark.parametrize("form", ["row", "statement"])
def test_a_session_goes_on_in_the_table_that_rotation_and_more_tables_make_current(
    app: Session, pgq_db: Database, form: str
) -> None:
    app.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])
    pgq_db.execute("select pgq.set_queue_config('q', 'rotation_period', '0')")
    tables = set()
    for number in range(1, 9):
        if number == 4:
            pgq_db.execute("select pgq.set_queue_config('q', 'ntables', '5')")
        app.execute("insert into t values (%s, 'x')", [number])
        tables |= set(
            pgq_db.execute(
                "select tableoid::regclass::text, max(ev_id) from pgq.event_template"
                " where ev_extra3 = %s group by 1",
                str(number),
            )
        )
        current = pgq_db.value(
            "select queue_data_pfx || '_' || queue_cur_table from pgq.queue where queue_name = 'q'"
        )
        assert (
            pgq_db.value(f"select count(*) from only {current} where ev_extra3 = %s", str(number))
            == 1
        )
        pgq_db.execute("select pgq.maint_rotate_tables_step1('q')")
        pgq_db.execute("select pgq.maint_rotate_tables_step2()")
    assert len({name for name, _ in tables}) == 5
    assert pgq_db.value("select count(*) from londiste.stale_captures('q')") == 1
    app.execute("select londiste.refresh_capture('q', 't')")
    app.execute("insert into t values (50, 'x')")


@pytest.mark.parametrize("form", ["row", "statement"])
def test_events_are_refused_where_the_queue_refuses_them(app: Session, form: str) -> None:
    app.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])
    app.execute("insert into t values (1, 'x')")
    app.execute("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    with pytest.raises(psycopg.Error) as caught:
        app.execute("insert into t values (2, 'x')")
    assert caught.value.sqlstate == "LD102"
    app.execute("select pgq.set_queue_config('q', 'disable_insert', 'false')")
    app.execute("insert into t values (2, 'x')")
    assert len(take_events(app)) == 2


@pytest.mark.parametrize("form", ["row", "statement"])
def test_a_function_that_changes_rows_of_its_statement_is_to_be_called_alone(
    pgq_db: Database, form: str
) -> None:
    """What docs/howto/choose-a-form.md says under Functions that write."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, v text, top int4)")
        conn.execute("select londiste.create_capture('q', 't', %s)", [[f"form={form}"]])
        conn.execute(
            "create function mark(i int4) returns text language sql as"
            " $$ update t set v = v || '!' where id = i returning v $$"
        )
        conn.execute("insert into t values (1, 'a'), (2, 'b')")
        rows = replay(conn, {})
        conn.execute("update t set v = 'new' where id = 1 returning mark(id)")
        rows = replay(conn, rows)
        assert there(conn)["1"]["v"] == "new!"
        assert rows["1"]["v"] == "new", "told before the statement that made the row"
        conn.execute("with made as (update t set v = 'two' where id = 2 returning id) table made")
        conn.execute("select mark(2)")
        conn.execute("update t set v = v where id = 1")
        assert replay(conn, rows) == there(conn)
