"""Servers in words: what a process is connected to, what is down, and who holds a lock.

Every role that may connect can take an advisory lock, so an error about one names the session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from londiste.db.connection import Connection, whereabouts
from londiste.errors import AccessDenied, NodeUnreachable, NotSecured, ServerStarting


def connected_to(conn: Connection) -> str:
    """Where an open session leads, for the log: place, release, user, and what protects it."""
    info = conn.info
    how = "encrypted" if conn.pgconn.ssl_in_use else "not encrypted"
    if not info.hostaddr:
        how = "local socket"
    release = (info.parameter_status("server_version") or str(info.server_version)).split()[0]
    return f"{whereabouts(conn)}, PostgreSQL {release}, user {info.user}, {how}"


@contextlib.contextmanager
def named(what: str, *, replaced: str = "", provider: str = "") -> Iterator[None]:
    """Around ``connect``: the error of a server that is down begins with what it is.

    what -- ``provider main (shop@db1)``.
    replaced -- the command for the case that another node has taken its place.
    provider -- name of the node, if it is another one than that of this process: who reads what
        to do about a login that it refuses would look for the role on the wrong server.
    """
    try:
        yield
    except NodeUnreachable as error:
        starting = isinstance(error, ServerStarting)
        state = "accepts no connections yet" if starting else "is down or cannot be reached"
        more = f"; if another node has replaced it: {replaced}" if replaced and not starting else ""
        raise type(error)(
            f"{what} {state}: {error.message}", detail=error.detail, hint=error.hint + more
        ) from error
    except (AccessDenied, NotSecured) as error:
        if not provider:
            raise
        ours = type(error)(
            f"{what} is not accessible: {error.message}",
            detail=error.detail,
            hint=error.hint and f"for provider {provider}: {error.hint}",
        )
        ours.sqlstate, ours.by_code = error.sqlstate, error.by_code
        raise ours from error


@dataclass(frozen=True)
class AdvisoryHolder:
    """The session that holds an advisory lock.

    entitled -- its role may run a worker; every role can take the lock.
    own -- it has the role and the name of the session that asks.  A name with a process id and a
        host is that of one process, which then has lost the session.
    """

    pid: int
    role: str
    entitled: bool
    text: str
    own: bool

    @property
    def ending(self) -> str:
        """The statement that ends the session."""
        return f"select pg_terminate_backend({self.pid})"

    @property
    def ending_lost(self) -> str:
        """The hint for a session that this process has lost: how to end it."""
        return (
            f"{self.ending}; if the session stays, its server process hangs: look at process"
            f" {self.pid} on the host of the database"
        )

    @property
    def remedy(self) -> str:
        """The hint: how to get the lock."""
        end = f"end that session: {self.ending}"
        return f"wait until it ends, or {end}" if self.entitled else end


def holder_of(row: Mapping[str, Any]) -> AdvisoryHolder:
    """The holder in a row of ``advisory_lock_holder``."""
    text = (
        f"server process {row['pid']} of role {row['usename']}, from {row['client']},"
        f" application {row['application_name']}, since {row['backend_start']:%F %T%z}"
    )
    return AdvisoryHolder(
        int(row["pid"]), str(row["usename"]), bool(row["entitled"]), text, bool(row["own"])
    )


@dataclass(frozen=True)
class AdvisoryKey:
    """The key of an advisory lock: of a job, one number, or a relation and a number (None: any)."""

    job: str | None = None
    key: int | None = None
    relation: str | None = None
    number: int | None = None


#: What the context of an error contains in each language of messages -> the lock that was awaited.
_AWAITED = {
    '"_lock_capture"': AdvisoryKey(relation="londiste.table_info"),
    "pg_advisory_xact_lock('pgq.queue'::regclass": AdvisoryKey(relation="pgq.queue", number=0),
}


def awaited(context: str) -> AdvisoryKey | None:
    """Pure: the advisory lock that a function waited for; None: the error was about another one.

    context -- of the server's error: the calls in which it was raised, the innermost first.
    """
    innermost = "\n".join(context.splitlines()[:2])
    return next((key for sign, key in _AWAITED.items() if sign in innermost), None)
