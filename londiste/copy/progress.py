"""Progress of running copies: rows, bytes and remaining time.

Finished chunks are recorded in the copy's tables; chunks in flight are in the server's
pg_stat_progress_copy.  So any process can read the progress, on any engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from londiste.copy.sqlapi.attempts import Attempt, copy_progress
from londiste.copy.step_timings import Tally
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import TransientError
from londiste.replication import sqlapi as tables

#: Bytes of the text of a row for a byte of it on disk, until the first chunk tells.
_TEXT_PER_DISK = 0.75


@dataclass(frozen=True)
class ChunkTimes:
    """The finished chunks of a table: their number, and bytes and seconds of all together."""

    count: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Bytes per second of one task; 0 when unknown."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


def remaining(done: ChunkTimes, left: float, running: int) -> float | None:
    """Seconds for the chunks that are left, at the mean of the finished ones; None without any.

    left -- chunks, those in flight as the fraction that is still to come.
    running -- tasks at work now; taken for the number from now on.
    """
    if done.count < 1:
        return None
    return left * done.seconds / done.count / max(1, running)


@dataclass(frozen=True)
class InFlight:
    """Progress of the COPY commands that write one table now."""

    rows: int = 0
    bytes: int = 0
    running: int = 0


@dataclass(frozen=True)
class Progress:
    """Progress of one running copy.

    rows, bytes -- moved, those in flight included.
    total_bytes -- estimate of the bytes to move; more precise once a chunk is finished.
    total_rows -- estimate of the source's statistics, 0 when unknown.
    chunks, running, total_chunks -- finished, in flight, all.
    seconds -- since the copy began.
    rate -- bytes per second of all tasks together, None when unknown.
    eta -- seconds until all rows are copied, None when unknown.
    eta_low, eta_high -- always None; kept for programs that read ``--json``.
    """

    table: str
    rows: int
    bytes: int
    total_bytes: int
    total_rows: int
    chunks: int
    running: int
    total_chunks: int
    seconds: float
    rate: float | None
    eta: float | None
    eta_low: float | None = None
    eta_high: float | None = None

    @property
    def fraction(self) -> float:
        """0 to 1."""
        return min(1.0, self.bytes / self.total_bytes) if self.total_bytes else 0.0


def read(conn: Connection, queue: str) -> list[Progress]:
    """Reads the progress of the copies into this node's tables."""
    running = copy_progress(conn, queue)
    if not running:
        return []
    dests = {str(t.name): t.dest for t in tables.get_table_list(conn, queue)}
    flying = _in_flight(conn)
    times = copy_chunk_times(conn, queue)
    return [
        progress(
            attempt,
            flying.get(dests.get(attempt.table, TableName("", "")), InFlight()),
            times.get(attempt.table),
        )
        for attempt in running
    ]


def progress(attempt: Attempt, flying: InFlight, times: ChunkTimes | None = None) -> Progress:
    """Adds finished and running chunks, and estimates the rest."""
    moved = attempt.bytes + flying.bytes
    if attempt.chunks:
        total = attempt.bytes * attempt.total_chunks // attempt.chunks
    else:
        total = int(attempt.total_bytes * _TEXT_PER_DISK)
    total = max(total, moved)
    left: float | None = None
    rate: float | None = None
    if times is not None and times.bytes:
        pieces = attempt.total_chunks - attempt.chunks - flying.bytes * times.count / times.bytes
        left = remaining(times, max(0.0, pieces), flying.running)
        rate = times.rate * max(1, flying.running)
    elif moved and attempt.seconds > 0:
        rate = moved / attempt.seconds
        left = (total - moved) / rate
    return Progress(
        table=attempt.table,
        rows=attempt.rows + flying.rows,
        bytes=moved,
        total_bytes=total,
        total_rows=attempt.total_rows,
        chunks=attempt.chunks,
        running=flying.running,
        total_chunks=attempt.total_chunks,
        seconds=attempt.seconds,
        rate=rate,
        eta=left,
    )


def copy_chunk_times(conn: Connection, queue: str) -> dict[str, ChunkTimes]:
    """Durations of the finished chunks of running copies, by table name."""

    def times(
        table: str, count: int, size: int, seconds: float, _: float
    ) -> tuple[str, ChunkTimes]:
        return table, ChunkTimes(count, size, seconds)

    return dict(call.records(conn, times, "londiste.copy_chunk_times", queue))


def all_done(conn: Connection, queue: str, table: TableName, attempt: int) -> Tally:
    """Checks that all chunks of an attempt are there.  Returns their rows, bytes and time.

    To be called in the transaction that stores the end of the load.  Chunks are committed
    without waiting for the disk, so a server that crashes may lose the last of them, each with its
    done-mark, although their tasks have ended well.  So the marks decide, not the tasks; and once
    that transaction, which does wait, is on disk, so is all that it has seen: a commit that was
    seen lies in front of it in the WAL.

    Raises TransientError when marks are missing: the attempt starts over, or continues.
    """
    times = copy_chunk_times(conn, queue).get(str(table), ChunkTimes(0, 0, 0.0))
    for found in copy_progress(conn, queue):
        if found.table == str(table) and found.attempt == attempt:
            if found.chunks < found.total_chunks:
                raise TransientError(
                    f"table {table}: copy {attempt} lost chunks: {found.chunks} of"
                    f" {found.total_chunks} are left",
                    detail="the server of this node crashed during the copy",
                    hint="wait: the copy continues automatically",
                )
            return Tally(times.count, times.seconds, found.rows, times.bytes)
    return Tally()


def _in_flight(conn: Connection) -> dict[TableName, InFlight]:
    return {
        TableName(schema, name): InFlight(*counts)
        for schema, name, *counts in tuples(conn, "copy_in_flight")
    }


def time_left(item: Progress) -> str:
    """The remaining time, for messages; '' when unknown."""
    return "" if item.eta is None else f"about {item.eta:.0f} s"


def brief(item: Progress) -> str:
    """One copy in a few words: rows, bytes and the remaining time."""
    left = time_left(item)
    return f"{item.rows} rows, {item.bytes / 1e6:.1f} of {item.total_bytes / 1e6:.1f} MB" + (
        f", {left} left" if left else ""
    )


def line(item: Progress) -> str:
    """One copy as a line of the log."""
    left = time_left(item)
    rate = "" if item.rate is None else f", {item.rate / 1e6:.1f} MB/s"
    return (
        f"{item.table}: {item.rows} rows, {item.bytes / 1e6:.1f} of about"
        f" {item.total_bytes / 1e6:.1f} MB, {item.fraction:.0%},"
        f" chunks {item.chunks}+{item.running}/{item.total_chunks}{rate}"
        + (f", {left} left" if left else "")
    )
