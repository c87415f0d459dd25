"""Captured text does not depend on the settings of the session that writes.

Two hundred sessions with random settings write values of every type the server has.  What each
form of capture says of them is decoded and inserted into another table as parameters, by the
connection the program uses; the texts of both tables have to be equal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode
from londiste.changes.types import Op, RowChange
from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.fixtures.values import quoted, usable
from tests.support.queue_events import Fields, as_event, take_events, writer
from tests.support.suite.slow import first

#: Sets of settings by default, and in the slow run.
VECTORS, MANY = 40, 200
SESSIONS = 10

SETTINGS: dict[str, list[str]] = {
    "DateStyle": [
        f"{style}, {order}"
        for style in ("ISO", "SQL", "Postgres", "German")
        for order in ("DMY", "MDY", "YMD")
    ],
    "IntervalStyle": ["postgres", "postgres_verbose", "sql_standard", "iso_8601"],
    "TimeZone": [
        "UTC",
        "Asia/Kolkata",
        "America/St_Johns",
        "Europe/Dublin",
        "Pacific/Kiritimati",
        "<-1130>11:30",
    ],
    "extra_float_digits": ["-15", "-3", "0", "1", "3"],
    "bytea_output": ["hex", "escape"],
    "xmloption": ["content", "document"],
    "lc_monetary": ["C", "en_US.utf8", "de_DE.utf8", "ja_JP.utf8"],
    "standard_conforming_strings": ["on", "off"],
    "escape_string_warning": ["on", "off"],
    "quote_all_identifiers": ["on", "off"],
    "search_path": ["public", "pg_catalog, public", '""'],
    "array_nulls": ["on", "off"],
    "row_security": ["on", "off"],
}


def random_settings(
    source: random.Random, session: psycopg.Connection[tuple[object, ...]]
) -> dict[str, str]:
    """Gives a session random settings and returns them; locales the host lacks are left out."""
    chosen = {name: source.choice(values) for name, values in SETTINGS.items()}
    for name, value in list(chosen.items()):
        try:
            session.execute("select set_config(%s, %s, false)", [name, value])
        except psycopg.errors.InvalidParameterValue:
            del chosen[name]
    return chosen


class Tables:
    """A table with a column per type, the values to write to it, and the target."""

    def __init__(self, admin: psycopg.Connection[tuple[object, ...]]) -> None:
        types = usable(admin)
        self.types = [("int4", "id"), *((name, f"c{n}") for n, name in enumerate(types))]
        columns = ", ".join(f"{column} {name}" for name, column in self.types[1:])
        for table in ("stock", "source", "target"):
            admin.execute(f"create table {table} (id int4 primary key, {columns})")
        self.rows = max(len(values) for values in types.values())
        for row in range(self.rows):
            values = ", ".join(
                f"cast({quoted(literals[row % len(literals)])} as {name})"
                for name, literals in types.items()
            )
            admin.execute(f"insert into stock values ({row}, {values})")
        admin.execute(f"insert into stock (id) values ({self.rows})")
        self.columns = ", ".join(column for _, column in self.types[1:])

    def texts(self, conn: Connection, table: str) -> list[tuple[object, ...]]:
        """Every value as the text of its output function, in the settings of ``conn``."""
        expressions = ", ".join(
            f"case num_nulls({column}) when 0 then format('%s', {column}) end"
            for _, column in self.types
        )
        return conn.execute(f"select {expressions} from public.{table} order by id").fetchall()

    def replay(self, conn: Connection) -> list[Fields]:
        """What capture said since the last call, done to the target."""
        events = take_events(conn)
        assert events
        for fields in events:
            change = decode(as_event(fields))
            assert isinstance(change, RowChange)
            self.apply(conn, change)
        return events

    def apply(self, conn: Connection, change: RowChange) -> None:
        """The change as a statement with parameters, as any replay would make it."""
        kinds = {column: name for name, column in self.types}
        if change.op is Op.INSERT:
            names = ", ".join(change.image)
            values = ", ".join(f"%s::{kinds[column]}" for column in change.image)
            conn.execute(
                f"insert into public.target ({names}) values ({values})",
                list(change.image.values()),
            )
            return
        where = "id = %s::int4"
        if change.op is Op.DELETE:
            cursor = conn.execute(f"delete from public.target where {where}", [change.image["id"]])
        else:
            names = ", ".join(f"{name} = %s::{kinds[name]}" for name in change.image)
            cursor = conn.execute(
                f"update public.target set {names} where {where}",
                [*change.image.values(), change.image["id"]],
            )
        assert cursor.rowcount == 1


@pytest.fixture(params=first(["own capture", "logutriga", "sqltriga", "jsontriga"], 2))
def captured(request: pytest.FixtureRequest, pgq_db: Database) -> Iterator[Tables]:
    """The tables, with one form of capture on the source."""
    with writer(pgq_db.dsn) as admin:
        tables = Tables(admin)
        admin.execute("select pgq.create_queue('q')")
        if request.param == "own capture":
            admin.execute("select londiste.create_capture('q', 'source')")
        else:
            admin.execute(
                "create trigger x after insert or update or delete on source"
                f" for each row execute function pgq.{request.param}('q')"
            )
        yield tables


@pytest.mark.parametrize("vectors", [VECTORS, pytest.param(MANY, marks=pytest.mark.slow)])
def test_text_is_lossless_whatever_the_writers_settings(
    captured: Tables, pgq_db: Database, vectors: int
) -> None:
    source = random.Random(20240203)
    ours = pgq_db.connect()
    names = captured.columns
    said: dict[int, list[Fields]] = {}
    for _ in range(SESSIONS):
        # Several settings in a session: what it keeps (plans) must not depend on them either.
        with writer(pgq_db.dsn) as session:
            for _ in range(vectors // SESSIONS):
                chosen = random_settings(source, session)
                first = source.randrange(captured.rows + 1)
                second = source.randrange(captured.rows + 1)
                session.execute(
                    f"insert into public.source (id, {names})"
                    f" select 1, {names} from public.stock where id = {first}"
                )
                events = captured.replay(ours)
                assert said.setdefault(first, events) == events, chosen
                expected = captured.texts(ours, "source")
                assert captured.texts(ours, "target") == expected, chosen
                session.execute(
                    f"update public.source set ({names}) ="
                    f" (select {names} from public.stock where id = {second})"
                )
                captured.replay(ours)
                expected = captured.texts(ours, "source")
                assert captured.texts(ours, "target") == expected, chosen
                session.execute("delete from public.source")
                captured.replay(ours)
                assert captured.texts(ours, "target") == []
