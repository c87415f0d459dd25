"""DB-API connections as programs of earlier versions use them.

Values are put into the statement by the client, as their driver did: a statement may be several,
and a tuple is the list of ``in %s``.  Rows answer to a number, a name or an attribute.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Transformer
from psycopg.pq import TransactionStatus

from londiste.compat.quoting import quote_literal
from londiste.db.connection import Connection as Session
from londiste.db.connection import connect, use_own_names
from londiste.db.queries import streaming

#: Isolation levels by their numbers in the driver of earlier versions.
ISOLATION_LEVEL_AUTOCOMMIT = 0
_LEVELS = {
    1: psycopg.IsolationLevel.READ_COMMITTED,
    2: psycopg.IsolationLevel.REPEATABLE_READ,
    3: psycopg.IsolationLevel.SERIALIZABLE,
}

#: The time zone of the session is that of its user again, as in a session of the program itself.
_OWN_ZONE = b"set local timezone to default"


class Row(tuple[Any, ...]):
    """A row: ``row[0]``, ``row["name"]`` or ``row.name``; also a mapping of its columns."""

    __slots__ = ()
    _places: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if isinstance(key, str) else key)

    def __getattr__(self, name: str) -> Any:
        if name not in self._places:
            raise AttributeError(name)
        return self[name]

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self._places)

    def values(self) -> list[Any]:
        """Values of the columns."""
        return list(self)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the columns."""
        return [(name, self[name]) for name in self._places]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a column, or the default if there is no such column."""
        return self[key] if key in self._places else default

    def __contains__(self, key: object) -> bool:
        return key in self._places

    has_key = __contains__


def _rows(cursor: Any) -> Callable[[Sequence[Any]], Row]:
    places = {column.name: place for place, column in enumerate(cursor.description or ())}
    return type("Row", (Row,), {"_places": places, "__slots__": ()})


class _ListDumper(Dumper):
    """A tuple as the list of ``in %s``."""

    def quote(self, obj: Any) -> Buffer:
        transformer = Transformer.from_context(self.connection)
        return b"(" + b", ".join(transformer.as_literal(value) for value in obj) + b")"

    def dump(self, obj: Any) -> Buffer:
        return self.quote(obj)


class Cursor(psycopg.ClientCursor[Row]):
    """A cursor; after several statements in one text it has the rows of the last."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, row_factory=_rows)
        self.adapters.register_dumper(tuple, _ListDumper)

    def execute(self, query: Any, params: Any = None, **options: Any) -> Cursor:
        """Runs a statement."""
        text = query.encode() if isinstance(query, str) else query
        if isinstance(params, Row) and b"%(" in text:
            params = dict(params.items())
        super().execute(text, params, **options)
        while self.nextset():
            pass
        return self

    def copy_expert(self, sql: str, file: Any, size: int = 8192) -> None:
        """Runs ``copy … from stdin`` or ``copy … to stdout`` with a file."""
        text = isinstance(file, io.TextIOBase)
        with streaming(self.connection), self.copy(sql.encode()) as copy:
            if re.search(r"(?is)\bto\s+stdout\b", sql):
                for data in copy:
                    file.write(bytes(data).decode() if text else bytes(data))
            else:
                while data := file.read(size):
                    copy.write(data)

    def copy_from(
        self,
        file: Any,
        table: str,
        sep: str = "\t",
        null: str = "\\N",
        size: int = 8192,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Reads rows of a table from a file, one per line."""
        self.copy_expert(f"copy {_copied(table, sep, null, columns, 'from stdin')}", file, size)

    def copy_to(
        self,
        file: Any,
        table: str,
        sep: str = "\t",
        null: str = "\\N",
        columns: Sequence[str] | None = None,
    ) -> None:
        """Writes the rows of a table into a file, one per line."""
        self.copy_expert(f"copy {_copied(table, sep, null, columns, 'to stdout')}", file)

    def dictfetchone(self) -> Row | None:
        """The next row."""
        return self.fetchone()

    def dictfetchall(self) -> list[Row]:
        """All rows that are left."""
        return self.fetchall()

    def dictfetchmany(self, size: int = 0) -> list[Row]:
        """The next rows."""
        return self.fetchmany(size)


def _copied(table: str, sep: str, null: str, columns: Sequence[str] | None, direction: str) -> str:
    some = f" ({', '.join(columns)})" if columns else ""
    options = f"delimiter {quote_literal(sep)}, null {quote_literal(null)}"
    return f"{table}{some} {direction} with ({options})"


class Connection:
    """A session with ``cursor``, ``commit`` and ``rollback``.

    session -- gives the session.
    batch -- the session is inside the transaction of a batch: after ``commit`` or ``rollback``
        another transaction begins at once, which is committed with the position of the batch.
    """

    def __init__(self, session: Callable[[], Session], *, batch: bool = False) -> None:
        self._session = session
        self._batch = batch
        if batch:
            session().execute(_OWN_ZONE)

    @classmethod
    def open(cls, dsn: str, name: str, *, autocommit: bool = False) -> Connection:
        """A connection with a session of its own."""
        session = connect(dsn, name=name, autocommit=True)
        use_own_names(session)
        session.execute("reset timezone")
        session.autocommit = autocommit
        return cls(lambda: session)

    @property
    def session(self) -> Session:
        """The driver's connection."""
        return self._session()

    def cursor(self, *unused: Any, **also_unused: Any) -> Cursor:
        """A new cursor in the transaction of the connection."""
        return Cursor(self.session)

    def commit(self) -> None:
        """Commits what was done."""
        if self._batch:
            self.session.execute(b"commit; begin; " + _OWN_ZONE)
        else:
            self.session.commit()

    def rollback(self) -> None:
        """Undoes what was not committed."""
        if self._batch:
            self.session.execute(b"rollback; begin; " + _OWN_ZONE)
        else:
            self.session.rollback()

    def close(self) -> None:
        """Ends the session; that of a batch ends with it."""
        if not self._batch:
            self.session.close()

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self.session.closed

    @property
    def in_transaction(self) -> bool:
        """Whether something was done since the last commit."""
        return self.session.info.transaction_status is not TransactionStatus.IDLE

    def set_isolation_level(self, level: int) -> None:
        """0 commits every statement; 1 to 3 are read committed to serializable."""
        if self._batch:
            return
        self.session.autocommit = level == ISOLATION_LEVEL_AUTOCOMMIT
        self.session.isolation_level = _LEVELS.get(level)

    @property
    def autocommit(self) -> bool:
        """Whether every statement is committed; never on the connection of a batch."""
        return self.session.autocommit and not self._batch

    @autocommit.setter
    def autocommit(self, wanted: bool) -> None:
        if not self._batch:
            self.session.autocommit = bool(wanted)

    def get_backend_pid(self) -> int:
        """The server process of the session."""
        return self.session.info.backend_pid

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()


__all__ = ["ISOLATION_LEVEL_AUTOCOMMIT", "Connection", "Cursor", "Row"]
