"""Samples of a cascade and of queues, from collected facts; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from londiste import __version__
from londiste.cascade.daemons import Life
from londiste.metrics.cache import Outcome
from londiste.metrics.catalog import MOST_CONSUMERS, OTHERS, Sample
from londiste.metrics.collect import Counted, Databases, NodeMeasures
from londiste.monitor import verdict
from londiste.monitor.queues import rules
from londiste.monitor.queues.model import ConsumerFacts, Finding, Limits, MonitorFacts
from londiste.monitor.status import NodeStatus
from londiste.monitor.verdict import Allowed

#: States of tables; each has a series, also with 0.
TABLE_STATES = ("ok", "copying", "halted", "failing", "paused", "stale", "ignored")


def process(outcome: Outcome[Any] | None) -> Iterator[Sample]:
    """Samples of every endpoint."""
    yield Sample("londiste_build_info", 1, {"version": __version__})
    if outcome is not None:
        yield Sample("londiste_collect_success", float(outcome.ok))
        yield Sample("londiste_collect_duration_seconds", outcome.seconds)
        if outcome.value is not None:
            yield Sample("londiste_collect_age_seconds", max(0.0, outcome.age))


def cascade(found: Counted, allowed: Allowed | None = None) -> Iterator[Sample]:
    """Samples of the nodes of a cascade, and of their queues."""
    status = found.cascade.status
    allowed = allowed or Allowed()
    only = found.cascade.only
    if any(node.type == "root" for node in status.nodes) or len(status.nodes) != 1:
        problems = verdict.findings(status, allowed, only)
        yield Sample("londiste_status", rules.worst(problems), {"queue": status.queue})
        yield from _findings(status.queue, "", verdict.of_cascade(status))
    for name in verdict.missing(status, only):
        yield Sample("londiste_node_up", 0, {"queue": status.queue, "node": name})
        yield from _findings(status.queue, name, [verdict.of_missing(name, status)])
    seen = set()
    for node in verdict.chosen(status, only):
        measures = found.cascade.measures.get(node.name)
        yield from _findings(status.queue, node.name, verdict.of_node(node, status, allowed))
        yield from _node(node, status.queue, measures)
        if found.copied is not None and node.name in found.copied:
            labels = {"queue": status.queue, "node": node.name}
            yield Sample("londiste_copy_bytes_total", found.copied[node.name], labels)
        if measures is not None and measures.database not in seen:
            seen.add(measures.database)
            if measures.facts.queues is not None:
                yield from queues(measures.database, measures.facts.queues)


def _findings(queue: str, node: str, problems: Iterable[Finding]) -> Iterator[Sample]:
    found = Counter((one.kind, one.severity.word) for one in problems)
    for (kind, severity), number in sorted(found.items()):
        labels = {"queue": queue, "node": node, "kind": kind, "severity": severity}
        yield Sample("londiste_findings", number, labels)


def _node(node: NodeStatus, queue: str, measures: NodeMeasures | None) -> Iterator[Sample]:
    def sample(name: str, value: float, **labels: str) -> Sample:
        return Sample(f"londiste_{name}", value, {"queue": queue, "node": node.name, **labels})

    yield sample("node_up", node.refuses or not node.unreachable)
    if node.unreachable:
        return
    yield sample("node_info", 1, role=node.type, provider=node.provider or "")
    if node.behind is not None:
        if node.behind.seconds is not None:
            yield sample("lag_seconds", node.behind.seconds)
        yield sample("lag_ticks", node.behind.ticks)
        yield sample("lag_events", node.behind.events)
    if node.applied_events is not None:
        yield sample("applied_events_total", node.applied_events)
    if node.latency is not None:
        for part in ("tick", "fetch", "apply"):
            value = getattr(node.latency, part)
            if value is not None:
                yield sample("latency_seconds", value, part=part)
    if node.tables is not None:
        numbers = Counter(copying=node.tables.half, ignored=node.tables.ignored)
        numbers[node.table_state] += node.tables.ok
        for state in TABLE_STATES:
            yield sample("tables", numbers[state], state=state)
    yield sample("halted", len(node.halted))
    yield sample("paused", node.paused)
    known = [one for one in node.daemons if one.life not in (Life.NEVER, Life.UNKNOWN)]
    for daemon in sorted({one.kind for one in known}):
        up = all(one.life.runs for one in known if one.kind == daemon)
        yield sample("daemon_up", up, daemon=daemon)
    if node.audit is not None:
        yield sample("audit_verified_ratio", node.audit.verified)
    yield sample("held_seconds", node.held.age if node.held is not None else 0.0)
    running = node.large is not None and node.large.seconds is None
    yield sample("large_batch_running", running)
    if node.large is not None and node.large.seconds is not None:
        yield sample("large_batch_seconds", node.large.seconds)
    if measures is not None:
        yield sample("copies", len(measures.copies))
        left = sum(max(0, one.total_bytes - one.bytes) for one in measures.copies)
        yield sample("copy_remaining_bytes", left)
        yield sample("drift_rows", sum(measures.facts.differing.values()))
        for kind, times in sorted(measures.conflicts.items()):
            yield sample("conflicts_total", times, kind=kind)


def databases(found: Databases) -> Iterator[Sample]:
    """Samples of the queues of databases, with the findings of ``queue status``."""
    for database, facts in found.facts.items():
        if facts is None:
            continue
        yield from queues(database, facts)
        kinds = Counter(
            (one.queue, one.kind, one.severity.word) for one in rules.findings(facts, Limits())
        )
        for (queue, kind, severity), number in sorted(kinds.items()):
            labels = {"database": database, "queue": queue, "kind": kind, "severity": severity}
            yield Sample("londiste_queue_findings", number, labels)


def queues(database: str, facts: MonitorFacts) -> Iterator[Sample]:
    """Samples of the queues of a database and their consumers."""
    for one in facts.queues:
        labels = {"database": database, "queue": one.name}
        numbers = {
            "tick_age_seconds": one.tick_age,
            "events_total": one.last_id,
            "bytes": one.bytes,
            "rotation_age_seconds": one.switch_age,
            "delayed_events": one.delayed,
        }
        for name, value in numbers.items():
            if value is not None:
                yield Sample(f"londiste_queue_{name}", value, labels)
        consumers = [c for c in facts.consumers if c.queue == one.name and not c.lost]
        yield from _consumers(labels, consumers)


def _consumers(labels: dict[str, str], found: list[ConsumerFacts]) -> Iterator[Sample]:
    """A bounded number of consumers; copies and the others are summed up in one."""
    named: list[ConsumerFacts] = []
    others: list[ConsumerFacts] = []
    for one in sorted(found, key=lambda c: c.name):
        own = len(named) < MOST_CONSUMERS and ".copy." not in one.name
        (named if own else others).append(one)
    for name, group in [*((one.name, [one]) for one in named), (OTHERS, others)]:
        if not group:
            continue
        place = {**labels, "consumer": name}
        lags = [one.lag for one in group if one.lag is not None]
        pending = sum(one.pending or 0 for one in group)
        yield Sample("londiste_queue_events_pending", pending, place)
        if lags:
            yield Sample("londiste_queue_consumer_lag_seconds", max(lags), place)
        yield Sample("londiste_queue_retry_events", sum(one.retries for one in group), place)
        yield Sample("londiste_queue_dead_letters", sum(one.dead_letters for one in group), place)
