"""Checks of limits of connections, and of time limits that Londiste's sessions override."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.facts import DatabaseFacts
from londiste.monitor.doctor.situation import Situation, found, notice
from londiste.monitor.queues.model import Finding, Severity

FINDINGS = {
    "connections": "too few free connections",
    "statement-timeout": "time limits that Londiste's own sessions override",
}

#: Time limits that ``db.connection.connect`` sets.
_OVERRIDDEN = (
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout",
)


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about sessions of the connecting user."""
    for side, facts in pair.sides:
        yield from _connections(pair, side, facts)
        yield from _timeouts(side, facts)


def _connections(pair: Situation, side: str, facts: DatabaseFacts) -> Iterator[Finding]:
    more, need = facts.more, pair.limits.sessions
    database, user = quote(more.database), quote(facts.user)
    # What has the limit, sessions that it still accepts, the statement that lifts it.
    limits = [("the server", more.server_free, "")]
    if more.database_limit >= 0:
        free = more.database_limit - more.database_used
        statement = f"alter database {database} connection limit -1"
        limits.append((f"database {more.database}", free, statement))
    if more.role_limit >= 0:
        free = more.role_limit - more.role_used
        limits.append((f"role {facts.user}", free, f"alter role {user} connection limit -1"))
    for what, free, statement in limits:
        if free >= need:
            continue
        yield found(
            Severity.CRITICAL if free < pair.limits.fewest else Severity.WARNING,
            "connections",
            f"{what} accepts {max(free, 0)} more connections on the {side} side",
            f"ticker, worker and copies of a node use up to {need}",
            ""
            if statement
            else f"raise max_connections of the {side} server by {need - free} and restart it, or"
            " end idle sessions",
            side=side,
            object=what,
            admin_sql=[statement] if statement else [],
            admin=True,
        )


def _timeouts(side: str, facts: DatabaseFacts) -> Iterator[Finding]:
    user, database = quote(facts.user), quote(facts.more.database)
    settings = facts.more.settings
    for name in _OVERRIDDEN:
        if settings.get(name, "0") != "0":
            yield notice(
                "statement-timeout",
                f"{name} is {settings[name]} ms for {facts.user} in the {side} database",
                "Londiste's sessions override it; psql and programs of your own do not",
                side=side,
                object=facts.user,
                sql=[f"alter role {user} in database {database} set {name} = 0"],
            )
