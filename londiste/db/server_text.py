"""Server of a session in words: what a process is connected to, and what is down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from londiste.db.connection import Connection, whereabouts
from londiste.errors import NodeUnreachable, ServerStarting


def connected_to(conn: Connection) -> str:
    """Where an open session leads, for the log: place, release, user, and what protects it."""
    info = conn.info
    how = "encrypted" if conn.pgconn.ssl_in_use else "not encrypted"
    if not info.hostaddr:
        how = "local socket"
    release = (info.parameter_status("server_version") or str(info.server_version)).split()[0]
    return f"{whereabouts(conn)}, PostgreSQL {release}, user {info.user}, {how}"


@contextlib.contextmanager
def named(what: str, *, replaced: str = "") -> Iterator[None]:
    """Around ``connect``: the error of a server that is down begins with what it is.

    what -- ``provider main (shop@db1)``.
    replaced -- the command for the case that another node has taken its place.
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
