"""``londiste doctor --fix-sql``: the remedies of findings as a script for psql.

Nothing is run here.  A statement that deletes rows or ends sessions is a comment in the script.
Names of objects come from users of the databases: none ends a comment or begins a psql command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from psycopg import conninfo

from londiste.db.ddl import comment
from londiste.monitor.queues.model import Finding

#: How statements begin that an administrator must decide on one by one.
_DESTRUCTIVE = ("truncate", "drop ", "delete ", "select pg_terminate_backend")


#: Parts of a connection string that say who connects.
_OF_USER = {"user", "password", "passfile", "options", "sslcert", "sslkey", "sslpassword"}


def fix_script(findings: Iterable[Finding], databases: dict[str, str]) -> str:
    """The script; '' if no finding has SQL.

    databases -- connection string of each side, without a password.
    """
    by_side: dict[str, list[Finding]] = {side: [] for side in databases}
    for one in findings:
        if one.sql and one.side in by_side:
            by_side[one.side].append(one)
    parts = [
        # Of an administrator first: no connection of another user is there to take the user from.
        "\n".join(_part(side, databases[side], of_kind, admin=admin))
        for admin in (True, False)
        for side, found in by_side.items()
        if (of_kind := [one for one in found if one.admin is admin])
    ]
    if not parts:
        return ""
    return "-- For psql. Read each statement before you run it.\n\n" + "\n".join(parts)


def _part(side: str, dsn: str, findings: Iterable[Finding], *, admin: bool) -> Iterator[str]:
    reuse = ""
    if admin:
        dsn, reuse = _of_anybody(dsn), "-reuse-previous=on "
    # Between double quotes psql knows no backslash: a double quote is written twice.
    quoted = dsn.replace('"', '""')
    yield f"-- {side} database" + (
        ", as an administrator, with whom you start psql" if admin else ""
    )
    connect = f'\\connect {reuse}"{quoted}"'
    yield connect if dsn.isprintable() else comment(connect)
    yield "set standard_conforming_strings = on;"
    done: set[str] = set()
    for one in findings:
        statements = [text for text in one.sql if text not in done]
        done.update(statements)
        yield f"\n{comment(f'{one.kind}: {one.what}')}"
        for text in statements:
            if not text.isprintable():
                yield "-- a name has control characters: write the statement yourself"
            inactive = text.startswith(_DESTRUCTIVE) or not text.isprintable()
            yield comment(f"{text};") if inactive else f"{text};"
    yield ""


def _of_anybody(dsn: str) -> str:
    """A connection string without what belongs to its user."""
    words = conninfo.conninfo_to_dict(dsn)
    return conninfo.make_conninfo("", **{k: v for k, v in words.items() if k not in _OF_USER})
