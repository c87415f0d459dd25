"""``session_replication_role``: which triggers fire for a session, and who may set that."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import psycopg

from londiste.db.names import quote
from londiste.errors import AccessDenied

Session: TypeAlias = psycopg.Connection[Any]

_ACTING = "without it triggers and foreign keys of the target act on replicated rows"


def replica_statement(conn: Session) -> str:
    """The tested statement that disables triggers and foreign keys until the transaction ends.

    The setting itself (superuser, or GRANT SET ON PARAMETER since PostgreSQL 15), else the
    function that an administrator may have installed.  Never for the whole session: behind a
    pooler the next client of its backend would get the role as well.
    """
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        statement = "select pg_catalog.set_config('session_replication_role', 'replica', true)"
        conn.execute(statement)
        return statement
    try:
        statement = "select londiste.set_session_replication_role('replica', true)"
        conn.execute(statement)
    except psycopg.Error as error:
        raise no_role(conn, _ACTING) from error
    return statement


def use_script_role(conn: Session) -> None:
    """Until the transaction ends, capture triggers do not fire; all others do.

    For scripts that every node runs.  Inside a transaction.  Raises AccessDenied.
    """
    _use_role(
        conn,
        "local",
        "without it the changes of a script would be captured and applied twice on other nodes",
    )


def use_replica_role(conn: Session) -> None:
    """Until the transaction ends, ordinary triggers and foreign-key checks do not fire.

    Inside a transaction.  Raises AccessDenied.
    """
    _use_role(conn, "replica", _ACTING)


def _use_role(conn: Session, role: str, without: str) -> None:
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege), conn.transaction():
        conn.execute("select pg_catalog.set_config('session_replication_role', %s, true)", [role])
        return
    try:
        conn.execute("select londiste.set_session_replication_role(%s, true)", [role])
    except psycopg.errors.InsufficientPrivilege as error:
        raise no_role(conn, without) from error


def no_role(conn: Session, without: str = _ACTING) -> AccessDenied:
    """The error for a user who may not set session_replication_role."""
    user = conn.info.user
    return AccessDenied(
        f"user {user} may not set session_replication_role",
        detail=without,
        hint=f"as an administrator: {'; '.join(replica_grants(user, conn.info.server_version))}",
    )


def replica_grants(user: str, version: int) -> list[str]:
    """Statements of an administrator that allow a user to set session_replication_role.

    Before PostgreSQL 15 only superusers may: the function that ``londiste install`` makes has to
    belong to one, and the user to be a member of the role that may call it.
    """
    if version >= 150000:
        return [f"grant set on parameter session_replication_role to {quote(user)}"]
    return [
        "alter function londiste.set_session_replication_role(text, boolean) owner to postgres",
        f"grant londiste_writer to {quote(user)}",
    ]
