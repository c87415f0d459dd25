"""Rule for queues whose event tables are not rotated: why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.queues.model import (
    ConsumerFacts,
    Finding,
    Limits,
    MonitorFacts,
    QueueFacts,
    Severity,
)
from londiste.monitor.queues.words import quoted, size, span
from londiste.pgq.coop import takeover
from londiste.pgq.counting import words
from londiste.ticker.maintenance import STEP1, STEP2, error_of


def findings(queue: QueueFacts, facts: MonitorFacts, limits: Limits) -> Iterator[Finding]:
    """The finding that rotation of a queue is late, for each cause."""
    if queue.switch_age <= queue.rotation_period * limits.rotation + limits.grace:
        return
    late = f"not rotated for {span(queue.switch_age)}; {size(queue.bytes)} of event tables kept"
    severity = (
        Severity.CRITICAL
        if queue.switch_age > queue.rotation_period * limits.rotation * 6
        else Severity.WARNING
    )
    if queue.switch_step2 is None:
        yield Finding(
            severity,
            "rotation-half-done",
            f"queue {queue.name}: {late}",
            f"maintenance fails: {failed}"
            if (failed := error_of(facts.ticker_errors, STEP2))
            else "the second step of the last rotation never ran: maintenance has stopped",
            "londiste queue maint (and start a ticker: londiste ticker)",
            queue.name,
        )
        return
    if queue.tick_xmin is not None and queue.tick_xmin <= queue.switch_step2:
        oldest = next((one for one in facts.holders if one.writes), None)
        yield Finding(
            severity,
            "rotation-held",
            f"queue {queue.name}: {late}",
            "a transaction older than the last rotation is still open"
            + (f": {oldest.name}, for {span(oldest.age or 0)}" if oldest else ""),
            oldest.remedy if oldest else "select * from pg_stat_activity order by xact_start",
            queue.name,
        )
        return
    pinning = [
        one
        for one in facts.consumers
        if one.queue == queue.name and one.xmin is not None and one.xmin <= queue.switch_step2
    ]
    for one in pinning:
        yield Finding(
            severity,
            "rotation-pinned",
            f"consumer {one.name} of queue {queue.name} pins its tables: {late}",
            f"it is at tick {one.last_tick}, {span(one.lag or 0)} old, with"
            f" {words(one.pending)} pending, and was seen {span(one.last_seen)} ago",
            restart(one),
            queue.name,
            one.name,
        )
    if not pinning:
        blocker = queue.blocker
        if failed := error_of(facts.ticker_errors, STEP1, queue.name):
            why = f"maintenance fails: {failed}"
            do = "correct the cause, then: londiste queue maint"
        elif blocker is None:
            why = "no consumer needs the old events: maintenance does not run"
            do = "londiste queue maint"
        else:
            since = "" if blocker.age is None else f", for {span(blocker.age)}"
            why, do = f"{blocker.name} holds a lock on {blocker.table}{since}", blocker.remedy
        yield Finding(
            severity,
            "rotation-late",
            f"queue {queue.name}: {late}",
            why,
            do,
            queue.name,
        )


def restart(one: ConsumerFacts) -> str:
    """What to do about a consumer that reads nothing."""
    if one.own is not None:
        return one.own.way_out()
    if one.cooperative and one.batch is not None:
        return takeover(one.name)
    return f"start it, or: londiste queue unregister {quoted(one.queue)} {quoted(one.name)}"
