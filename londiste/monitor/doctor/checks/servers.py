"""Checks of releases, standbys and read-only databases."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

_OLDEST, _NEWEST = 140000, 190000

FINDINGS = {
    "version": "release of PostgreSQL that is not supported",
    "older": "target with an older release than the source",
    "standby": "standby, which accepts no writes",
    "read-only": "sessions that are read only by default",
    "same-database": "source and target are one database",
    "publications": "logical replication that reads from or writes to the database",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about both servers."""
    for side, facts in pair.sides:
        if not _OLDEST <= facts.version < _NEWEST:
            yield critical(
                "version",
                f"the {side} server is PostgreSQL {facts.version_text}",
                "releases 14 to 18 are supported",
                "upgrade it by other means",
                side=side,
            )
        if facts.standby:
            yield critical(
                "standby",
                f"the {side} database is on a standby",
                "a standby is read-only",
                "give the connection string of its primary",
                side=side,
            )
        elif facts.read_only:
            user = quote(facts.user)
            where = f" in database {quote(facts.more.database)}" if facts.more.database else ""
            yield critical(
                "read-only",
                f"sessions of {facts.user} in the {side} database are read only",
                "default_transaction_read_only is on",
                side=side,
                object=facts.user,
                sql=[
                    # The session that repairs it is read only, too.
                    "set default_transaction_read_only = off",
                    f"alter role {user}{where} set default_transaction_read_only = off",
                ],
            )
    if pair.same:
        yield critical(
            "same-database",
            f"{pair.names[0]} and {pair.names[1]} are the same database",
            "a database cannot replicate to itself",
            "give the connection strings of two databases",
        )
    if pair.target is not None and pair.target.version // 10000 < pair.source.version // 10000:
        new, old = pair.target.version_text, pair.source.version_text
        yield warning(
            "older",
            f"the {pair.names[1]} server is older: PostgreSQL {new} after {old}",
            "features of the newer release cannot be created there",
            "check that the database uses none of them",
            side=pair.names[1],
        )
    yield from _logical(pair)


def _logical(pair: Situation) -> Iterator[Finding]:
    if pair.whole and pair.source.publications:
        yield warning(
            "publications",
            f"{pair.source.publications} publications",
            "their subscribers keep reading from the old database",
            "create publications on the new database and new subscriptions after the switch",
            side=pair.names[0],
        )
    if pair.target is not None and pair.target.more.subscriptions:
        yield warning(
            "publications",
            f"{pair.target.more.subscriptions} subscriptions write to the {pair.names[1]} database",
            "two writers of one table overwrite each other's rows",
            "make sure that they write other tables, or drop them: select subname from"
            " pg_subscription",
            side=pair.names[1],
        )
