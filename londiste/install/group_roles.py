"""Group roles that are missing, all at once: for a user who may not create them.

``schema.sql`` of a component creates its roles, and says which are missing if the user may not.  So
these files are tried before the first one is run to stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg.errors import Diagnostic

from londiste.db.connection import Connection, whereabouts
from londiste.errors import InstallError

_MISSING = "LD200"
_ADVICE = "as an administrator: "


def require(conn: Connection, files: Sequence[str]) -> None:
    """Raises InstallError with the commands for all roles that are missing.  Changes nothing.

    files -- the texts of ``schema.sql`` that are to run.
    """
    if not files:
        return
    (makes_roles,) = conn.execute(
        "select r.rolsuper or r.rolcreaterole from pg_catalog.pg_roles r"
        " where r.rolname = current_user"
    ).fetchall()[0]
    if makes_roles:
        return
    found = []
    for text in files:
        try:
            with conn.transaction(force_rollback=True):
                conn.execute("set local client_min_messages = warning")
                # Another installer may be at work; the installation waits for it.
                conn.execute("set local lock_timeout = '1s'")
                conn.execute(text.encode())
        except psycopg.Error as error:
            # All other errors are those of the installation.
            if error.sqlstate == _MISSING:
                found.append(error.diag)
    if found:
        raise _missing(found, whereabouts(conn))


def _missing(found: Sequence[Diagnostic], where: str) -> InstallError:
    """Pure: one error with the commands of all."""
    message = "roles are missing and this user may not create them"
    commands = [
        command
        for one in found
        for command in (one.message_hint or "").removeprefix(_ADVICE).split("; ")
    ]
    return InstallError(
        f"{where}: {found[0].message_primary if len(found) == 1 else message}",
        detail=f"nothing was changed; {found[0].message_detail}",
        hint=_ADVICE + "; ".join(dict.fromkeys(commands)),
    )
