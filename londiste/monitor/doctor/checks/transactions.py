"""Checks of long and prepared transactions, and of sessions that hide theirs."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.situation import Situation, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "transaction": "long transaction that writes",
    "prepared": "prepared transactions",
    "unseen": "sessions whose transactions the user may not see",
}


_END = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
    " and backend_xid is not null and pid <> pg_backend_pid()"
    " and clock_timestamp() - xact_start > interval '{seconds:g} seconds'"
)


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about transactions that block the creation of triggers, or ticks."""
    old, source = pair.source, pair.names[0]
    if old.oldest_transaction > pair.limits.transaction:
        yield warning(
            "transaction",
            f"a transaction that writes is open for {old.oldest_transaction:.0f} s"
            f" in the {source} database",
            "adding its tables, and the last tick of a switch, wait for its end",
            "end it before its tables are added, and before a switch:"
            " select * from pg_stat_activity order by xact_start",
            side=source,
            admin_sql=[_END.format(seconds=pair.limits.transaction)],
        )
    for side, facts in pair.sides:
        if facts.prepared:
            yield warning(
                "prepared",
                f"{facts.prepared} prepared transactions in the {side} database",
                "they hold locks until they are committed or rolled back",
                "select * from pg_prepared_xacts; then commit prepared or rollback prepared",
                side=side,
            )
        if facts.more.unseen_sessions:
            yield warning(
                "unseen",
                f"{facts.user} cannot see the transactions of {facts.more.unseen_sessions} sessions"
                f" in the {side} database",
                "long transactions of other roles were not checked",
                side=side,
                object=facts.user,
                sql=[f"grant pg_read_all_stats to {quote(facts.user)}"],
            )
