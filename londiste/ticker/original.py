"""PgQ of Skytools: compatibility of a ticker with its schema.

Version 3 and later has the same functions, except for some that Londiste added.
"""

from __future__ import annotations

from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import tuples
from londiste.errors import InstallError
from londiste.install import compat
from londiste.pgq import queues

NEXT_DUE = "pgq.next_due()"
MAINT_OPERATIONS = "pgq.maint_operations()"


def check(conn: Connection) -> None:
    """Raises InstallError for a database without queues, or with an incompatible schema."""
    compat.check(conn, "pgq", original=True)
    version = queues.version(conn)
    if version in ("", "None"):
        raise InstallError(
            f"{whereabouts(conn)}: version of schema pgq is unknown",
            detail="PgQ of Skytools reports a version only if it was installed as an extension",
            hint="CREATE EXTENSION pgq, or londiste install in a database without that schema",
        )
    if version[0] < "3":
        raise InstallError(
            f"{whereabouts(conn)}: schema pgq has version {version}, too old for this ticker",
            hint="upgrade PgQ to version 3 or later, or use its own ticker",
        )


def has(conn: Connection, function: str) -> bool:
    """Whether the schema has a function, ``schema.name(types)``."""
    return bool(tuples(conn, "function_exists", function=function)[0][0])


def operations(conn: Connection) -> list[tuple[str, str | None]]:
    """The result of ``maint_operations``, or its equivalent if the function does not exist."""
    if has(conn, MAINT_OPERATIONS):
        return queues.maint_operations(conn)
    names = [str(name) for (name,) in tuples(conn, "queue_names")]
    rotation: list[tuple[str, str | None]] = [
        ("pgq.maint_rotate_tables_step1", name) for name in names
    ]
    vacuum: list[tuple[str, str | None]] = [
        ("vacuum", table) for table in queues.maint_tables_to_vacuum(conn)
    ]
    return [*rotation, ("pgq.maint_rotate_tables_step2", None), *vacuum]
