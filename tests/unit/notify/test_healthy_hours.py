"""Ten healthy hours: no finding and no notification, whatever an ordinary day brings."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from londiste.cascade import daemons
from londiste.cascade.model import Subscriber
from londiste.monitor.alarms import DatabaseFacts, alarms
from londiste.monitor.lag import Behind, Latency
from londiste.monitor.queues.model import ConsumerFacts, Limits, MonitorFacts, QueueFacts
from londiste.monitor.retention import held
from londiste.monitor.status import NodeStatus, Status, TableCounts
from londiste.monitor.verdict import Allowed, findings
from londiste.notify.decide import Rules, State, step
from londiste.notify.findings import of_status
from londiste.pgq.liveness import BUSY_PERIOD, PERIOD, Daemon
from londiste.pgq.types import ConsumerInfo
from tests.support.suite.slow import first

HOUR = 3600.0
START = datetime(2026, 3, 28, 20, tzinfo=UTC).timestamp()
WORKERS = {"root": "root_worker", "leaf": "leaf_worker"}
SUBSCRIBER = Subscriber("leaf", "leaf_worker", None)


@dataclass
class Process:
    """A daemon: when it last reported, until when it works, and when it started again."""

    seen: float = 0.0
    busy_until: float = -1.0
    stopped_at: float | None = None
    up_at: float = 0.0

    def run(self, now: float, chance: random.Random) -> None:
        """Reports when that is due, unless it works on something or is down."""
        if now < self.up_at or now < self.busy_until:
            return
        self.stopped_at = None
        if now - self.seen >= (BUSY_PERIOD if chance.random() < 0.5 else PERIOD):
            self.seen = now

    def restart(self, now: float, seconds: float, *, politely: bool) -> None:
        """Ends, and is there again after this time."""
        self.seen = now
        self.stopped_at = now if politely else None
        self.up_at = now + seconds

    def report(self, kind: str, name: str, now: float, skew: float) -> Daemon:
        """What the server shows of it."""
        is_up = now >= self.up_at
        stopped = None if self.stopped_at is None else datetime.fromtimestamp(self.stopped_at, UTC)
        then = datetime.fromtimestamp(START, UTC)
        age = now - self.seen + skew
        return Daemon(
            *(kind, "q", name, "", "role", "host", 7, "4.1.0", then, then, PERIOD),
            *(age, age, 0.1, 0.2, stopped, is_up, age, now < self.busy_until),
        )


@dataclass
class Day:
    """A cascade over ten hours, in steps of a second.

    Evening load, an idle night, and load again.  Now and then a daemon is restarted within the
    grace, a batch takes most of a minute, a consumer takes ten minutes, and the clock of the root
    is set forward.
    """

    chance: random.Random
    now: float = START
    ticks: list[float] = field(default_factory=lambda: [START])
    pending: bool = False
    applied: int = 1
    watermark: int = 1
    consumed: int = 1
    switched: float = START
    skew: float = 0.0
    processes: dict[str, Process] = field(
        default_factory=lambda: {
            name: Process(START) for name in ("ticker", "root", "leaf", "notify", "reader")
        }
    )

    @property
    def is_night(self) -> bool:
        return 3 * HOUR < self.now - START < 8 * HOUR

    def step(self) -> None:
        """One second passes."""
        self.now += 1
        self.skew = max(0.0, self.skew - 1) if self.skew < 5 else self.skew * 0.9
        self._accidents()
        for one in self.processes.values():
            one.run(self.now, self.chance)
        self.pending |= self.chance.random() < (0.001 if self.is_night else 0.8)
        if self._up("ticker"):
            age = self.now - self.ticks[-1]
            if (self.pending and age >= 3) or age >= 60:
                self.ticks.append(self.now)
                self.pending = False
            # Maintenance comes each two minutes.
            if self.now - self.switched > 2 * HOUR + 120:
                self.switched = self.now
        if self._up("leaf"):
            self.applied = len(self.ticks)
        if self._up("reader"):
            self.consumed = len(self.ticks)
        if int(self.now - START) % 300 == 0 and self._up("root"):
            self.watermark = self.applied

    def _up(self, name: str) -> bool:
        one = self.processes[name]
        return self.now >= one.up_at and self.now >= one.busy_until

    def _accidents(self) -> None:
        dice = self.chance.random()
        names = ("ticker", "root", "leaf", "reader")
        # Together about one each six minutes.
        if dice < 0.001:
            one = self.processes[self.chance.choice(names)]
            one.restart(self.now, self.chance.uniform(0.5, 4), politely=self.chance.random() < 0.5)
        elif dice < 0.0015 and not self.is_night:
            self.processes["leaf"].busy_until = self.now + self.chance.uniform(10, 55)
        elif dice < 0.0018 and self._up("reader"):
            self.processes["reader"].busy_until = self.now + self.chance.uniform(60, 580)
        elif dice < 0.002:
            self.skew = self.chance.uniform(1, 15)

    @property
    def is_restarting(self) -> bool:
        return any(self.now < one.up_at for one in self.processes.values())

    # -- what status sees ------------------------------------------------------------------

    def status(self) -> Status:
        return Status("q", "root", (self._root(), self._leaf()))

    def _daemons(self, *names: str) -> list[Daemon]:
        kinds = {"root": "worker", "leaf": "worker", "reader": "consumer"}
        return [
            self.processes[one].report(
                kinds.get(one, one), WORKERS.get(one, one), self.now, self.skew
            )
            for one in names
        ]

    def _root(self) -> NodeStatus:
        found = self._daemons("ticker", "root", "notify", "reader")
        newest = len(self.ticks)
        seen = self.processes["reader"].seen

        def age(tick: int) -> float:
            return self.now - self.ticks[tick - 1] + self.skew

        reader = daemons.running(
            found, "consumer", start="its program", patience=daemons.CONSUMER_BATCH
        )
        facts = ConsumerFacts(
            "q",
            "reader",
            last_tick=self.consumed,
            last_seen=self.now - seen,
            lag=age(self.consumed),
            pending=newest - self.consumed,
            ended="" if reader.life not in (daemons.Life.GONE, daemons.Life.HUNG) else reader.text,
        )
        queue = QueueFacts(
            "q",
            tick=newest,
            tick_age=age(newest),
            switch_age=self.now - self.switched + self.skew,
            new_events=int(self.pending),
        )
        database = DatabaseFacts("q", MonitorFacts("d", (queue,), (facts,)), (SUBSCRIBER,), {})
        positions = {
            ".global_watermark": self.watermark,
            ".leaf.watermark": self.watermark,
            "leaf_worker": self.applied,
            "reader": self.consumed,
        }
        consumers = [
            ConsumerInfo(
                "q",
                name,
                lag=timedelta(seconds=age(tick)),
                last_seen=timedelta(),
                last_tick=tick,
                current_batch=None,
                next_tick=None,
                pending_events=newest - tick,
            )
            for name, tick in positions.items()
        ]
        return NodeStatus(
            "root",
            "root",
            tables=TableCounts(3, 0, 0),
            tick=newest,
            behind=Behind(0, 0, 0.0),
            held=held(consumers, [SUBSCRIBER]),
            daemons=(
                daemons.running(found, "worker", name="root_worker"),
                daemons.running(found, "ticker"),
                daemons.running(found, "notify"),
            ),
            alarms=alarms(database, Limits()),
        )

    def _leaf(self) -> NodeStatus:
        newest = len(self.ticks)
        behind = newest - self.applied
        seconds = self.now - self.ticks[self.applied] + self.skew if behind else 0.0
        return NodeStatus(
            "leaf",
            "leaf",
            provider="root",
            tables=TableCounts(3, 0, 0),
            tick=self.applied,
            behind=Behind(behind, behind * 10, seconds),
            latency=Latency(3.0),
            daemons=(daemons.running(self._daemons("leaf"), "worker", name="leaf_worker"),),
        )


@pytest.mark.parametrize("seed", first(range(3)))
def test_ten_healthy_hours_raise_no_alarm(seed: int) -> None:
    day = Day(random.Random(seed))
    state, wrong = State(), []
    seen = restarts = 0
    next_look = START
    for _ in range(10 * int(HOUR)):
        day.step()
        if day.now < next_look:
            continue
        # The notifier looks each ten seconds, and its own clock is set back at times.
        next_look = day.now + 10
        status = day.status()
        own_clock = day.now - (25 if 4 * HOUR < day.now - START < 4 * HOUR + 600 else 0)
        state, messages = step(state, of_status(status, Allowed(), 1), own_clock, Rules())
        wrong += [(day.now - START, message.finding.what) for message in messages]
        if day.is_restarting:
            # status tells the truth about a daemon that is being restarted.
            restarts += 1
            continue
        wrong += [(day.now - START, one.what) for one in findings(status)]
        seen += 1
    assert wrong == []
    assert seen > 3000 and restarts > 3
    assert len(day.ticks) > 5000


def test_a_real_outage_in_these_hours_is_reported() -> None:
    day = Day(random.Random(7))
    state, told = State(), []
    for number in range(2 * int(HOUR)):
        day.step()
        if number == HOUR:
            day.processes["leaf"].restart(day.now, 600, politely=False)
        if number % 10 == 0:
            state, messages = step(state, of_status(day.status(), Allowed(), 1), day.now, Rules())
            told += [(one.event, one.finding.kind) for one in messages]
    assert ("begins", "worker") in told and ("ends", "worker") in told
    assert ("begins", "lag") in told and ("ends", "lag") in told
