"""Settings of a session in which a user's function runs: what it sets lasts for its batch.

Our own statements, and the driver, depend on the settings that every session of the program has.
"""

from __future__ import annotations

from psycopg import sql

from londiste.db.connection import Connection, pins
from londiste.db.queries import translated

#: The user's own apply (``use_own_names``).
_OWN = {"search_path", "row_security"}

#: What the server reports whenever it changes, so that asking costs nothing.
_REPORTED = ("DateStyle", "IntervalStyle", "TimeZone", "client_encoding")
_READ_ONLY = "default_transaction_read_only"


def restore(conn: Connection, *, unseen: bool = True) -> None:
    """Restores, outside a transaction, the settings that the session was opened with.

    unseen -- also those whose changes the server does not report, by one statement.
    """
    kept = pins(conn)
    if not (unseen or _changed(conn, kept)):
        return
    rows = [
        sql.SQL("({}, {})").format(name, value) for name, value in kept.items() if name not in _OWN
    ]
    with translated(conn):
        # First of all what could keep the rest from being done.
        conn.execute(
            sql.SQL(
                "set statement_timeout = 0; reset {};"
                " select pg_catalog.set_config(n, v, false) from (values {}) as s (n, v)"
            ).format(sql.Identifier(_READ_ONLY), sql.SQL(", ").join(rows))
        )


def _changed(conn: Connection, kept: dict[str, str]) -> bool:
    seen = conn.info.parameter_status
    return seen(_READ_ONLY) == "on" or any(seen(name) != kept[name] for name in _REPORTED)
