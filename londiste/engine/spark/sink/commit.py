"""Commit of an epoch, in the driver: one transaction with its record.

Spark repeats a commit whose outcome it does not know; the record shows that the epoch is written,
and nothing is written twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

import psycopg

from londiste.daemon import crash
from londiste.db.connection import Connection, session
from londiste.db.queries import translated
from londiste.engine.spark.sink.event_rows import Given
from londiste.engine.spark.sink.options import Common
from londiste.engine.spark.sink.stage import StagedMessage, StagedRows, staged_table
from londiste.errors import LondisteError, StateError, TransientError
from londiste.pgq import spark_epochs

log = logging.getLogger(__name__)

#: Writes chunks in the open transaction.
Write = Callable[[Connection, list[tuple[StagedRows, Given]]], None]

#: The text of a chunk that came with the message of its task; ``$2`` is of no use.
_INLINE = "(select t.rows from (values ($1::text, $2::text)) as t (rows, nothing))"


def write(
    options: Common,
    target: str,
    attempt: UUID,
    messages: Sequence[StagedMessage | None],
    epoch: int | None,
    do: Write,
    *,
    replica: bool = False,
) -> None:
    """Writes an epoch, or finds that it is in.

    epoch -- None: that of a job, which has one only.
    do -- writes its chunks, in the order of the tasks.

    Raises what ``sinks.is_new`` and ``do`` raise; then nothing is written.
    """
    crash.arm()
    staged = sorted((m for m in messages if m is not None), key=lambda m: m.partition)
    queries = {m.query for m in staged}
    name = options.name or (next(iter(queries), "") if epoch is not None else "")
    if epoch is not None and staged and not name:
        raise StateError(
            "no query ID from Spark: the sink has no name",
            hint="set a name: .option('sinkId', 'shop_orders')",
        )
    rows = sum(m.count for m in staged)
    if rows or (options.name and epoch is None):
        with session(
            options.conninfo,
            name="londiste-spark sink",
            autocommit=True,
            # Spark's own note that the epoch is in survives a crash of the server.
            synchronous=True,
            replica=replica,
        ) as conn:
            with translated(conn), conn.transaction():
                if _begin(conn, options, name, target, queries, epoch, rows):
                    do(conn, list(_chunks(staged)))
                    if name:
                        query = next(iter(queries), "")
                        spark_epochs.set_sink_epoch(conn, name, query, epoch or 0, rows)
                    crash.point("sink.mid-commit")
            crash.point("sink.after-commit")
            sweep(conn, name or str(attempt))


def _begin(
    conn: Connection,
    options: Common,
    name: str,
    target: str,
    queries: Iterable[str],
    epoch: int | None,
    rows: int,
) -> bool:
    """Whether the epoch has to be written; locks the sink."""
    if not name:
        return True
    known = spark_epochs.lock_sink(conn, name, target)
    if options.skip_other and known.epoch == (epoch or 0) and known.rows is not None:
        rows = known.rows
    return spark_epochs.is_new(name, known, next(iter(queries), ""), epoch or 0, rows, target)


def _chunks(staged: Iterable[StagedMessage]) -> Iterator[tuple[StagedRows, Given]]:
    """All chunks, and where the text of each is."""
    for message in staged:
        for chunk in message.chunks:
            if message.stage is None:
                yield chunk, (_INLINE, [chunk.rows, None])
            else:
                table = staged_table(message.stage).as_string(None)
                found = f"(select s.rows from {table} s where s.part = $1 and s.chunk = $2)"  # noqa: S608
                yield chunk, (found, [message.part, chunk.number])


def give_up(options: Common, attempt: UUID, messages: Sequence[StagedMessage | None]) -> None:
    """Drops staged rows that are not needed any more; if that fails, the next epoch does it."""
    queries = {m.query for m in messages if m is not None}
    name = options.name or next(iter(queries - {""}), "") or str(attempt)
    try:
        with session(options.conninfo, name="londiste-spark sink", autocommit=True) as conn:
            sweep(conn, name)
    except LondisteError as error:
        log.warning("dropping staged rows failed, the next epoch retries: %s", error)


def sweep(conn: Connection, name: str) -> None:
    """Drops what is staged and not needed; what a task still writes into is left to the next."""
    try:
        conn.execute("set lock_timeout = 1000")
        for stage in spark_epochs.sink_stages(conn, name):
            try:
                spark_epochs.drop_sink_stage(conn, stage)
            except TransientError as error:
                log.info("staged rows are still in use, the next epoch drops them: %s", error)
    except (LondisteError, psycopg.Error) as error:
        # The epoch is in: this is no reason to stop.
        log.warning("dropping staged rows failed, the next epoch retries: %s", error)
