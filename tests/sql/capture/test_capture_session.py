"""Session settings do not affect captured values, and capture does not change them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import writer

Session = psycopg.Connection[tuple[object, ...]]

FORMS = ("row", "statement")
SETTINGS = {
    "TimeZone": "Asia/Kathmandu",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
}


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application, and for each form a queue with a captured table."""
    with writer(pgq_db.dsn) as conn:
        for form in FORMS:
            conn.execute(
                f"create table {form}s (id date primary key, z timestamptz, i interval, f float8,"
                " b bytea)"
            )
            conn.execute("select pgq.create_queue(%s)", [form])
            conn.execute(
                "select londiste.create_capture(%s, %s, %s)",
                [form, f"public.{form}s", [f"form={form}"]],
            )
        yield conn


def insert(conn: Session, form: str, day: int) -> None:
    conn.execute(
        f"insert into {form}s values (make_date(2024, 2, %s), '2024-02-03 12:00Z',"
        " make_interval(0, 1, 0, 2, 3), 1.0::float8 / 3, decode('00ff', 'hex'))",
        [day],
    )


def events(conn: Session, form: str) -> list[tuple[object, ...]]:
    """Key text and image of the events, and the number of the table each stands in."""
    row = conn.execute(
        "select queue_data_pfx from pgq.queue where queue_name = %s", [form]
    ).fetchone()
    assert row is not None
    return conn.execute(
        "select ev_extra3, ev_data, right(tableoid::regclass::text, 1)"
        f" from {row[0]} order by ev_id"
    ).fetchall()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("local", [False, True])
def test_settings_are_pinned_for_the_capture_only(app: Session, form: str, local: bool) -> None:
    insert(app, form, 3)
    with app.transaction():
        for name, value in SETTINGS.items():
            app.execute("select set_config(%s, %s, %s)", [name, value, local])
        shown = {name: app.execute(f"show {name}").fetchone() for name in SETTINGS}
        insert(app, form, 4)
        assert {name: app.execute(f"show {name}").fetchone() for name in SETTINGS} == shown
    after = {name: app.execute(f"show {name}").fetchone() for name in SETTINGS}
    assert (after == shown) != local
    insert(app, form, 5)
    assert {name: app.execute(f"show {name}").fetchone() for name in SETTINGS} == after
    (first, *others) = events(app, form)
    assert '"z":"2024-02-03T12:00:00+00:00"' in str(first[1])
    for day, other in zip("45", others, strict=True):
        image = str(other[1]).replace(f"2024-02-0{day}", "2024-02-03", 1)
        assert (image, str(other[0])[:-3]) == (first[1], str(first[0])[:-3])


@pytest.mark.parametrize("form", FORMS)
def test_settings_come_back_when_the_capture_fails(app: Session, form: str) -> None:
    for name, value in SETTINGS.items():
        app.execute("select set_config(%s, %s, false)", [name, value])
    shown = {name: app.execute(f"show {name}").fetchone() for name in SETTINGS}
    app.execute("update pgq.queue set queue_disable_insert = true where queue_name = %s", [form])
    with app.transaction():
        with pytest.raises(psycopg.Error, match="disabled"), app.transaction():
            insert(app, form, 3)
        assert {name: app.execute(f"show {name}").fetchone() for name in SETTINGS} == shown
    assert {name: app.execute(f"show {name}").fetchone() for name in SETTINGS} == shown
    assert events(app, form) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("guess", ["2", "", "7", "no number"])
def test_a_forged_guess_of_the_event_table_changes_nothing(
    app: Session, form: str, guess: str
) -> None:
    app.execute(
        "select set_config('pgq.table_of_' || queue_id, %s, false) from pgq.queue"
        " where queue_name = %s",
        [guess, form],
    )
    insert(app, form, 3)
    insert(app, form, 4)
    app.execute(f"insert into {form}s select make_date(2025, 1, n) from generate_series(1, 20) n")
    found = events(app, form)
    assert {row[2] for row in found} == {"0"}
    assert sum(str(row[1]).count("\n") + 1 for row in found) == 22
    assert len(found) == (22 if form == "row" else 11)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("rows", [7, 8, 9])
def test_no_row_is_missed_or_told_twice_around_the_number_of_plain_events(
    app: Session, packed: bool, rows: int
) -> None:
    app.execute(
        "select pgq.set_queue_config('statement', 'packed_events', %s)", [str(packed).lower()]
    )
    for year in (2024, 2025):
        app.execute(
            "insert into statements select make_date(%s, 1, n) from generate_series(1, %s) n",
            [year, rows],
        )
    found = events(app, "statement")
    keys = [key for row in found for key in str(row[0]).split("\n")]
    assert len(keys) == len(set(keys)) == 2 * rows
    assert len(found) == 2 * rows
