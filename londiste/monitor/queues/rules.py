"""Rules for queues: from facts to findings, without a connection or a clock.

A finding has a severity, a message, the reason and a command: docs/howto/queue-status.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.queues import rotation
from londiste.monitor.queues.model import (
    ConsumerFacts,
    Finding,
    Limits,
    MonitorFacts,
    QueueFacts,
    Severity,
    Speed,
)
from londiste.monitor.queues.words import quoted, span
from londiste.pgq.coop import takeover
from londiste.pgq.counting import words


def findings(
    facts: MonitorFacts, limits: Limits | None = None, speed: Speed | None = None
) -> list[Finding]:
    """All findings, the worst first."""
    limits = limits or Limits()
    found = [*_tickers(facts, limits), *_holders(facts, limits)]
    for queue in facts.queues:
        found += _queue(queue, facts, limits)
    for consumer in facts.consumers:
        found += _consumer(consumer, facts, limits)
    for one in facts.excess:
        found.append(
            Finding(
                Severity.CRITICAL,
                "internal-rights",
                one.what,
                one.why,
                one.remedy,
            )
        )
    if speed is not None:
        found += _growing(facts, speed)
    return sorted(found, key=lambda one: (-one.severity, one.queue, one.consumer, one.kind))


def worst(found: list[Finding]) -> Severity:
    """The worst severity of all."""
    severities = (one.severity for one in found)
    return max(severities, key=lambda severity: severity.rank, default=Severity.OK)


def compare(before: MonitorFacts, after: MonitorFacts, seconds: float) -> Speed:
    """Rates of produced and consumed events between two samples."""
    sequences = {queue.name: queue.last_id for queue in before.queues}
    produced = {}
    for queue in after.queues:
        old, new = sequences.get(queue.name), queue.last_id
        if old is not None and new is not None:
            produced[queue.name] = (new - old) / seconds
    positions = {(one.queue, one.name): one.event_seq for one in before.consumers}
    consumed = {}
    for one in after.consumers:
        position = positions.get((one.queue, one.name))
        if position is not None and one.event_seq is not None:
            consumed[one.queue, one.name] = (one.event_seq - position) / seconds
    return Speed(seconds, produced, consumed)


# -- ticker ---------------------------------------------------------------------------------------


def allowed_tick_age(queue: QueueFacts, limits: Limits) -> float:
    """Maximum age of the newest tick in seconds while a ticker runs."""
    wait = queue.max_lag if (queue.new_events or 0) > 0 else max(queue.idle_period, queue.max_lag)
    return wait + limits.grace


def _tickers(facts: MonitorFacts, limits: Limits) -> Iterator[Finding]:
    late = [
        queue
        for queue in facts.queues
        if not queue.external_ticker
        and not queue.ticker_paused
        and not _restored(queue)
        and (queue.tick_age is None or queue.tick_age > allowed_tick_age(queue, limits))
    ]
    for queue in late:
        age = queue.tick_age
        never = age is None or queue.ticks < 2
        waits = (
            f"{queue.new_events} events wait for a tick" if queue.new_events else "no new events"
        )
        why, do = _no_tick(queue, facts, limits)
        yield Finding(
            Severity.CRITICAL
            if age is None or age > 4 * allowed_tick_age(queue, limits)
            else Severity.WARNING,
            "ticker-never-ran" if never else "ticker-stopped",
            (
                f"queue {queue.name}: the ticker never ran"
                if never
                else f"queue {queue.name}: no tick for {span(age or 0)}"
            )
            + f"; {waits}",
            why,
            do,
            queue.name,
        )

    for error in facts.ticker_errors:
        yield Finding(
            Severity.WARNING,
            "ticker-fails",
            f"the ticker fails: {error}",
            "it tries again; without maintenance, event tables and delayed events stay",
            "londiste queue maint; check the log of the ticker",
        )


def _no_tick(queue: QueueFacts, facts: MonitorFacts, limits: Limits) -> tuple[str, str]:
    """Why the queue gets no tick, and what to do."""
    waits = facts.commit_waits or 0.0
    if waits > limits.grace:
        return (
            f"a commit has waited for a synchronous standby for {span(waits)}",
            "show synchronous_standby_names; select * from pg_stat_replication",
        )
    if not facts.ticker_sessions:
        return (
            "no londiste ticker is connected to this database",
            f"londiste ticker {facts.place} (or: londiste queue schedule)",
        )
    for one in facts.queue_locks:
        # A ticker leaves out a queue whose row is locked; which row it is, nothing shows.
        if one.age is None or one.age > limits.grace:
            return (
                "a ticker is connected, but creates no tick: it may wait for"
                f" {one.name}, which holds a lock on pgq.queue"
                + ("" if one.age is None else f" for {span(one.age)}"),
                one.remedy,
            )
    return (
        "a ticker is connected, but creates no tick: check its log, and restart it",
        f"londiste queue tick {quoted(queue.name)}",
    )


def _restored(queue: QueueFacts) -> bool:
    return not queue.is_at_home or max(queue.tick_xmin or 0, queue.switch_step1) > queue.current_xid


# -- queues ---------------------------------------------------------------------------------------


def _queue(queue: QueueFacts, facts: MonitorFacts, limits: Limits) -> Iterator[Finding]:
    name = quoted(queue.name)
    if _restored(queue):
        yield Finding(
            Severity.CRITICAL,
            "restored",
            f"queue {queue.name}: its transaction ids are from another server",
            f"the database was restored; its newest tick has transactions from"
            f" {queue.tick_xmin} on, this server is at {queue.current_xid}",
            "londiste queue rebase",
            queue.name,
        )
    if queue.ticker_paused:
        yield Finding(
            Severity.WARNING,
            "ticker-paused",
            f"queue {queue.name}: the ticker has been paused for {span(queue.tick_age or 0)}",
            f"parameter ticker_paused is set; {queue.new_events or 0} events wait for a tick",
            f"londiste queue config {name} ticker_paused=no",
            queue.name,
        )
    if queue.clock_back > limits.grace:
        what = "the clock of the server was set back"
        if queue.external_ticker:
            what = "the clock of its source was set back, or is ahead,"
        yield Finding(
            Severity.WARNING,
            "clock-back",
            f"queue {queue.name}: {what} by {span(queue.clock_back)}",
            "its newest tick is older than one before it, or lies in the future: until consumers"
            " have passed these ticks, lag is estimated or unknown",
            f"timedatectl set-ntp true on that server; londiste queue ticks {name}",
            queue.name,
        )
    if queue.external_ticker and queue.tick_age is not None:
        allowed = max(queue.idle_period, queue.max_lag) + limits.grace + limits.lag
        # Ticks have the time of another server; that of the worker is of this one.
        seen = queue.tick_age if queue.worked_age is None else queue.worked_age
        if min(queue.tick_age, seen) > allowed:
            yield Finding(
                Severity.WARNING,
                "external-ticker-silent",
                f"queue {queue.name}: no tick from its source for {span(queue.tick_age)}",
                "its ticks come from another database, with the events",
                "londiste status (and check the worker of this node)",
                queue.name,
            )
    if queue.disable_insert and not queue.external_ticker:
        yield Finding(
            Severity.WARNING,
            "insert-disabled",
            f"queue {queue.name}: events are refused",
            "parameter disable_insert is set; inserting an event fails",
            f"londiste queue config {name} disable_insert=no",
            queue.name,
        )
    if queue.sequence_cache > 1:
        yield Finding(
            Severity.WARNING,
            "sequence-cache",
            f"queue {queue.name}: the event sequence has a cache of {queue.sequence_cache}",
            "event ids are then out of order between sessions, and counts of events are wrong",
            f"alter sequence {queue.sequence} cache 1",
            queue.name,
        )
    if queue.create_indexes:
        yield Finding(
            Severity.WARNING,
            "event-index",
            f"queue {queue.name}: event tables lack their index",
            "each batch of each consumer reads these tables completely",
            f"londiste install; or: {'; '.join(queue.create_indexes)}",
            queue.name,
        )
    # A queue that refuses events keeps them, and has a finding for that.
    if queue.delayed_overdue > limits.retry and not queue.disable_insert:
        yield Finding(
            Severity.WARNING,
            "delayed-overdue",
            f"queue {queue.name}: delayed events are overdue for"
            f" {span(queue.delayed_overdue)}; {queue.delayed} events wait",
            "the ticker inserts them into the queue: it does not run, or fails",
            "londiste queue maint",
            queue.name,
        )
    yield from rotation.findings(queue, facts, limits)


def _growing(facts: MonitorFacts, speed: Speed) -> Iterator[Finding]:
    for one in facts.consumers:
        produced = speed.produced.get(one.queue, 0.0)
        consumed = speed.consumed.get((one.queue, one.name))
        if consumed is None or not one.pending or one.lag is None or one.lag < 60:
            continue
        if produced > consumed * 1.05 + 1:
            yield Finding(
                Severity.WARNING,
                "growing",
                f"queue {one.queue} grows: consumer {one.name} is slower than the producers",
                f"{produced:.0f} events/s are written, {consumed:.0f} are read; {one.pending} wait",
                _faster(one, "add cooperative consumers, or find what slows it down"),
                one.queue,
                one.name,
            )


# -- consumers ------------------------------------------------------------------------------------


def _consumer(one: ConsumerFacts, facts: MonitorFacts, limits: Limits) -> Iterator[Finding]:
    queue, name = quoted(one.queue), quoted(one.name)
    if one.lost:
        yield Finding(
            Severity.CRITICAL,
            "position-lost",
            f"consumer {one.name} of queue {one.queue} is at tick {one.last_tick},"
            " which no longer exists",
            "it cannot continue, and rotation stops",
            f"londiste queue register {queue} {name} --at TICK (londiste queue ticks {queue})"
            if one.own is None
            else one.own.found_again(),
            one.queue,
            one.name,
        )
        return
    # An idle cooperative consumer has no position; the one it shares is its main consumer's.
    if one.cooperative and one.batch is not None and one.last_seen > limits.batch:
        yield Finding(
            Severity.WARNING,
            "cooperative-dead",
            f"cooperative consumer {one.name} of queue {one.queue} holds batch {one.batch}"
            f" for {span(one.last_seen)}",
            "it seems dead; its events wait until it returns, or another takes over the batch",
            f"{takeover(one.name)}; its events: londiste queue events {queue} --batch {one.batch}",
            one.queue,
            one.name,
        )
    elif one.paused is not None:
        yield Finding(
            Severity.WARNING,
            "consumer-paused",
            f"consumer {one.name} of queue {one.queue} is paused",
            f"an operator has paused it{': ' if one.paused else ''}{one.paused};"
            f" {words(one.pending)} pending",
            f"londiste queue resume-consumer {queue} {name}",
            one.queue,
            one.name,
        )
    elif one.ended:
        yield Finding(
            Severity.WARNING,
            "consumer-ended",
            f"consumer {one.name} of queue {one.queue}: {one.ended}",
            f"up to {one.pending or 0} events wait for it",
            rotation.restart(one),
            one.queue,
            one.name,
        )
    elif one.last_tick is not None and _behind(one, facts):
        yield from _behindhand(one, limits, queue, name)
    if one.dead_letters:
        yield Finding(
            Severity.WARNING,
            "dead-letters",
            f"consumer {one.name} of queue {one.queue} gave up on {one.dead_letters} events",
            "they are kept, with the reason, until they are retried or deleted",
            f"londiste queue dead list {queue} {name}",
            one.queue,
            one.name,
        )
    if one.retries and one.retry_overdue > limits.retry:
        yield Finding(
            Severity.WARNING,
            "retries-overdue",
            f"consumer {one.name} of queue {one.queue}: {one.retries} events wait for their retry,"
            f" the first is due for {span(one.retry_overdue)}",
            "the ticker inserts them again: it does not run, or fails",
            "londiste queue maint",
            one.queue,
            one.name,
        )


def _behind(one: ConsumerFacts, facts: MonitorFacts) -> bool:
    newest = next((queue.tick for queue in facts.queues if queue.name == one.queue), None)
    return newest is not None and one.last_tick is not None and one.last_tick < newest


def _behindhand(one: ConsumerFacts, limits: Limits, queue: str, name: str) -> Iterator[Finding]:
    waiting = f"{words(one.pending)} pending"
    if one.last_seen > limits.inactive:
        yield Finding(
            Severity.WARNING,
            "consumer-inactive",
            f"consumer {one.name} of queue {one.queue} was not seen for {span(one.last_seen)}",
            waiting
            + (f"; batch {one.batch} has been open since then" if one.batch is not None else ""),
            rotation.restart(one),
            one.queue,
            one.name,
        )
    elif (one.lag or 0) > limits.lag:
        yield Finding(
            Severity.CRITICAL if (one.lag or 0) > 10 * limits.lag else Severity.WARNING,
            "consumer-lags",
            f"consumer {one.name} of queue {one.queue} lags by {span(one.lag or 0)}",
            waiting + f"; it was seen {span(one.last_seen)} ago",
            _faster(one, f"londiste queue events {queue} --consumer {name}"),
            one.queue,
            one.name,
        )


def _faster(one: ConsumerFacts, otherwise: str) -> str:
    """What to do about a consumer that reads too slowly; otherwise -- if it is no cascade's."""
    if one.own is None:
        return otherwise
    if one.own.has_process:
        return f"londiste status; check the log of the worker of node {one.own.node}"
    return one.own.way_out()


# -- the server -----------------------------------------------------------------------------------


def _holders(facts: MonitorFacts, limits: Limits) -> Iterator[Finding]:
    if not facts.queues:
        return
    for one in facts.holders:
        old = one.age is not None and one.age > limits.transaction
        if not old and not (one.age is None and (one.xids or 0) > limits.slot):
            continue
        since = f"for {span(one.age)}" if one.age is not None else f"for {one.xids} transactions"
        yield Finding(
            Severity.WARNING,
            "snapshot-held",
            f"{one.name} holds an old snapshot {since}",
            "newer dead rows cannot be removed"
            + (", and event tables written since then cannot be truncated" if one.writes else ""),
            one.remedy,
        )
