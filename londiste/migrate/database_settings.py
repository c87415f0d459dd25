"""Settings, grants and comment of the database itself, which no schema copy contains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import fetch
from londiste.error_origin import REPLICA_ROLE
from londiste.monitor.doctor.situation import warning
from londiste.monitor.queues.model import Finding
from londiste.wording import shortened


@dataclass(frozen=True)
class DatabaseSettings:
    """What belongs to a database.

    settings -- role ('' for all), name and value.
    grants -- role ('' for PUBLIC) and privilege, also those by default, not those of the owner.
    """

    name: str
    settings: frozenset[tuple[str, str, str]] = frozenset()
    grants: frozenset[tuple[str, str]] = frozenset()
    comment: str = ""


def read(conn: Connection) -> DatabaseSettings:
    """Reads the catalog."""
    (row,) = fetch(conn, "database_settings")
    return DatabaseSettings(
        row["name"],
        frozenset((role, name, value) for role, name, value in row["settings"]),
        frozenset((role, privilege) for role, privilege in row["grants"]),
        row["comment"],
    )


def findings(old: DatabaseSettings, new: DatabaseSettings) -> Iterator[Finding]:
    """Pure: one finding with the statements for the new database, if something differs.

    A value can be a secret where the name has a dot: such a setting belongs to the application.
    """
    database = f"database {quote(new.name)}"
    named: list[str] = []
    statements: list[str] = []
    for role, name, value in sorted(old.settings - new.settings):
        if name.lower() == REPLICA_ROLE:
            continue  # Its captures would not fire: a finding of its own.
        who = f"role {quote(role)} in {database}" if role else database
        named.append(name if not role else f"{name} of role {role}")
        setting = ".".join(quote(part) for part in name.split("."))
        statements.append(f"alter {who} set {setting} = {_shown(name, value)}")
    for words, changes in (
        ("revoke {} on {} from {}", new.grants - old.grants),
        ("grant {} on {} to {}", old.grants - new.grants),
    ):
        for role, privilege in sorted(changes):
            named.append(f"{privilege} of {role or 'PUBLIC'}")
            who = "public" if not role else quote(role)
            statements.append(words.format(privilege.lower(), database, who))
    if old.comment and old.comment != new.comment:
        named.append("comment")
        statements.append(f"comment on {database} is {literal(old.comment)}")
    if statements:
        yield warning(
            "database",
            f"settings, grants or the comment of the database differ: {shortened(named)}",
            "they belong to the database itself: no --schema moves them",
            "; ".join(statements),
            side="new",
            object=new.name,
            admin_sql=[one for one in statements if "…" not in one],
        )


def _shown(name: str, value: str) -> str:
    """A value as SQL writes it; a list in quotes would be one name."""
    if "." in name:
        return "…"
    if name not in _LISTS:
        return literal(value)
    found = re.findall(r'"(?:[^"]|"")*"|[^,\s"]+', value)
    parts = [one[1:-1].replace('""', '"') if one[0] == '"' else one for one in found]
    return ", ".join(quote(part) for part in parts) or "''"


#: Settings that are lists of names.
_LISTS = frozenset(
    {"local_preload_libraries", "search_path", "session_preload_libraries", "temp_tablespaces"}
)
