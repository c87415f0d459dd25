"""Checks of the target, computed without Londiste's code.

``same_rows`` compares the texts of all rows of both sides, counting duplicates (EXCEPT ALL in
both directions).  ``PrefixReader`` watches the target while it is being written.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

_TEXT_SETTINGS = (
    "set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres';"
    " set extra_float_digits = 1; set bytea_output = 'hex'"
)


def rows(database: Database, table: str) -> Counter[str]:
    """The rows of a table as COPY's text, and how often each is there."""
    schema, _, name = table.partition(".")
    counted: Counter[str] = Counter()
    with psycopg.connect(database.dsn) as conn:
        conn.execute(_TEXT_SETTINGS)
        columns = conn.execute(
            "select attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " join pg_namespace s on s.oid = c.relnamespace"
            " where s.nspname = %s and c.relname = %s and attnum > 0 and not attisdropped"
            " order by attname",
            [schema, name],
        ).fetchall()
        assert columns, f"no table {table} in {database.name}"
        statement = sql.SQL("copy (select {} from {}) to stdout").format(
            sql.SQL(", ").join(sql.Identifier(column) for (column,) in columns),
            sql.Identifier(schema, name),
        )
        with conn.cursor().copy(statement) as copy:
            rest = b""
            for data in copy:
                lines = (rest + bytes(data)).split(b"\n")
                rest = lines.pop()
                counted.update(line.decode() for line in lines)
    return counted


def differences(source: Database, target: Database, tables: Sequence[str]) -> dict[str, str]:
    """Per table that is not the same on both sides, what is different."""
    found = {}
    for table in tables:
        here, there = rows(source, table), rows(target, table)
        missing, surplus = here - there, there - here
        if missing or surplus:
            found[table] = (
                f"{missing.total()} rows missing, {surplus.total()} too many;"
                f" missing: {list(missing)[:3]}; too many: {list(surplus)[:3]}"
            )
    return found


def assert_same_rows(source: Database, target: Database, tables: Sequence[str]) -> None:
    """Source and target have the same rows, each as often."""
    found = differences(source, target, tables)
    assert not found, f"source and target differ: {found}"


def applied_twice(database: Database) -> list[tuple[Any, ...]]:
    """Rows of the log without key that are there more than once."""
    return database.execute(
        "select writer, n, count(*) from scenario.log group by 1, 2 having count(*) > 1"
    )


def gaps(database: Database) -> list[tuple[Any, ...]]:
    """Writers whose numbers are not 1, 2, 3 … to the end."""
    return database.execute(_GAPS)


_HALF = """
select token, count(*) from (
    select token from scenario.token_a
    union all select token from scenario.token_b
    union all select token from scenario."Token C"
    union all select token from scenario.log
) t group by token having count(*) <> 4 limit 5
"""
_BALANCE = "select sum(balance)::text, count(*) from scenario.account"
_GAPS = """
select writer, count(*), min(n), max(n) from scenario.log
group by writer having count(*) <> max(n) or min(n) <> 1
"""
_REACHED = "select writer, max(n) from scenario.log group by writer"


class PrefixReader:
    """Looks at the target all the time; remembers every violation of a transaction's unity.

    In one REPEATABLE READ snapshot: a token is in all four tables or in none; the accounts'
    sum is what it always was; every writer's numbers have no gap and do not go back.
    """

    def __init__(self, database: Database, *, accounts: int = 20, total: int = 20_000) -> None:
        self.database = database
        self.looks = 0
        self.seen_states: set[int] = set()
        self.violations: list[str] = []
        self._expected = (str(total), accounts)
        self._reached: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefix reader", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> PrefixReader:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def stop(self) -> None:
        """Ends it; AssertionError when it has seen half a transaction, or nothing at all."""
        self._stop.set()
        self._thread.join(60)
        if self._error is not None:
            raise AssertionError("the reader has failed") from self._error
        assert not self.violations, self.violations[:10]
        assert self.looks > 0

    def wait(self, looks: int, seconds: float = 60.0) -> None:
        """Waits until it has looked so many more times."""
        target = self.looks + looks

        def reached() -> bool:
            assert self._error is None, f"the reader has failed: {self._error!r}"
            return self.looks >= target

        wait_for(reached, timeout=seconds, what=f"{looks} looks of the reader")

    def look(self, conn: psycopg.Connection[Any]) -> list[str]:
        """One look, in one snapshot; what is wrong."""
        wrong = []
        with conn.transaction():
            conn.execute("set transaction isolation level repeatable read, read only")
            half = conn.execute(_HALF).fetchall()
            balance = conn.execute(_BALANCE).fetchone()
            gaps = conn.execute(_GAPS).fetchall()
            reached = dict(conn.execute(_REACHED).fetchall())
        if half:
            wrong.append(f"tokens that are not everywhere: {half}")
        if balance != self._expected:
            wrong.append(f"accounts have {balance}, not {self._expected}")
        if gaps:
            wrong.append(f"numbers with gaps: {gaps}")
        for writer, number in self._reached.items():
            if reached.get(writer, 0) < number:
                wrong.append(f"writer {writer} was at {number}, is at {reached.get(writer)}")
        self._reached = reached
        self.seen_states.add(sum(reached.values()))
        return wrong

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with psycopg.connect(self.database.dsn, connect_timeout=5) as conn:
                        while not self._stop.is_set():
                            self.violations += self.look(conn)
                            self.looks += 1
                            self._stop.wait(0.02)
                except psycopg.OperationalError:
                    self._stop.wait(0.1)
        except BaseException as error:
            self._error = error
