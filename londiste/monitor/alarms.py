"""Findings of one node's database for ``status --check``: its queue, its tables, its audit."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.cascade.model import Subscriber
from londiste.cascade.own_consumers import consumer_kind
from londiste.db.connection import Connection
from londiste.db.names import argument
from londiste.db.queries import tuples
from londiste.monitor import lock_waits
from londiste.monitor.lock_waits import LockWait
from londiste.monitor.queues import collect, rules
from londiste.monitor.queues.model import Finding, Limits, MonitorFacts, Severity

#: Age of an event table in transactions from which on the server is near its limit of 2 billion.
CRITICAL_AGE = 1_600_000_000


@dataclass(frozen=True)
class DatabaseFacts:
    """What the database of a node shows.

    queues -- of its queue; None on a leaf.  subscribers -- nodes below.
    differing -- rows that the audit found to differ, by table.
    age, allowed_age -- transactions: of the oldest event table, and the server's
        autovacuum_freeze_max_age.
    is_root -- of the queue.  waits -- sessions of this program that wait for a lock.
    """

    queue: str
    queues: MonitorFacts | None
    subscribers: tuple[Subscriber, ...]
    differing: dict[str, int]
    age: int = 0
    allowed_age: int = 0
    is_root: bool = False
    waits: tuple[LockWait, ...] = ()


def collect_facts(
    conn: Connection,
    queue: str,
    subscribers: list[Subscriber],
    differing: dict[str, int],
    *,
    has_queue: bool,
    is_root: bool = False,
) -> DatabaseFacts:
    """The facts of a node's database, for ``alarms``."""
    waits = lock_waits.find(conn)
    if not has_queue:
        return DatabaseFacts(queue, None, (), differing, waits=waits)
    age, allowed = _age(conn, queue)
    facts = collect.collect(conn, queue)
    return DatabaseFacts(queue, facts, tuple(subscribers), differing, age, allowed, is_root, waits)


def alarms(facts: DatabaseFacts, limits: Limits) -> tuple[Finding, ...]:
    """Pure: findings about a node's database; the worst first."""
    found = drift_findings(facts.queue, facts.differing)
    found += lock_waits.findings(facts.waits, facts.queue)
    if facts.queues is not None:
        below = list(facts.subscribers)
        found += [
            one
            for one in rules.findings(facts.queues, limits)
            # ``external_findings`` reports that of a root.
            if not (facts.is_root and one.kind == "external-ticker-silent")
            # Nodes below have a lag of their own.
            if one.kind not in ("consumer-lags", "consumer-inactive")
            or not consumer_kind(one.consumer, below).is_of_cascade
        ]
        found += external_findings(facts)
        found += age_findings(facts.queue, facts.age, facts.allowed_age)
    return tuple(sorted(found, key=lambda one: -one.severity))


def external_findings(facts: DatabaseFacts) -> list[Finding]:
    """Pure: about a root whose queue waits for ticks of another database: none come."""
    if not facts.is_root or facts.queues is None:
        return []
    found = [one for one in facts.queues.queues if one.name == facts.queue and one.external_ticker]
    if not found:
        return []
    if found[0].disable_insert:
        # As a change of the cascade and a fence leave it: to open it would make a second root.
        return [
            Finding(
                Severity.CRITICAL,
                "root-closed",
                f"queue {facts.queue}: this root is closed, it takes no events and no ticks",
                "a change of the cascade is unfinished, or another node has replaced this root",
                "finish that change: londiste status; or, if it was replaced: londiste resurrect",
                facts.queue,
            )
        ]
    return [
        Finding(
            Severity.CRITICAL,
            "external-ticker-silent",
            f"queue {facts.queue}: external_ticker is set on the root, no ticker creates its ticks",
            "no other database sends ticks to a root: its subscribers get no events",
            f"londiste queue config {argument(facts.queue)} external_ticker=no",
            facts.queue,
        )
    ]


def age_findings(queue: str, age: int, allowed: int) -> list[Finding]:
    """Pure: about the transaction-id age of event tables.

    allowed -- the server's autovacuum_freeze_max_age.
    """
    if age <= 2 * allowed and age < CRITICAL_AGE:
        return []
    return [
        Finding(
            Severity.CRITICAL if age >= CRITICAL_AGE else Severity.WARNING,
            "xid-age",
            f"queue {queue}: an event table has a transaction-id age of {age:,}",
            f"autovacuum should have frozen it at {allowed:,}; at 2 billion the server stops",
            f"londiste queue maint; vacuum (freeze) the tables of queue {queue}",
            queue,
        )
    ]


def drift_findings(queue: str, differing: dict[str, int]) -> list[Finding]:
    """Pure: about rows that the audit found to differ, by table."""
    return [
        Finding(
            Severity.CRITICAL,
            "drift",
            f"table {table}: {rows:,} rows differ from the root's",
            "the audit (compare --continuous) found them",
            f"londiste repair {argument(table)}",
            queue,
        )
        for table, rows in sorted(differing.items())
        if rows
    ]


def _age(conn: Connection, queue: str) -> tuple[int, int]:
    ((age, period),) = tuples(conn, "event_table_age", queue=queue)
    return int(age), int(period)
