"""Checks of encodings, collations and time zones."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.facts import DatabaseFacts
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "encoding": "encodings of which one cannot represent all text of the other",
    "collation": "collations that differ",
    "time-zone": "default time zones that differ",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about the two databases as a pair."""
    if pair.target is None:
        return
    old, new = pair.source, pair.target
    source, target = pair.names
    if old.encoding != new.encoding and new.encoding != "UTF8":
        yield critical(
            "encoding",
            f"the {target} database has the encoding {new.encoding}, the {source} one"
            f" {old.encoding}",
            "text that the new encoding cannot represent would stop the replication",
            f"create the {target} database with encoding 'UTF8' template template0",
            side=target,
        )
    elif old.encoding == "SQL_ASCII" and new.encoding != "SQL_ASCII":
        yield warning(
            "encoding",
            f"the {source} database has the encoding SQL_ASCII, the {target} one {new.encoding}",
            "bytes that are invalid in the new encoding stop the copy of their table",
            f"clean them first, or create the {target} database with encoding 'SQL_ASCII'",
            side=target,
        )
    if (old.collate, old.ctype) != (new.collate, new.ctype):
        yield warning(
            "collation",
            f"the {target} database sorts text by {new.collate}, the {source} one by {old.collate}",
            "queries with order by, and partitions by ranges of text, return other results",
            _same_collation(old, new, target),
            side=target,
        )
    zone, other = old.more.settings.get("TimeZone"), new.more.settings.get("TimeZone")
    if zone and other and zone != other:
        literal = zone.replace("'", "''")
        yield warning(
            "time-zone",
            f"the time zone of the {target} database is {other}, of the {source} one {zone}",
            "defaults, functions and text of timestamptz give other results there",
            side=target,
            sql=[
                f"alter database {quote(new.more.database)} set timezone = '{literal}'",
                f"alter role {quote(new.user)} in database {quote(new.more.database)}"
                f" set timezone = '{literal}'",
            ],
        )


def _same_collation(old: DatabaseFacts, new: DatabaseFacts, target: str) -> str:
    """Pure: how a database that sorts text as the old one is created on a server, as a hint."""
    since, how = {
        "i": (150000, f"locale_provider icu icu_locale '{old.collate}'"),
        "b": (170000, f"locale_provider builtin builtin_locale '{old.collate}'"),
    }.get(old.collate_provider, (0, f"lc_collate '{old.collate}'"))
    if new.version < since:
        return (
            f"accept it: before PostgreSQL {since // 10000} no database sorts as the old one does"
        )
    if old.collate_provider == "i" and not new.more.icu:
        return f"accept it: the {target} server was built without ICU; or use another server"
    return (
        f"create the {target} database with {how} lc_ctype '{old.ctype}' template template0,"
        " or accept it"
    )
