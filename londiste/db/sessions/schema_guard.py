"""Keeps the sessions of superusers from schemas of Londiste that are another role's.

A database may belong to anybody, and who administers queues may have stored where it is.  The owner
of a schema chooses what its functions do, with the rights of who calls them.  So ``connect`` asks
first who could choose that.  A schema that is missing then may be made at any moment: statements
about it ask again.

The answer takes longer than the rest of a new session, so a process asks once in a while
(``KEPT_SECONDS``) for the same schemas with the same owners and rights.  Where only a superuser can
create something in them, only a superuser could have changed the answer since.  It holds for one
address: another server could say what it likes about its schemas.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow, kwargs_row, tuple_row

from londiste.db.sessions import search_path
from londiste.db.sql_files import query
from londiste.errors import NotTrusted

#: All schemas whose functions Londiste calls, and those of the generated captures.
SCHEMAS = ("pgq", "pgq_node", "pgq_ext", "pgq_coop", "londiste", "londiste_capture")

#: For so long a process relies on an answer without a doubt.
KEPT_SECONDS = 60.0

#: Until when (monotonic) it relies on each: ``_peer``, and what ``schema_state`` said there before.
_closed: dict[tuple[Hashable, frozenset[TupleRow]], float] = {}


class Doubt(NamedTuple):
    """Why the role of a session should not run code of a schema, and what helps.

    of_owner -- the schema is another role's: nothing in it is known to be Londiste's.
    """

    schema: str
    of_owner: bool
    message: str
    detail: str
    hint: str

    def error(self, where: str) -> NotTrusted:
        """The error about it.  where -- the database is, without secrets."""
        return NotTrusted(f"{where}: {self.message}", detail=self.detail, hint=self.hint)


class GuardedConnection(psycopg.Connection[TupleRow]):
    """A session that may know some schemas of Londiste to be missing.

    unseen -- these; no statement about them is executed.
    """

    unseen: frozenset[str] = frozenset()
    place: str = "lost connection"


class GuardedCursor(psycopg.Cursor[Any]):
    """Executes statements of a ``GuardedConnection``."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        """As psycopg's.  Raises NotTrusted, and psycopg's error for a schema that is missing."""
        conn = self.connection
        if isinstance(conn, GuardedConnection) and conn.unseen:
            text = query.as_string(conn) if isinstance(query, sql.Composable) else query
            plain = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            _look_again(conn, plain)
        return super().execute(query, params, **options)


def find(conn: psycopg.Connection[Any], schemas: Sequence[str], *, installing: bool) -> list[Doubt]:
    """The doubts about these schemas, the worst first (``install.owners``).  psycopg's errors."""
    # For a superuser the short question is enough, unless something is there to be doubted.
    if conn.info.parameter_status("is_superuser") == "on":
        _, doubtful, closed = _look(conn, schemas)
        if closed and not doubtful:
            return []
    return _doubts(conn, schemas, installing=installing)


def _doubts(
    conn: psycopg.Connection[Any], schemas: Sequence[str], *, installing: bool
) -> list[Doubt]:
    """The answer of ``schema_doubts`` about these schemas."""
    with conn.cursor(row_factory=kwargs_row(Doubt)) as cursor:
        parameters = {"schemas": list(schemas), "installing": installing}
        return cursor.execute(query("schema_doubts"), parameters).fetchall()


def guard(conn: psycopg.Connection[TupleRow]) -> None:
    """Lets the session of a superuser use the schemas that are there, if all can be trusted.

    The rule is that of an installer: schemas of older releases are used until they are upgraded.
    Raises NotTrusted, and psycopg.Error.
    """
    assert isinstance(conn, GuardedConnection)
    parameters = {"schemas": list(SCHEMAS)}
    schemas = frozenset(conn.execute(query("schema_state"), parameters).fetchall())
    state = _peer(conn), schemas
    now = time.monotonic()
    if now < _closed.get(state, now):
        conn.unseen = frozenset(SCHEMAS) - {name for _, name, *_ in schemas}
        return
    absent, doubtful, closed = _look(conn, SCHEMAS)
    if doubtful:
        for doubt in _doubts(conn, SCHEMAS, installing=True):
            raise doubt.error(conn.place)
    conn.unseen = frozenset(absent)
    if closed:
        for past in [one for one, until in [*_closed.items()] if until <= now]:
            _closed.pop(past, None)
        _closed[state] = now + KEPT_SECONDS


def _look(
    conn: psycopg.Connection[Any], schemas: Sequence[str]
) -> tuple[Sequence[str], bool, bool]:
    """The answer of ``schema_guard`` about these schemas."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query("schema_guard"), {"schemas": list(schemas)}).fetchone()
    assert row is not None
    absent, doubtful, closed = row
    return absent, doubtful, closed


def _peer(conn: psycopg.Connection[Any]) -> Hashable:
    """Whom the client has reached, by nothing that it was told there."""
    info = conn.info
    return info.host, info.hostaddr, info.port, info.dbname


@contextlib.contextmanager
def unguarded(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """In the with block the session creates the schemas that are missing."""
    if not isinstance(conn, GuardedConnection):
        yield
        return
    before, conn.unseen = conn.unseen, frozenset()
    try:
        yield
    finally:
        conn.unseen = before


#: What is no name in a statement: literals, bodies of functions, comments.
_NO_NAME = re.compile(r"'[^']*'|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/", re.DOTALL)


def named(schemas: Collection[str], statement: str) -> set[str]:
    """Pure: the schemas of which a statement uses something, by its text."""
    wanted = re.compile(rf"\b({'|'.join(schemas)})\"?\.[\"\w]")
    if not wanted.search(statement):
        return set()
    return set(wanted.findall(_NO_NAME.sub("''", statement)))


def _look_again(conn: GuardedConnection, statement: str) -> None:
    wanted = named(conn.unseen, statement)
    if not wanted:
        return
    # The session may have the path of the user since it was opened.
    with search_path.of_the_program(conn):
        guard(conn)
    for name in wanted & conn.unseen:
        # As the server would say; but it may be there when the statement arrives.
        raise psycopg.errors.InvalidSchemaName(f'schema "{name}" does not exist')
