"""Identity of databases: whether two sessions use the same one."""

from __future__ import annotations

import secrets

from londiste.db.connection import Connection
from londiste.db.queries import query


def same_database(one: Connection, other: Connection) -> bool:
    """Whether both are in one database of one server.

    An advisory lock with a random key exists in one database of one server only: a session that
    cannot take it is in the same one.  A transaction of ``other`` keeps a lock it could take to its
    end. Raises psycopg.Error.
    """
    key = secrets.randbits(63)
    one.execute(query("advisory_lock"), [key])
    try:
        free = other.execute(query("advisory_try_lock"), [key]).fetchone()
    finally:
        one.execute(query("advisory_unlock"), [key])
    return free is not None and not free[0]
