"""``londiste doctor --fix-sql``: the remedies of findings as a script for psql.

Nothing is run here.  A statement that deletes rows or ends sessions is a comment in the script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    quoted = dsn.replace("\\", "\\\\").replace('"', '\\"')
    yield f"-- {side} database"
    yield f'\\connect "{quoted}"'
    done: set[str] = set()
    for one in findings:
        statements = [text for text in one.sql if text not in done]
        done.update(statements)
        yield f"\n-- {one.kind}: {one.what}"
        if one.admin:
            yield "-- as an administrator"
        for text in statements:
            yield f"-- {text};" if text.startswith(_DESTRUCTIVE) else f"{text};"
    yield ""


__all__ = ["fix_script"]
