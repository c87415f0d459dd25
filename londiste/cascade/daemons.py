"""Whether daemons run: from their signs of life to a word about each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from londiste.cascade.model import NodeInfo, NodeType
from londiste.daemon.durations import dhms
from londiste.db.advisory_lock import job_holder
from londiste.db.connection import Connection
from londiste.db.queries import first
from londiste.dsn import db_option
from londiste.errors import InstallError
from londiste.pgq import liveness
from londiste.pgq.liveness import Daemon

#: Seconds that a daemon has to open a new session before it counts as ended.
RECONNECT = 5.0
#: Seconds for which a consumer may work on one batch without a sign of life.
CONSUMER_BATCH = 900.0


class Life(StrEnum):
    """State of a daemon.

    BUSY -- no report for a while, but the server works for it.
    HUNG -- its session is open, and it does nothing: stopped by a signal, or out of reach.
    GONE -- its session has ended without a word.  STOPPED -- it ended as requested.
    NEVER -- it has never reported in this database.  UNKNOWN -- the schemas are older.
    """

    ALIVE = "alive"
    BUSY = "busy"
    HUNG = "hung"
    GONE = "gone"
    STOPPED = "stopped"
    NEVER = "never"
    UNKNOWN = "unknown"

    @property
    def runs(self) -> bool:
        """Whether it works, as far as is known."""
        return self in (Life.ALIVE, Life.BUSY, Life.UNKNOWN)


@dataclass(frozen=True)
class Running:
    """A daemon in ``status``, or a standby that a worker reads from: then name is its place.

    since -- last sign of life of one that does not run.
    worked_ago -- seconds since its last batch or tick.
    fetch_seconds, apply_seconds -- of its last batch.
    start -- command that starts it.  error -- what it cannot do at present.
    session -- of a worker that has not reported, but holds the lock of the node's worker.
    """

    kind: str
    name: str
    life: Life
    host: str = ""
    pid: int | None = None
    version: str = ""
    started: datetime | None = None
    since: datetime | None = None
    seen_ago: float | None = None
    worked_ago: float | None = None
    fetch_seconds: float | None = None
    apply_seconds: float | None = None
    start: str = ""
    error: str = ""
    session: str = ""

    @property
    def text(self) -> str:
        """One line: ``worker: alive, applied 2s ago (host, pid 12)``."""
        if self.kind == STANDBY:
            return self._of_standby()
        place = f" ({self.host}, pid {self.pid})" if self.pid else ""
        if self.session:
            return (
                f"{self.kind}: alive, has not reported: an older program, or it starts"
                f" ({self.session}); start no second one"
            )
        match self.life:
            case Life.ALIVE | Life.BUSY:
                did = ""
                if self.worked_ago is not None:
                    did = f", {_VERBS.get(self.kind, 'worked')} {dhms(self.worked_ago)} ago"
                trouble = f", FAILING: {self.error}" if self.error else ""
                return f"{self.kind}: {self.life}{did}{trouble}{place}"
            case Life.HUNG:
                seen = dhms(self.seen_ago or 0.0)
                return (
                    f"{self.kind}: HUNG, connected but silent for {seen}{place}; check the process"
                )
            case Life.UNKNOWN:
                return f"{self.kind}: unknown, the SQL of this node reports no daemons"
            case _:
                since = "" if self.since is None else f" since {_clock(self.since)}"
                never = " (never reported here)" if self.life is Life.NEVER else place
                return f"{self.kind}: NOT RUNNING{since}{never}; start it: {self.start}"

    @property
    def do(self) -> str:
        """What to do when it does not run, or hangs: a second one would be refused."""
        if self.life is not Life.HUNG or self.pid is None:
            return self.start
        again = f", then {self.start}" if self.start else ""
        return f"on {self.host}: kill -CONT {self.pid}; or kill -9 {self.pid}{again}"

    def _of_standby(self) -> str:
        if self.error:
            return f"standby {self.name}: NOT READ: {self.error}"
        ago = "" if self.worked_ago is None else f", read {dhms(self.worked_ago)} ago"
        return f"standby {self.name}: batches are read from it{ago}"


#: Kind of the line about a standby that a worker reads from.
STANDBY = "standby"
_VERBS = {"worker": "applied", "ticker": "ticked", "audit": "compared"}
#: States in which another process may be the worker, one that does not report.
_NOT_SEEN = (Life.NEVER, Life.GONE, Life.STOPPED)
#: Commands of daemons that are shown once they have reported, until they are stopped.
STARTS = {"notify": "londiste notify", "audit": "londiste compare --continuous"}


def start_worker(node: str) -> str:
    """Pure: what starts the worker of a node whose settings file is not known here."""
    return f"londiste -c FILE worker (settings of node {node})"


def judge(one: Daemon, *, patience: float = 0.0) -> Life:
    """Pure: the state of a daemon.

    patience -- seconds that it may be silent in any case: it works on something large.
    """
    if one.stopped is not None:
        return Life.STOPPED
    silent = one.seen_age
    if one.has_session and one.session_age is not None:
        silent = min(silent, one.session_age)
    if one.has_session is False:
        return Life.ALIVE if silent <= RECONNECT else Life.GONE
    # An audit is silent while it reads a table, and between two ranges.
    if one.kind == "audit" or silent <= max(liveness.MISSED * one.period, patience):
        return Life.ALIVE
    return Life.BUSY if one.is_executing else Life.HUNG


def newest(
    daemons: Iterable[Daemon], kind: str, *, name: str | None = None, patience: float = 0.0
) -> tuple[Life, Daemon | None]:
    """Pure: the daemon of a kind that is best alive, the last seen of several."""
    found = [(judge(d, patience=patience), d) for d in daemons if d.kind == kind]
    found = [(life, d) for life, d in found if name is None or d.name == name]
    if not found:
        return Life.NEVER, None
    return min(found, key=lambda pair: (not pair[0].runs, pair[1].seen_age))


def running(
    daemons: Sequence[Daemon] | None,
    kind: str,
    *,
    name: str | None = None,
    start: str = "",
    patience: float = 0.0,
) -> Running:
    """Pure: the line of ``status`` about a daemon; ``daemons`` None: older schemas."""
    if daemons is None:
        return Running(kind, name or "", Life.UNKNOWN, start=start)
    life, one = newest(daemons, kind, name=name, patience=patience)
    if one is None:
        return Running(kind, name or "", life, start=start)
    return Running(
        kind,
        one.name,
        life,
        one.host,
        one.pid,
        one.version,
        one.started,
        None if life.runs else one.stopped or one.seen,
        one.seen_age,
        one.worked_age,
        one.fetch_seconds,
        one.apply_seconds,
        start,
        one.error or "",
    )


def worker(
    conn: Connection,
    queue: str,
    daemons: Sequence[Daemon] | None,
    *,
    name: str,
    start: str,
    patience: float = 0.0,
) -> Running:
    """The line of ``status`` about the worker of this database's node.

    A worker of an older program reports nothing: the session that holds its lock shows that it
    runs.
    """
    line = running(daemons, "worker", name=name, start=start, patience=patience)
    if line.life not in _NOT_SEEN:
        return line
    holder = job_holder(conn, f"worker {queue}")
    if holder is None or not holder.entitled:
        return line
    return Running("worker", name, Life.ALIVE, start=start, session=holder.text)


def ticker(conn: Connection, daemons: Sequence[Daemon] | None, *, start: str = "") -> Running:
    """The line of ``status`` about the ticker of this database.

    Tickers of one role and host share their report: one that stops says so for another that runs.
    """
    line = running(daemons, "ticker", start=start)
    if line.life not in (Life.GONE, Life.STOPPED):
        return line
    row = first(conn, "ticker_sessions")
    if row is None or not row[0]:
        return line
    return Running("ticker", "", Life.ALIVE, start=start, session="its session is open")


def find(conn: Connection, queue: str | None = None) -> list[Daemon] | None:
    """The daemons that have reported in a database; None with older schemas."""
    try:
        return liveness.get_daemons(conn, queue)
    except InstallError:
        return None


def _clock(moment: datetime) -> str:
    local = moment.astimezone()
    if local.date() == datetime.now().astimezone().date():
        return f"{local:%H:%M:%S}"
    return f"{local:%Y-%m-%d %H:%M}"


def of_node(
    conn: Connection, queue: str, info: NodeInfo, *, patience: float
) -> tuple[Running, ...]:
    """The worker, the ticker where there is a queue, and other daemons that do not run.

    patience -- seconds for which a silent worker counts as running in any case.
    """
    found = find(conn, queue)
    start = start_worker(info.name)
    lines = [worker(conn, queue, found, name=info.worker, start=start, patience=patience)]
    ticks = ticker(conn, found, start=f"londiste ticker {db_option(conn.info.dsn)}")
    # Another program may create the ticks; that they come is checked by their age.
    if info.type is not NodeType.LEAF and ticks.life not in (Life.NEVER, Life.UNKNOWN):
        lines.append(ticks)
    for one in found or ():
        # A copy that has ended is started again by the worker; one that hangs is not.
        if one.kind == "copy" and judge(one) not in (Life.GONE, Life.STOPPED):
            lines.append(running([one], "copy"))
        elif one.kind == STANDBY and judge(one, patience=patience).runs:
            lines.append(replace(running([one], one.kind, patience=patience), name=one.part))
        elif one.kind in STARTS and judge(one) is not Life.STOPPED:
            lines.append(running([one], one.kind, start=STARTS[one.kind]))
    return tuple(lines)
