"""``londiste doctor --fix-sql``: the remedies of findings as a script for psql.

Nothing is run here.  A statement that deletes rows or ends sessions is a comment in the script.
Names of objects come from users of the databases: none ends a comment or begins a psql command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from londiste.db.ddl import comment
from londiste.monitor.queues.model import Finding

#: How statements begin that an administrator must decide on one by one.
_DESTRUCTIVE = ("truncate", "drop ", "delete ", "select pg_terminate_backend")


def fix_script(findings: Iterable[Finding], databases: dict[str, str]) -> str:
    """The script; '' if no finding has SQL.

    databases -- connection string of each side, without a password.
    """
    by_side: dict[str, list[Finding]] = {side: [] for side in databases}
    for one in findings:
        if one.sql and one.side in by_side:
            by_side[one.side].append(one)
    parts = [
        "\n".join(_part(side, databases[side], found)) for side, found in by_side.items() if found
    ]
    if not parts:
        return ""
    return "-- For psql. Read each statement before you run it.\n\n" + "\n".join(parts)


def _part(side: str, dsn: str, findings: Iterable[Finding]) -> Iterator[str]:
    # Between double quotes psql knows no backslash: a double quote is written twice.
    quoted = dsn.replace('"', '""')
    yield f"-- {side} database"
    yield f'\\connect "{quoted}"' if dsn.isprintable() else comment(f'\\connect "{quoted}"')
    yield "set standard_conforming_strings = on;"
    done: set[str] = set()
    for one in findings:
        statements = [text for text in one.sql if text not in done]
        done.update(statements)
        yield f"\n{comment(f'{one.kind}: {one.what}')}"
        if one.admin:
            yield "-- as an administrator"
        for text in statements:
            if not text.isprintable():
                yield "-- a name has control characters: write the statement yourself"
            inactive = text.startswith(_DESTRUCTIVE) or not text.isprintable()
            yield comment(f"{text};") if inactive else f"{text};"
    yield ""
