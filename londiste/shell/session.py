"""Session of the queue shell: the connection, and the current queue on it.

Autocommit, unless the user has typed BEGIN: queue statements then take part in that transaction.
Multi-node statements (``londiste …``, ``install``) must run outside a transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import psycopg

from londiste.db.connection import Connection, connect, describe_dsn, use_own_names
from londiste.db.queries import translated
from londiste.db.sessions import search_path
from londiste.errors import BadOption, LondisteError, StateError
from londiste.pgq import admin
from londiste.wording import bounded

_IN_TRANSACTION = psycopg.pq.TransactionStatus.INTRANS
_FAILED = psycopg.pq.TransactionStatus.INERROR
_IDLE = psycopg.pq.TransactionStatus.IDLE


@dataclass(frozen=True)
class Result:
    """A table, text lines, or both.

    columns -- empty when there is no table; end -- the session is over.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    lines: Sequence[str] = ()
    end: bool = False


class Session:
    """A connection, and the current queue on it.

    queue -- for statements that name none; notice -- receives notices of the server.
    """

    def __init__(
        self, dsn: str, *, queue: str | None = None, notice: Callable[[str], None] | None = None
    ) -> None:
        self.dsn = dsn
        self.queue = queue
        self._notice = notice
        self.conn = self.open(dsn)
        try:
            if queue is not None:
                admin.find_queue(self.conn, queue)
        except LondisteError:
            self.conn.close()
            raise

    def open(self, dsn: str) -> Connection:
        """A connection for this session to use; its notices are shown."""
        conn = connect(dsn, name="londiste shell", autocommit=True, synchronous=True)
        try:
            with translated(describe_dsn(dsn)):
                use_own_names(conn)
        except LondisteError:
            conn.close()
            raise
        if self._notice is not None:
            tell = self._notice
            conn.add_notice_handler(
                lambda one: tell(bounded(f"{one.severity or 'NOTICE'}: {one.message_primary}"))
            )
        return conn

    def close(self) -> None:
        self.conn.close()

    @property
    def prompt(self) -> str:
        """``shop/orders=>``: database, queue, and ``*`` in a transaction, ``!`` in a failed one."""
        state = self.conn.info.transaction_status
        sign = {_IDLE: "", _IN_TRANSACTION: "*"}.get(state, "!")
        queue = f"/{self.queue}" if self.queue else ""
        return f"{self.conn.info.dbname}{queue}={sign}> "

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return not self.conn.closed and self.conn.info.transaction_status != _IDLE

    @property
    def usable(self) -> bool:
        """Whether a query is possible now: connected, and in no failed transaction."""
        return not self.conn.closed and self.conn.info.transaction_status in {
            _IDLE,
            _IN_TRANSACTION,
        }

    def run(self, statement: Callable[[Session], Result], *, own_names: bool = False) -> Result:
        """Runs one statement.  Opens a lost connection again.

        own_names -- it is the user's and needs their search_path, or it needs no database.
        """
        try:
            with translated(self.conn), self.names(own_names):
                return statement(self)
        except KeyboardInterrupt:
            # The interrupt came at a moment when the driver could not wait for the end.
            if self.conn.info.transaction_status not in {_IDLE, _IN_TRANSACTION, _FAILED}:
                self.conn.close()
            raise
        finally:
            if self.conn.closed:
                self.conn = self.open(self.dsn)

    def names(self, own: bool = False) -> AbstractContextManager[None]:
        """What the block runs has the program's search_path, or the user's own."""
        if own or self.conn.info.transaction_status == _FAILED:
            return contextlib.nullcontext()
        return search_path.of_the_program(self.conn)

    def change(self, changes: Sequence[admin.QueueChange]) -> Result:
        """Makes changes of queues, in one transaction."""
        with self.conn.transaction():
            for change in changes:
                change.act(self.conn)
        return Result(lines=[change.text for change in changes] or ["nothing to do"])

    def chosen(self, queue: str | None = None) -> str:
        """The queue of a statement, by default the current one; BadOption without either."""
        chosen = queue or self.queue
        if chosen is None:
            raise no_queue("connect queue=QUEUE")
        return chosen

    def outside(self, what: str) -> None:
        """Raises StateError inside a transaction."""
        if self.conn.info.transaction_status != _IDLE:
            raise StateError(
                f"{what} does not work inside a transaction", hint="commit or roll back first"
            )


def no_queue(example: str) -> BadOption:
    """The error of a statement that names no queue."""
    return BadOption("no current queue", hint=f"name it in the statement, or: {example};")
