"""Values of queue monitoring: facts, limits and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from londiste.cascade.own_consumers import OwnConsumer
from londiste.install.default_rights import Excess
from londiste.orchestration.lock_retry import LockHolder
from londiste.ticker.maintenance import BlockedRotation


class Severity(IntEnum):
    """Severity of a finding; the exit code of ``londiste queue status --check``.

    UNKNOWN -- whether something is wrong cannot be said: worse than a warning.
    """

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3

    @property
    def rank(self) -> int:
        """Its place in the order of severities."""
        return (Severity.OK, Severity.WARNING, Severity.UNKNOWN, Severity.CRITICAL).index(self)

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class QueueFacts:
    """One queue.  Ages and periods in seconds.

    tick -- newest; None: there never was one.  ticks -- their number, counted up to three.
    clock_back -- how far the newest tick lies in the future, or before an earlier one.
    worked_age -- since the worker that copies ticks into it has applied a batch; None: unknown.
    last_id -- newest id of its sequence.  new_events -- committed after the newest tick.
    delayed, delayed_overdue -- events that wait for their time, and how long the first is due.
    switch_step1, switch_step2 -- transactions of the last rotation; step2 None: half done.
    create_indexes -- statements that create missing indexes of its event tables.
    is_at_home -- its transaction ids are those of this server.
    blocker -- the transaction whose lock a due rotation waits for.
    """

    name: str
    external_ticker: bool = False
    ticker_paused: bool = False
    disable_insert: bool = False
    max_lag: float = 3.0
    idle_period: float = 60.0
    rotation_period: float = 7200.0
    switch_age: float = 0.0
    switch_step1: int = 1
    switch_step2: int | None = 1
    tick: int | None = 2
    tick_age: float | None = 0.0
    clock_back: float = 0.0
    worked_age: float | None = None
    tick_xmin: int | None = 10
    ticks: int = 3
    last_id: int | None = None
    new_events: int | None = 0
    events_per_sec: float | None = 0.0
    bytes: int = 0
    sequence_cache: int = 1
    sequence: str = ""
    current_xid: int = 1000
    is_at_home: bool = True
    delayed: int = 0
    delayed_overdue: float = 0.0
    blocker: BlockedRotation | None = None
    create_indexes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConsumerFacts:
    """One consumer of a queue.  Ages in seconds.

    xmin -- oldest transaction of the snapshot of its tick.
    pending -- events between its position and the newest tick.
    cooperative -- it shares a position with others.
    lag -- of its tick; None: it has none, or the clock was set back since.
    lost -- its position is no tick of the queue.
    paused -- reason of the pause, may be empty; None: not paused.
    retry_overdue -- how long the first retry is due; negative: not due yet.
    ended -- what ``status`` shows of its process that has ended without a word, or hangs.
    own -- what it is in the cascade that has registered it; None: it is not of the cascade.
    """

    queue: str
    name: str
    last_tick: int | None = 1
    batch: int | None = None
    next_tick: int | None = None
    last_seen: float = 0.0
    lag: float | None = 0.0
    xmin: int | None = 10
    pending: int | None = 0
    event_seq: int | None = 0
    cooperative: bool = False
    lost: bool = False
    paused: str | None = None
    dead_letters: int = 0
    retries: int = 0
    retry_overdue: float = 0.0
    ended: str = ""
    own: OwnConsumer | None = None


@dataclass(frozen=True)
class HorizonHolder:
    """A transaction or slot that keeps old snapshots alive.

    age -- seconds; None: unknown.  xids -- transactions since its start.
    writes -- ticks since its start have it in their snapshot, so tables cannot rotate past it.
    """

    name: str
    age: float | None
    xids: int | None
    writes: bool
    remedy: str


@dataclass(frozen=True)
class MonitorFacts:
    """A database.

    ticker_sessions -- connected Londiste tickers; other programs may create ticks, too.
    ticker_errors -- what tickers that run cannot do at present.
    queue_locks -- transactions with a lock on pgq.queue, which may be that of a row.
    commit_waits -- seconds for which a commit waits for a synchronous standby; None: none does.
    excess -- roles that can write what is for administrators.
    unseen -- facts that this user may not see.
    place -- the option that leads a command there.
    """

    database: str
    queues: tuple[QueueFacts, ...] = ()
    consumers: tuple[ConsumerFacts, ...] = ()
    holders: tuple[HorizonHolder, ...] = ()
    ticker_sessions: int = 1
    ticker_errors: tuple[str, ...] = ()
    queue_locks: tuple[LockHolder, ...] = ()
    commit_waits: float | None = None
    excess: tuple[Excess, ...] = ()
    unseen: tuple[str, ...] = ()
    place: str = "--db DSN"


@dataclass(frozen=True)
class Limits:
    """Limits above which a fact is a finding, in seconds unless noted.

    grace -- added to what a queue's own periods allow before its ticker counts as late.
    lag -- of a consumer; ten times that is critical.
    inactive -- since a consumer opened or finished a batch.
    batch -- a cooperative consumer holds its batch.
    transaction -- age of a transaction.
    retry -- a retry is overdue.
    slot -- transactions a replication slot holds.
    rotation -- in rotation periods.
    """

    grace: float = 30.0
    lag: float = 600.0
    inactive: float = 3600.0
    batch: float = 900.0
    transaction: float = 900.0
    retry: float = 120.0
    slot: int = 10_000_000
    rotation: float = 2.0


@dataclass(frozen=True)
class Finding:
    """A problem that monitoring has found.

    kind -- stable word for programs; queue, consumer -- its object, empty for all.
    side -- of ``londiste doctor``, like the following: the database that it is about;
    object -- table, role, …; sql -- the statements that fix it there; admin -- they need an
    administrator; command -- the command that fixes it.
    """

    severity: Severity
    kind: str
    what: str
    why: str
    do: str
    queue: str = ""
    consumer: str = ""
    side: str = ""
    object: str = ""
    sql: tuple[str, ...] = ()
    admin: bool = False
    command: str = ""


@dataclass(frozen=True)
class Speed:
    """Rates between two samples of a database.

    produced, consumed -- events per second, by queue and by (queue, consumer).
    """

    seconds: float
    produced: dict[str, float] = field(default_factory=dict)
    consumed: dict[tuple[str, str], float] = field(default_factory=dict)
