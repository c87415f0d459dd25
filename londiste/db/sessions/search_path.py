"""The search_path of a session that runs statements of the user, and of the program among them.

The user's path may lead into a schema where other roles create objects.  There an operator of
exactly the types of its operands is preferred to the one of pg_catalog that needs a cast.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg

from londiste.db.sessions.settings import TEXT_SETTINGS


@contextlib.contextmanager
def of_the_program(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """In the with block the session has the program's path, and afterwards the one of before.

    A transaction that fails inside takes the change back when it ends.  Raises psycopg.Error.
    """
    row = conn.execute(
        "select pg_catalog.current_setting('search_path'),"
        " pg_catalog.set_config('search_path', %s, false)",
        [TEXT_SETTINGS["search_path"]],
    ).fetchone()
    assert row is not None
    try:
        yield
    finally:
        status = psycopg.pq.TransactionStatus
        if not conn.closed and conn.info.transaction_status in {status.IDLE, status.INTRANS}:
            conn.execute("select pg_catalog.set_config('search_path', %s, false)", [row[0]])
