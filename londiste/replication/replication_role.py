"""Settings of ``session_replication_role`` with which captures of a database do not fire."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.names import quote
from londiste.db.queries import fetch
from londiste.errors import StateError

#: What its sessions do.
WHY = (
    "captures do not fire in such sessions, open ones included until they end: no subscriber gets"
    " their changes"
)


@dataclass(frozen=True)
class RoleSetting:
    """A setting that keeps captures from firing.

    role, database -- whose sessions have it; None: all.  value -- replica or local.
    connected -- the database that was asked.
    """

    role: str | None
    database: str | None
    value: str
    connected: str

    def __str__(self) -> str:
        whose = [
            f"{word} {name}"
            for word, name in (("role", self.role), ("database", self.database))
            if name is not None
        ]
        return f"session_replication_role is {self.value} for {' in '.join(whose) or 'the server'}"

    @property
    def statement(self) -> str:
        """What an administrator runs to end it."""
        if self.role is None:
            name = quote(self.database or self.connected)
            if self.database is None:
                return f"alter database {name} set session_replication_role = origin"
            return f"alter database {name} reset session_replication_role"
        where = f" in database {quote(self.database)}" if self.database is not None else ""
        return f"alter role {quote(self.role)}{where} reset session_replication_role"


def refusal(one: RoleSetting, what: str, server: str, then: str) -> StateError:
    """The error of a command that moves the root while captures would not fire.

    what -- the node or database that has the setting; server -- whose administrator ends it.
    then -- what follows in the hint.
    """
    return StateError(
        f"{what}: {one}",
        detail=f"nothing was changed; {WHY}",
        hint=f"as an administrator of {server}: {one.statement}; {then}",
    )


def find(conn: Connection) -> tuple[RoleSetting, ...]:
    """The settings of the database of ``conn``."""
    return tuple(RoleSetting(**row) for row in fetch(conn, "replication_roles"))
