"""Continuous comparison (``compare --continuous``): one range at a time, in a share of the time.

Each range has a tick and snapshots of its own, so the root keeps old row versions for no longer
than reading a range takes.  Ranges and results are in this node's database; the range that
was compared longest ago is next, so a new process continues where the last one ended.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import psycopg

from londiste.changes.row_values import stored_error
from londiste.compare import chunks
from londiste.compare import recheck as rows
from londiste.compare import sqlapi as progress
from londiste.compare.checksum import Piece, compare
from londiste.compare.column_pairing import Pairing, require_columns
from londiste.compare.compare import both_sides, drill_task, moved
from londiste.compare.context import (
    Asked,
    Parties,
    choose,
    meet,
    open_session,
    pair_up,
    ready,
    require_one_source,
)
from londiste.compare.diff import EXTRA, RowDifference
from londiste.compare.result import as_json, first_of
from londiste.compare.row_diff import drill, narrow
from londiste.daemon.loop import Loop, Trouble, as_londiste, pause, report
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection, connect, usable
from londiste.db.names import argument
from londiste.errors import LondisteError
from londiste.pgq.liveness import Beat, read_only, server_now
from londiste.replication import coverage as recent
from londiste.replication.coverage import Audited
from londiste.replication.forwarding.combined_queue import others_filling
from londiste.replication.model import ReplicatedTable
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)

#: Findings of a range that are kept.
_KEPT = 100
#: Minimum seconds between ranges, so that small tables do not cause constant ticks.
_SHORTEST = 1.0


@dataclass(frozen=True)
class Coverage:
    """Coverage of one table.

    compared -- ranges compared since the table was split into them.
    oldest -- time of the oldest of those comparisons.
    rows -- of the root in the compared ranges; differing -- of them, those that differ.
    """

    table: str
    ranges: int
    compared: int
    oldest: datetime | None
    rows: int
    differing: int
    findings: tuple[dict[str, Any], ...]


def coverage(
    settings: WorkerSettings, wanted: Sequence[str] = ()
) -> tuple[list[Coverage], Audited | None]:
    """Coverage of this node's tables by the audit: by table, and together; None: no audit ran."""
    with open_session(settings) as conn:
        names = [str(t.name) for t in choose(settings, conn, wanted)]
        ranges = progress.compare_ranges(conn, settings.queue_name, progress.AUDIT)
        found = [t for t in recent.read(conn, settings.queue_name) if t.table_name in names]
        if ranges:
            # Not those that other sources fill too: no row of them is known to differ.
            covered = {t.table_name for t in found}
            names = [name for name in names if name in covered]
    by_table = [summed(name, [r for r in ranges if r.table_name == name]) for name in names]
    return by_table, recent.summed(found) if found else None


def summed(table: str, ranges: Sequence[progress.ComparedRange]) -> Coverage:
    """The coverage of one table, from its ranges."""
    seen = [r.checked_at for r in ranges if r.checked_at is not None]
    return Coverage(
        table,
        len(ranges),
        len(seen),
        min(seen, default=None),
        sum(r.rows or 0 for r in ranges),
        sum(r.differs or 0 for r in ranges),
        tuple(finding for r in ranges for finding in r.findings or ()),
    )


def next_range(
    tables: Sequence[str], ranges: Sequence[progress.ComparedRange], since: datetime | None
) -> tuple[str, progress.ComparedRange | None] | None:
    """The next (table, range) to compare; no range: the table has to be split first.

    since -- ranges compared after it are done; None: the round never ends.
    """
    known = {r.table_name for r in ranges}
    for table in tables:
        if table not in known:
            return table, None
    left = [r for r in ranges if r.table_name in tables]
    if since is not None:
        left = [r for r in left if r.checked_at is None or r.checked_at < since]
    if not left:
        return None
    # Not yet at all, or the longest ago.
    one = min(left, key=lambda r: (r.checked_at is not None, r.checked_at or r.begun_at, r.number))
    return one.table_name, one


def outgrown(ranges: Sequence[progress.ComparedRange], now: int) -> bool:
    """Pure: whether a table has to be split again, which deletes the results of its ranges.

    now -- number of ranges that fit its size.
    """
    fits = len(ranges) < 2 * now and now < 2 * len(ranges)
    # A known difference stays known until its range is compared again.
    return not fits and not any(r.differs for r in ranges)


def once(
    settings: WorkerSettings, asked: Asked, *, share: float, say: Callable[[str], None]
) -> bool:
    """Compares every range once; False if a signal stopped it before.

    share -- part of the time that is spent reading.

    The error of a table is raised when the others are compared.
    """
    failed: dict[str, LondisteError] = {}
    with contextlib.closing(Signals()) as signals, signals.handled():
        started: datetime | None = None
        while not signals.stopping:
            began = time.monotonic()
            with open_session(settings) as conn:
                if started is None:
                    started = server_now(conn)
                following = _following(settings, conn, asked, started, failed)
                if following is None or str(following.table.name) in failed:
                    if failed:
                        raise first_of(failed, say)
                    return True
                try:
                    _advance(settings, conn, asked, following, started, say)
                except LondisteError as error:
                    if error.retry:
                        raise
                    failed[str(following.table.name)] = error
                    _unknown(settings, conn, following)
            took = time.monotonic() - began
            if share < 1.0:
                signals.wait(took / share - took)
        return False


@dataclass
class _Failing:
    """Failures of a table in a row, and when it is compared again (monotonic)."""

    trouble: Trouble = field(default_factory=Trouble)
    next: float = 0.0


class Audit:
    """The daemon: compares range after range until a stop is requested, and retries after errors.

    A table that cannot be compared does not stop the others.

    share -- part of the time that is spent reading.
    """

    def __init__(
        self, settings: WorkerSettings, asked: Asked, signals: Signals, *, share: float
    ) -> None:
        self._settings = settings
        self._asked = asked
        self._share = share
        self._conn: Connection | None = None
        self._failing: dict[str, _Failing] = {}
        self._beat = Beat("audit", settings.queue_name, settings.job_name)
        # A worker that lags or is stopped is an error: the audit leaves the servers to it.
        self._loop = Loop(
            self._unit,
            signals=signals,
            longest_pause=settings.max_retry_delay,
            recover=self._failed,
        )

    def run(self) -> None:
        """Runs until a stop is requested."""
        try:
            self._loop.run()
        finally:
            with contextlib.suppress(LondisteError, psycopg.Error):
                self._beat.stop(self._conn)
            self._close()

    def _unit(self) -> bool:
        began = time.monotonic()
        if self._conn is None or read_only(self._conn):
            self._close()
            self._conn = connect(
                self._settings.db,
                name="londiste compare",
                autocommit=True,
                silent_seconds=self._settings.answer_seconds,
            )
        self._beat.beat(self._conn)
        later = {name for name, one in self._failing.items() if began < one.next}
        following = _following(self._settings, self._conn, self._asked, None, later)
        if following is None:
            return False
        # Other tables are being copied, or were removed.
        self._failing = {n: one for n, one in self._failing.items() if n in following.names}
        name = str(following.table.name)
        try:
            _advance(self._settings, self._conn, self._asked, following, None, log.warning)
        except (LondisteError, psycopg.Error) as error:
            ours = as_londiste(error)
            if ours is not error:
                ours.__cause__ = error
            # Log, status and notifications are read by others than those who may read the table.
            ours.message, ours.detail = stored_error(ours), ""
            if ours.retry:
                raise ours from ours.__cause__
            if name not in ours.message:
                ours.message = f"table {name}: {ours.message}"
            self._rest(began)
            self._postpone(name, ours)
            _unknown(self._settings, self._conn, following)
        else:
            self._beat.worked(apply=self._rest(began))
            if name in self._failing:
                self._failing.pop(name).trouble.over()
        self._beat.error = next((one.trouble.message for one in self._failing.values()), "")
        self._beat.beat(self._conn)
        return False

    def _rest(self, began: float) -> float:
        """Sets the pause after a unit of work; returns the seconds that the unit took."""
        took = time.monotonic() - began
        self._loop.delay = max(_SHORTEST, took / self._share - took)
        return took

    def _postpone(self, name: str, error: LondisteError) -> None:
        """Logs why a table cannot be compared; the others come first for some time."""
        one = self._failing.setdefault(name, _Failing())
        if one.trouble.failed(error):
            report(error, one.trouble)
        delay = pause(one.trouble.failures, longest=self._settings.max_retry_delay)
        # The next unit of work is for another table in any case.
        one.next = time.monotonic() + self._loop.delay + delay

    def _failed(self, error: LondisteError) -> None:
        """Reports what the audit cannot do, in a session that still works."""
        self._beat.error = error.message
        if usable(self._conn):
            with contextlib.suppress(LondisteError, psycopg.Error):
                self._beat.beat(self._conn)
        else:
            self._close()

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


@dataclass(frozen=True)
class _Following:
    """The next table.

    ranges -- all of it.  one -- the next of them; None: it has to be split.
    names -- tables that can be compared now.
    """

    table: ReplicatedTable
    names: Collection[str]
    ranges: Sequence[progress.ComparedRange]
    one: progress.ComparedRange | None


def _following(
    settings: WorkerSettings,
    conn: Connection,
    asked: Asked,
    since: datetime | None,
    later: Collection[str] = (),
) -> _Following | None:
    """The next range; None if all are done.

    since -- ranges that were compared after it are done, and every table must be comparable;
        None: the round never ends, and tables that cannot be compared now come later.
    later -- tables that come after all others.
    """
    queue = settings.queue_name
    strict = since is not None or bool(asked.tables)
    found = choose(settings, conn, asked.tables) if strict else ready(settings, conn)
    if strict:
        require_one_source(conn, queue, found)
    chosen = {str(t.name): t for t in found}
    ranges = progress.compare_ranges(conn, queue, progress.AUDIT)
    while chosen:
        names = [name for name in chosen if name not in later] or list(chosen)
        following = next_range(names, ranges, since)
        if following is None:
            return None
        name, one = following
        if strict or not others_filling(conn, queue, name, chosen[name].dest):
            mine = [r for r in ranges if r.table_name == name]
            return _Following(chosen[name], chosen.keys(), mine, one)
        del chosen[name]
    # Several sources fill all tables; the error names one of them.
    require_one_source(conn, queue, found)
    return None


def _advance(
    settings: WorkerSettings,
    conn: Connection,
    asked: Asked,
    following: _Following,
    since: datetime | None,
    say: Callable[[str], None],
) -> None:
    """Compares the next range, or splits the table.  Raises StateError if it lacks columns."""
    name, one = str(following.table.name), following.one
    with contextlib.ExitStack() as stack:
        parties = stack.enter_context(meet(settings, conn, [following.table], lambda text: None))
        with open_session(settings, parties.root_dsn) as root:
            table = pair_up(
                root,
                conn,
                following.table,
                asked,
                parties.held,
                queue=parties.queue,
                warn=one is None,
            )
            fits = one is not None and one.signature == progress.signature(table)
            # A round of the table is over: the table may have outgrown its ranges.
            whole = all(r.checked_at is not None for r in following.ranges)
            if one is None or not fits or (whole and one.number == 0 and since is None):
                cut = chunks.cut(root, conn, table, force_ranges=True)
                if one is None or not fits or outgrown(following.ranges, len(cut)):
                    conditions = [(piece.condition, piece.buckets) for piece in cut]
                    begun = [(table, conditions)]
                    progress.compare_begin(conn, parties.queue, progress.AUDIT, begun)
                    return
        require_columns(table)
        count = _look(parties, conn, asked, Piece(table, one.number, one.condition, one.buckets))
        if count:
            say(f"table {name}: {count} rows differ; londiste repair {argument(name)}")


def _unknown(settings: WorkerSettings, conn: Connection, following: _Following) -> None:
    """Stores that the range, which could not be compared, is no longer known to be equal."""
    if following.one is not None and usable(conn):
        with contextlib.suppress(LondisteError, psycopg.Error):
            progress.compare_failed(conn, settings.queue_name, following.one)


@dataclass(frozen=True)
class _Differences:
    """What differs in a range at a tick.

    rows -- of the root.  more -- the limit left rows out that differed at first.
    """

    tick: int
    rows: int
    found: Sequence[RowDifference]
    more: bool


def _differences(parties: Parties, asked: Asked, piece: Piece, limit: int) -> _Differences | None:
    """The first ``limit`` rows that differ at two ticks; None when DDL moved the rows."""
    table: Pairing = piece.table
    with parties.aligned(asked.timeout) as at:
        (result,) = compare(at, [piece], parties.engine, 2)
        drilled = None
        if not result.moved and (result.differing or table.masked):
            (result,) = narrow(at, [result], parties.engine, 2)
            task = replace(drill_task(at, result, limit), extra=not table.pair.beside)
            (drilled,) = parties.engine.run(drill, [task], 1)
        tick = at.tick_id
    if result.moved or (drilled is not None and drilled.moved):
        return None
    found: Sequence[RowDifference] = ()
    if drilled is not None and drilled.suspects:
        with parties.aligned(asked.timeout) as at, both_sides(at) as (root, node):
            found = rows.look(root, node, table, drilled.suspects)
            if table.pair.beside:
                found = [one for one in found if one.kind != EXTRA]
            if moved(root, node, table):
                return None
            tick = at.tick_id
    more = drilled is not None and drilled.more
    return _Differences(tick, result.rows_root, found, more)


def _look(parties: Parties, conn: Connection, asked: Asked, piece: Piece) -> int:
    """Compares one range and stores the result.  Returns the number of differing rows."""
    table: Pairing = piece.table
    limit = asked.limit
    while True:
        seen = _differences(parties, asked, piece, limit)
        if seen is None:
            # It stays the oldest, and comes next.
            return 0
        if seen.found or not seen.more:
            break
        # The rows up to the limit became equal meanwhile; those behind it may differ.
        limit *= 4
    differences = seen.found
    findings = []
    for difference in differences[:_KEPT]:
        facts = as_json(table, difference)
        # Values stay in the tables.
        findings.append({"kind": facts["kind"], "key": facts["key"]})
    progress.compare_done(
        conn,
        parties.queue,
        progress.AUDIT,
        table.name,
        piece.number,
        tick=seen.tick,
        rows=seen.rows,
        differs=len(differences),
        findings=findings,
    )
    return len(differences)
