"""SQL function calls by name.

Errors of the database become ours here and nowhere else: SQLSTATE class ``LD``, and the
``ret_code`` that management functions return in their first column.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from psycopg import sql
from psycopg.rows import args_row, dict_row, tuple_row

from londiste.db.connection import Connection
from londiste.db.queries import translated
from londiste.errors import LondisteError, StateError, Superseded, UsageError

log = logging.getLogger(__name__)

T = TypeVar("T")

#: ret_code of the functions that return (ret_code, ret_note) -> class; of others StateError.
_CLASSES: dict[int, type[LondisteError]] = {400: UsageError, 404: UsageError, 409: Superseded}


#: Functions that run code of the owner of a table, as ``londiste._run_as_owner`` does it.
RUN_CODE = frozenset(
    (
        "londiste.create_partition",
        "londiste.global_remove_table",
        "londiste.local_remove_table",
        "londiste.merge_on_time",
        "londiste.release_tables",
        "londiste.restore_table_fkey",
    )
)


class Ret(NamedTuple):
    """Result of a management function: 1xx debug, 2xx done, 3xx done with a warning."""

    code: int
    note: str
    row: dict[str, Any]


def expect_code(conn: Connection) -> None:
    """Before code of a table's owner runs in the session.

    It could put a statement of its own under the name of a prepared one, so none is used any more.
    """
    conn.prepare_threshold = None


def had_code(conn: Connection) -> bool:
    """Whether code of a table's owner may have run in the session."""
    return conn.prepare_threshold is None


def value(conn: Connection, function: str, *args: Any, **named: Any) -> Any:
    """Calls a function that returns one value (or None).  ``function`` is ``schema.name``."""
    with translated(conn):
        # The session may be a program's own, which gives rows of another kind.
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(*_statement(conn, function, args, named)).fetchone()
    return row[0] if row else None


def rows(conn: Connection, function: str, *args: Any, **named: Any) -> list[dict[str, Any]]:
    """Calls a function that returns a record or a set; one dict per row, keys as in SQL."""
    with translated(conn):
        with conn.cursor(row_factory=dict_row) as cursor:
            cursor.execute(*_statement(conn, function, args, named))
            return cursor.fetchall()


def records(
    conn: Connection, kind: Callable[..., T], function: str, *args: Any, **named: Any
) -> list[T]:
    """Calls a function that returns a set; ``kind`` of the values of each row, in SQL's order."""
    with translated(conn):
        with conn.cursor(row_factory=args_row(kind)) as cursor:
            cursor.execute(*_statement(conn, function, args, named))
            return cursor.fetchall()


def row(conn: Connection, function: str, *args: Any, **named: Any) -> dict[str, Any]:
    """Calls a function that returns exactly one record."""
    return rows(conn, function, *args, **named)[0]


def ret(conn: Connection, function: str, *args: Any, **named: Any) -> Ret:
    """Calls a function that returns ``(ret_code, ret_note, …)``.

    Codes of 400 and above raise (the caller rolls back); 3xx are logged as warnings.
    """
    return answered(function, row(conn, function, *args, **named))


def answered(function: str, answer: dict[str, Any]) -> Ret:
    """The result in the row of such a function; codes of 400 and above raise."""
    code, note = int(answer["ret_code"]), str(answer["ret_note"])
    if code >= 400:
        raise _CLASSES.get(code, StateError)(note, detail=f"{function} returned {code}")
    if code >= 300:
        log.warning("%s", note)
    else:
        log.debug("%s: %d %s", function, code, note)
    return Ret(code, note, answer)


def together(conn: Connection, *calls: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Calls several functions in one round trip; the rows of each call, in order.

    calls -- name of a function and its arguments.  They run in one transaction, unless the
        connection is in one already; if one fails, all are rolled back.
    """
    cursors = []
    with translated(conn):
        with conn.pipeline():
            for function, *args in calls:
                cursor = conn.cursor(row_factory=dict_row)
                cursor.execute(*_statement(conn, function, args, {}))
                cursors.append(cursor)
        return [cursor.fetchall() for cursor in cursors]


def later(conn: Connection, function: str, *args: Any) -> Callable[[], list[dict[str, Any]]]:
    """Calls a function inside the caller's pipeline; the returned function gives its rows later."""
    cursor = conn.cursor(row_factory=dict_row)
    cursor.execute(*_statement(conn, function, args, {}))
    return cursor.fetchall


@contextlib.contextmanager
def meanwhile(conn: Connection, function: str, *args: Any) -> Iterator[list[dict[str, Any]]]:
    """Calls a function while the with block runs; its rows are available after the block.

    The block must not use the connection.
    """
    found: list[dict[str, Any]] = []
    with translated(conn):
        with conn.cursor(row_factory=dict_row) as cursor:
            with conn.pipeline():
                cursor.execute(*_statement(conn, function, args, {}))
                yield found
            found += cursor.fetchall()


def _statement(
    conn: Connection, function: str, args: Sequence[Any], named: dict[str, Any]
) -> tuple[bytes, dict[str, Any] | list[Any]]:
    if function in RUN_CODE:
        expect_code(conn)
    return _text(function, len(args), tuple(named)), [*args, *named.values()]


@lru_cache(maxsize=512)
def _text(function: str, count: int, names: tuple[str, ...]) -> bytes:
    """The statement, which is the same each time: psycopg finds it prepared by its text."""
    placeholders: list[sql.Composable] = [sql.Placeholder()] * count
    placeholders += [
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder()) for name in names
    ]
    statement = sql.SQL("select * from {}({})").format(
        sql.Identifier(*function.split(".")), sql.SQL(", ").join(placeholders)
    )
    return statement.as_bytes(None)
