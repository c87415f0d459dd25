"""Checks of encodings, collations and time zones."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
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
            f"create the {target} database with lc_collate '{old.collate}' lc_ctype"
            f" '{old.ctype}' template template0, or accept it",
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
