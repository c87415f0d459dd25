"""Queue findings, computed from facts, kind by kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from londiste.monitor.queues.model import (
    ConsumerFacts,
    Finding,
    HorizonHolder,
    MonitorFacts,
    QueueFacts,
    Severity,
)
from londiste.monitor.queues.rules import compare, findings, worst
from londiste.monitor.queues.words import size, span
from londiste.orchestration.lock_retry import LockHolder
from londiste.ticker.maintenance import BlockedRotation, Round

Q = QueueFacts("q", switch_step2=100, tick=9, tick_xmin=200, sequence="pgq.event_1_id_seq")
C = ConsumerFacts("q", "c", last_tick=9, xmin=200)
HOUR = 3600.0


def judged(queue: QueueFacts = Q, *consumers: ConsumerFacts, **facts: object) -> list[Finding]:
    return findings(replace(MonitorFacts("db", (queue,), consumers), **facts))  # type: ignore[arg-type]


def kinds(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.kind, one.severity.word) for one in found]


def test_a_queue_that_works_has_no_findings() -> None:
    assert judged(Q, C) == []
    assert worst([]) is Severity.OK
    assert findings(MonitorFacts("db")) == []


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        # An idle queue is ticked every idle_period at least, one with events after max_lag.
        (replace(Q, tick_age=85), []),
        (replace(Q, tick_age=95), [("ticker-stopped", "warning")]),
        (replace(Q, tick_age=45, new_events=3), [("ticker-stopped", "warning")]),
        (replace(Q, tick_age=30, new_events=3), []),
        (replace(Q, tick_age=HOUR), [("ticker-stopped", "critical")]),
        (replace(Q, tick_age=HOUR, ticks=1), [("ticker-never-ran", "critical")]),
        (replace(Q, tick=None, tick_age=None, ticks=0), [("ticker-never-ran", "critical")]),
        (replace(Q, ticker_paused=True, tick_age=HOUR), [("ticker-paused", "warning")]),
        (replace(Q, external_ticker=True, disable_insert=True, tick_age=600), []),
        (
            replace(Q, external_ticker=True, tick_age=HOUR),
            [("external-ticker-silent", "warning")],
        ),
        (replace(Q, external_ticker=True, tick_age=HOUR, worked_age=0.0), []),
        (replace(Q, external_ticker=True, tick_age=9.0, worked_age=HOUR), []),
        (replace(Q, clock_back=29.0), []),
        (replace(Q, clock_back=HOUR, tick_age=-HOUR), [("clock-back", "warning")]),
        (replace(Q, disable_insert=True), [("insert-disabled", "warning")]),
        (replace(Q, sequence_cache=20), [("sequence-cache", "warning")]),
        (replace(Q, create_indexes=("create index …",)), [("event-index", "warning")]),
        (replace(Q, delayed=3, delayed_overdue=600), [("delayed-overdue", "warning")]),
        (replace(Q, delayed=3, delayed_overdue=-600), []),
        (replace(Q, tick_xmin=5000), [("restored", "critical")]),
        (replace(Q, is_at_home=False), [("restored", "critical")]),
        (replace(Q, switch_step1=5000, tick_age=HOUR), [("restored", "critical")]),
        (replace(Q, switch_age=3 * HOUR), []),
        (replace(Q, switch_age=5 * HOUR), [("rotation-late", "warning")]),
        (replace(Q, switch_age=50 * HOUR), [("rotation-late", "critical")]),
        (replace(Q, switch_age=5 * HOUR, switch_step2=None), [("rotation-half-done", "warning")]),
        (replace(Q, switch_age=5 * HOUR, tick_xmin=99), [("rotation-held", "warning")]),
    ],
)
def test_queues(queue: QueueFacts, expected: list[tuple[str, str]]) -> None:
    assert kinds(judged(queue)) == expected


def test_a_late_rotation_names_the_session_that_locks_the_table() -> None:
    reader = BlockedRotation("q", "pgq.event_1_1", "psql of rdr, process 7", 60.0, "select end(7)")
    (finding,) = judged(replace(Q, switch_age=5 * HOUR, blocker=reader))
    assert finding.kind == "rotation-late"
    assert finding.why == "psql of rdr, process 7 holds a lock on pgq.event_1_1, for 1m"
    assert finding.do == "select end(7)"


def test_a_late_rotation_names_the_error_with_which_it_fails() -> None:
    failed = Round(
        0, {"maintenance operation pgq.maint_rotate_tables_step1 of queue q": "no: a; b"}
    )
    also = "maintenance operation londiste.periodic_maintenance: other"
    text = f"{failed.again(failed.failed)}; {also}"
    late = replace(Q, switch_age=5 * HOUR)
    (why,) = [one for one in judged(late, ticker_errors=(text,)) if one.kind == "rotation-late"]
    assert why.why == "maintenance fails: no: a; b"
    assert why.do == "correct the cause, then: londiste queue maint"
    (why,) = [one for one in judged(late, ticker_errors=(also,)) if one.kind == "rotation-late"]
    assert why.why == "no consumer needs the old events: maintenance does not run"


@pytest.mark.parametrize(
    ("consumer", "expected"),
    [
        (replace(C, last_seen=90 * HOUR, lag=90 * HOUR), []),  # at the newest tick: nothing to do
        (replace(C, last_tick=8, lag=500, last_seen=1), []),
        (replace(C, last_tick=8, lag=700, last_seen=1), [("consumer-lags", "warning")]),
        (replace(C, last_tick=8, lag=7000, last_seen=1), [("consumer-lags", "critical")]),
        (replace(C, last_tick=8, last_seen=2 * HOUR), [("consumer-inactive", "warning")]),
        (replace(C, last_tick=3, lost=True), [("position-lost", "critical")]),
        (replace(C, cooperative=True, last_tick=None, last_seen=90 * HOUR), []),
        (
            replace(C, cooperative=True, last_tick=7, batch=5, last_seen=HOUR),
            [("cooperative-dead", "warning")],
        ),
        (replace(C, cooperative=True, last_tick=7, batch=5, last_seen=60), []),
        (replace(C, paused="maintenance", lag=9000), [("consumer-paused", "warning")]),
        (replace(C, paused=""), [("consumer-paused", "warning")]),
        (replace(C, dead_letters=2), [("dead-letters", "warning")]),
        (replace(C, retries=2, retry_overdue=-60), []),
        (replace(C, retries=2, retry_overdue=600), [("retries-overdue", "warning")]),
    ],
)
def test_consumers(consumer: ConsumerFacts, expected: list[tuple[str, str]]) -> None:
    assert kinds(judged(Q, consumer)) == expected


def test_the_consumer_that_pins_rotation_is_named_with_what_it_holds() -> None:
    queue = replace(Q, switch_age=5 * HOUR, bytes=3 << 30)
    slow = replace(C, name="slow one", last_tick=2, xmin=50, lag=5 * HOUR, pending=12345)
    found = [one for one in judged(queue, C, slow) if one.kind == "rotation-pinned"]
    (pinned,) = found
    assert (pinned.queue, pinned.consumer) == ("q", "slow one")
    assert "3 GB of event tables kept" in pinned.what
    assert "12345 events" in pinned.why
    assert pinned.do.endswith("londiste queue unregister q 'slow one'")


def test_the_batch_of_a_cooperative_consumer_is_taken_over_and_not_dropped() -> None:
    late = replace(Q, switch_age=5 * HOUR)
    dead = replace(C, name="c.one", cooperative=True, batch=5, last_tick=2, xmin=50, last_seen=HOUR)
    for one in judged(late, dead):
        assert one.do.startswith("start c.one again"), one.kind
        assert "--set subconsumer_timeout=" in one.do and "unregister" not in one.do
    assert {one.kind for one in judged(late, dead)} == {"rotation-pinned", "cooperative-dead"}


def test_a_transaction_that_holds_rotation_is_named() -> None:
    old = HorizonHolder(
        "psql of ann, process 7", 5 * HOUR, 900, True, "select pg_terminate_backend(7)"
    )
    reader = HorizonHolder("pg_dump of bob, process 8", 2 * HOUR, 90, False, "select …")
    queue = replace(Q, switch_age=5 * HOUR, tick_xmin=99)
    found = judged(queue, holders=(old, reader))
    assert kinds(found) == [
        ("snapshot-held", "warning"),
        ("snapshot-held", "warning"),
        ("rotation-held", "warning"),
    ]
    assert "psql of ann" in found[-1].why and found[-1].do == old.remedy
    assert "event tables written" in found[0].why and "event tables written" not in found[1].why
    assert judged(Q, holders=(replace(old, age=60),)) == []


def test_a_replication_slot_counts_by_transactions() -> None:
    slot = HorizonHolder("standby", None, 20_000_000, False, "select …")
    assert kinds(judged(Q, holders=(slot,))) == [("snapshot-held", "warning")]
    assert judged(Q, holders=(replace(slot, xids=5),)) == []


def test_the_remedy_depends_on_whether_a_ticker_is_connected() -> None:
    late = replace(Q, tick_age=HOUR)
    assert "no londiste ticker is connected" in judged(late, ticker_sessions=0)[0].why
    assert "check its log, and restart it" in judged(late, ticker_sessions=1)[0].why


def test_a_ticker_that_fails_is_a_warning() -> None:
    assert kinds(judged(Q, ticker_errors=("no",))) == [("ticker-fails", "warning")]


def test_two_looks_show_whether_a_queue_grows() -> None:
    lags = replace(C, event_seq=100, pending=1000, lag=120)
    before = MonitorFacts("db", (replace(Q, last_id=1100),), (lags,))
    later = replace(C, event_seq=200, pending=2000, lag=125)
    after = MonitorFacts("db", (replace(Q, last_id=2200),), (later,))
    speed = compare(before, after, 10.0)
    assert (speed.produced["q"], speed.consumed["q", "c"]) == (110.0, 10.0)
    assert kinds(findings(after, speed=speed)) == [("growing", "warning")]
    keeps_up = MonitorFacts("db", (Q,), (replace(C, event_seq=1100, pending=0, lag=1),))
    assert findings(keeps_up, speed=compare(before, keeps_up, 10.0)) == []


def test_the_worst_comes_first() -> None:
    found = judged(
        replace(Q, disable_insert=True, tick_age=HOUR), replace(C, last_tick=1, lost=True)
    )
    assert [one.severity.word for one in found] == ["critical", "critical", "warning"]
    assert worst(found) is Severity.CRITICAL


def test_every_finding_says_why_and_what_to_do_and_is_documented() -> None:
    import re
    from pathlib import Path

    root = Path(__file__).parents[3]
    source = "".join(
        (root / f"londiste/monitor/queues/{name}.py").read_text(encoding="utf-8")
        for name in ("rules", "rotation")
    )
    page = (root / "docs/howto/queue-status.md").read_text(encoding="utf-8")
    used = set(re.findall(r'^\s+"([a-z]+(?:-[a-z]+)+|restored|growing)",?$', source, re.M))
    used |= set(re.findall(r'"(ticker-[a-z-]+)"', source))
    assert len(used) >= 18
    assert used == set(re.findall(r"^\| `([a-z-]+)` \|", page, re.M))


def test_words() -> None:
    assert [span(s) for s in (0, 59.9, 61, 3600, 93784)] == ["0s", "59s", "1m1s", "1h", "1d2h"]
    assert [span(s) for s in (-0.9, -61)] == ["0s", "-1m1s"]
    assert [size(n) for n in (5, 2048, 3 << 40)] == ["5 bytes", "2 kB", "3.0 TB"]


def test_a_tick_that_cannot_come_has_its_cause() -> None:
    late = replace(Q, tick_age=HOUR)
    row = LockHolder("psql of app, process 7", 90.0, "select pg_terminate_backend(7)")
    for facts, why, do in (
        ({"commit_waits": 95.0, "queue_locks": (row,)}, "a synchronous standby", "show sync"),
        (
            {"queue_locks": (row,)},
            "process 7, which holds a lock on pgq.queue",
            row.remedy,
        ),
        ({"queue_locks": (replace(row, age=5.0),), "commit_waits": 5.0}, "check its log", "tick q"),
        ({"ticker_sessions": 0, "queue_locks": (row,)}, "no londiste ticker", "ticker --db"),
    ):
        (found,) = judged(late, **facts)
        assert why in found.why and do in found.do
