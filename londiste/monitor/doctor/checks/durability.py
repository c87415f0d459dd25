"""Checks that a committed transaction survives a crash of the source."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.situation import Situation, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {"synchronous-commit": "commits of the source that a crash can lose"}


def check(pair: Situation) -> Iterator[Finding]:
    """A finding for each place that turns synchronous_commit off in the source."""
    side, more = pair.names[0], pair.source.more
    why = "a crash can lose transactions that the subscriber has applied already"
    for one in more.overrides:
        if one.value != "off":
            continue
        where = f" in database {quote(one.database)}" if one.role and one.database else ""
        kind, name = ("role", one.role) if one.role else ("database", one.database or "")
        yield warning(
            "synchronous-commit",
            f"synchronous_commit is off for {kind} {name} of the {side} server",
            why,
            side=side,
            object=one.role or one.database or "",
            admin_sql=[f"alter {kind} {quote(name)}{where} reset synchronous_commit"],
        )
    if not more.overrides and more.settings.get("synchronous_commit") == "off":
        yield warning(
            "synchronous-commit",
            f"synchronous_commit is off on the {side} server",
            why,
            side=side,
            object=more.database,
            admin_sql=[f"alter database {quote(more.database)} set synchronous_commit = on"],
        )
