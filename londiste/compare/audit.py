"""Continuous comparison (``compare --continuous``): one range at a time, in a share of the time.

Each range has a tick and snapshots of its own, so the root keeps old row versions for no longer
than reading a range takes.  Ranges and results are in this node's database; the range that
was compared longest ago is next, so a new process continues where the last one ended.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from londiste.compare import chunks
from londiste.compare import recheck as rows
from londiste.compare import sqlapi as progress
from londiste.compare.checksum import Piece, compare
from londiste.compare.column_pairing import Pairing
from londiste.compare.compare import both_sides, drill_task, moved
from londiste.compare.context import Asked, Parties, choose, meet, pair_up, require_one_source
from londiste.compare.result import as_json
from londiste.compare.row_diff import drill, narrow
from londiste.daemon.loop import pause
from londiste.daemon.signals import Signals
from londiste.db.connection import session
from londiste.db.names import argument
from londiste.errors import StateError
from londiste.settings import WorkerSettings

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


def coverage(settings: WorkerSettings, wanted: Sequence[str] = ()) -> list[Coverage]:
    """Coverage of this node's audits, by table."""
    with session(settings.db, name="londiste compare", autocommit=True) as conn:
        names = [str(t.name) for t in choose(settings, conn, wanted)]
        ranges = progress.compare_ranges(conn, settings.queue_name, progress.AUDIT)
    return [summed(name, [r for r in ranges if r.table_name == name]) for name in names]


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


def run(
    settings: WorkerSettings,
    asked: Asked,
    *,
    share: float,
    once: bool,
    say: Callable[[str], None],
) -> None:
    """Audits until a signal; ``once``: until every range was compared.

    share -- part of the time that is spent reading.
    """
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(Signals().handled())
        started: datetime | None = None
        failures = 0
        while not signals.stopping:
            began = time.monotonic()
            try:
                started, more = _step(settings, asked, started, once=once, say=say)
                failures = 0
            except StateError as error:
                # The worker lags or is stopped: the audit leaves the servers to it.
                if once:
                    raise
                failures += 1
                say(f"{error}; will retry")
                signals.wait(pause(failures))
                continue
            if not more:
                return
            took = time.monotonic() - began
            if not (once and share == 1.0):
                signals.wait(max(_SHORTEST if not once else 0.0, took / share - took))


def _step(
    settings: WorkerSettings,
    asked: Asked,
    started: datetime | None,
    *,
    once: bool,
    say: Callable[[str], None],
) -> tuple[datetime, bool]:
    """Compares one range, or splits a table: (start of the round, whether work is left)."""
    queue = settings.queue_name
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(session(settings.db, name="londiste compare", autocommit=True))
        if started is None:
            row = conn.execute("select clock_timestamp()").fetchone()
            assert row is not None
            started = row[0]
        chosen = {str(t.name): t for t in choose(settings, conn, asked.tables)}
        require_one_source(conn, queue, list(chosen.values()))
        ranges = progress.compare_ranges(conn, queue, progress.AUDIT)
        found = next_range(list(chosen), ranges, started if once else None)
        if found is None:
            return started, False
        name, one = found
        parties = stack.enter_context(meet(settings, conn, [chosen[name]], lambda text: None))
        with session(parties.root_dsn, name="londiste compare", autocommit=True) as root:
            table = pair_up(root, conn, chosen[name], asked, parties.held)
            fits = one is not None and one.signature == progress.signature(table)
            # A round of the table is over: the table may have outgrown its ranges.
            mine = [r for r in ranges if r.table_name == name]
            whole = all(r.checked_at is not None for r in mine)
            if one is None or not fits or (whole and one.number == 0 and not once):
                cut = chunks.cut(root, conn, table, force_ranges=True)
                if one is None or not fits or len(cut) != len(mine):
                    conditions = [(piece.condition, piece.buckets) for piece in cut]
                    progress.compare_begin(conn, queue, progress.AUDIT, [(table, conditions)])
                    return started, True
        count = _look(parties, conn, asked, Piece(table, one.number, one.condition, one.buckets))
        if count:
            say(f"table {name}: {count} rows differ; londiste compare {argument(name)}")
    return started, True


def _look(parties: Parties, conn: Any, asked: Asked, piece: Piece) -> int:
    """Compares one range and stores the result.  Returns the number of differing rows."""
    table: Pairing = piece.table
    with parties.aligned(asked.timeout) as at:
        (result,) = compare(at, [piece], parties.engine, 2)
        drilled = None
        if not result.moved and (result.differing or table.masked):
            (result,) = narrow(at, [result], parties.engine, 2)
            (drilled,) = parties.engine.run(drill, [drill_task(at, result, asked.limit)], 1)
        tick = at.tick_id
    if result.moved or (drilled is not None and drilled.moved):
        # It stays the oldest, and comes next.
        return 0
    differences = []
    if drilled is not None and drilled.suspects:
        with parties.aligned(asked.timeout) as at, both_sides(at) as (root, node):
            differences = rows.look(root, node, table, drilled.suspects)
            if moved(root, node, table):
                return 0
            tick = at.tick_id
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
        tick=tick,
        rows=result.rows_root,
        differs=len(differences),
        findings=findings,
    )
    return len(differences)
