"""Identity of a server: proves that a database is a standby of the provider's."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection, ask_backend, connect, limit_silence
from londiste.db.queries import records
from londiste.errors import LondisteError, TransientError

#: What to do about a standby that is none, or none of this provider.
HINT = "correct read_from in the settings of the node, or remove it; londiste worker -r reloads it"


@dataclass(frozen=True)
class Server:
    """A database of a server; a standby has the same two numbers as its primary."""

    system_identifier: int
    database_oid: int
    in_recovery: bool


def look(conn: Connection) -> Server:
    """Identity of the database of a session."""
    return records(conn, Server, "standby_server")[0]


def refusal(provider: Server, found: Server) -> str:
    """Pure: why the second server must not be read in place of the first; '' if it may."""
    if found.system_identifier != provider.system_identifier:
        return "it is not a standby of the provider: its data are those of another server"
    if found.database_oid != provider.database_oid:
        return "it is not the database of the provider, but another one of that server"
    if not found.in_recovery:
        return "it is no standby (any more): it accepts writes, so its data may differ"
    return ""


def reason(error: Exception, place: str) -> tuple[str, str]:
    """Pure: of a failure, for a log line: the text without the place, and the hint behind it."""
    if not isinstance(error, LondisteError):
        return type(error).__name__, ""
    hint = f"; hint: {error.hint}" if error.hint == HINT else ""
    return error.message.removeprefix(f"{place}: "), hint


def open_session(
    dsn: str, provider: Server, *, name: str, answer_seconds: float | None = None
) -> Connection:
    """A session on a standby of this provider, in autocommit mode.

    answer_seconds -- see ``connect``.
    Raises TransientError for a server that is none, and what ``connect`` does.
    """
    conn = connect(
        dsn,
        name=name,
        autocommit=True,
        idle_timeout_ms=10 * 60 * 1000,
        answer_seconds=answer_seconds,
    )
    try:
        limit_silence(conn, answer_seconds)
        ask_backend(conn)
        reason = refusal(provider, look(conn))
        if reason:
            raise TransientError(reason, hint=HINT)
    except BaseException:
        conn.close()
        raise
    return conn
