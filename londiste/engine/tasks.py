"""Engine tasks: the functions that run in a pool process or in a Spark executor.

A task takes plain data, opens its own connections and may run twice.  Its effect and its
done-mark commit together, so a second run finds the mark and does nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psycopg
from psycopg import sql

from londiste.daemon import crash
from londiste.db import call, catalog, copy, owner, table_fingerprint
from londiste.db.connection import Connection, describe_dsn, keep_role
from londiste.db.names import TableName
from londiste.db.queries import flush_commits, query, translated
from londiste.db.sessions.view_guard import refuse_views
from londiste.engine import row_transform, session_pool
from londiste.engine.oversized_rows import explained
from londiste.engine.row_hash import SEEDS, key_hash, row_text
from londiste.engine.spec import Checksum, Chunk, ChunkDone, CompareSpec, CopySpec, Sums
from londiste.engine.throttle import Pace, in_turn
from londiste.error_values import Values
from londiste.errors import (
    LondisteError,
    NodeUnreachable,
    Superseded,
    TableChanged,
    TransientError,
    from_database,
)
from londiste.wording import exception_text

#: Detail of ``changed``: the snapshot's columns are not those that statements mean now.
OTHER_COLUMNS = "on the source: ALTER TABLE replaced columns of the same names"


@dataclass(frozen=True)
class ChunkTask:
    """One chunk of a copy; ``spec`` without its list of chunks.

    several -- others of the same table follow.
    """

    spec: CopySpec
    chunk: Chunk
    several: bool = False

    def __str__(self) -> str:
        return f"chunk {self.chunk.number} of {self.spec.name}"


def chunk_tasks(spec: CopySpec) -> list[ChunkTask]:
    """One task per chunk, in the order of the chunks."""
    bare = replace(spec, chunks=())
    several = len(spec.chunks) > 1
    return [ChunkTask(bare, chunk, several) for chunk in spec.chunks]


def task_name(queue: str, table_name: str) -> str:
    """application_name of the sessions that write a table's chunks, by which they can be ended."""
    digest = hashlib.sha256(f"{queue}\0{table_name}".encode()).hexdigest()
    return f"londiste copy task {digest[:24]}"


def copy_chunk(task: ChunkTask) -> ChunkDone:
    """Copies one chunk in one transaction on the target, unless it is copied already.

    Waits while the copies are paused or the limit of tasks is reached, and obeys the rate limit.

    Raises Superseded when a newer copy of the table has started, TableChanged when the source
    table was rewritten, and the error of the side that failed; nothing is written then.
    """
    spec = task.spec
    name = task_name(spec.queue, spec.name)
    with Pace(spec.target, spec.queue, name, spec.name) as pace:
        return in_turn(pace, lambda pace: _copy_chunk(task, pace))


def _copy_chunk(task: ChunkTask, pace: Pace) -> ChunkDone:
    """See ``copy_chunk``.  Raises NotYet and BrokenOff as well."""
    spec, chunk = task.spec, task.chunk
    started = time.monotonic()
    name = task_name(spec.queue, spec.name)
    with session_pool.lent(spec.target, name=name, replica=True, keep=task.several) as target:
        with translated(describe_dsn(spec.target)):
            # Rows and done-mark are lost together, if at all; the end of the load checks the
            # marks and waits for the disk (copy/progress.py, all_done).
            target.execute("begin; set local synchronous_commit = off")
            keep_role(target)
        todo = call.value(
            target, "londiste.copy_chunk_start", spec.queue, spec.name, spec.attempt, chunk.number
        )
        if todo == "superseded":
            raise superseded(spec.name, spec.attempt)
        if todo == "done":
            with translated(describe_dsn(spec.target)):
                target.execute("rollback")
            return ChunkDone(spec.target_table, chunk.number, 0, 0, time.monotonic() - started)
        pace.begin(target)
        with _reading(spec, keep=task.several) as (source, seen):
            _same_tables(source, target, spec)
            where = _both(chunk.condition, spec.where)
            names = [pair[1] for pair in spec.columns]
            staged = owner.OwnerStatement(target, spec.target_table, names)
            # Values of a staged table may have to pass as texts.
            binary = spec.binary and staged.direct
            try:
                moved = copy.pipe(
                    source,
                    copy.copy_out(
                        spec.source_table,
                        [pair[0] for pair in spec.columns],
                        where=where,
                        binary=binary,
                        tree=spec.source_tree,
                    ),
                    target,
                    copy.copy_in(staged.into, names, binary=binary),
                    pace=pace.moved,
                    # The session of a chunk with a snapshot of its own is used once more.
                    keep=task.several or not spec.snapshot,
                    change=None if spec.rows is None else row_transform.changing(spec),
                )
                staged.finish(moved.rows)
            except LondisteError as error:
                too_large = explained(error, spec, where)
                if too_large is None:
                    # As it is: its cause tells who waits for space.
                    raise
                raise too_large from error
        call.value(
            target,
            "londiste.copy_chunk_end",
            spec.queue,
            spec.name,
            spec.attempt,
            chunk.number,
            moved.rows,
            moved.bytes,
            seen,
        )
        crash.point("copy.mid-chunk")
        with translated(describe_dsn(spec.target)):
            target.execute("commit")
        crash.point("copy.after-chunk")
    return ChunkDone(
        spec.target_table, chunk.number, moved.rows, moved.bytes, time.monotonic() - started
    )


def checksum(spec: CompareSpec) -> Checksum:
    """Rows and two sums of hashes over the text of whole rows, read in the given snapshot.

    The text of a row distinguishes NULL from an empty string; the order of rows has no effect.
    """
    started = time.monotonic()
    name, limit = f"londiste compare {spec.table}", spec.answer_seconds
    # A piece, or a small table, is read in less time than a session takes to open.
    with snapshot_session(spec.dsn, spec.snapshot, name, keep=True, answer_seconds=limit) as conn:
        refuse_views(conn, spec.table, conditions=[spec.where])
        buckets = sums(conn, spec)
        moved = catalog.moved(conn, spec.table)
        crash.point("compare.mid-range")
    seconds = time.monotonic() - started
    return Checksum(spec.side, spec.table, spec.number, buckets, seconds, moved)


def sums(conn: Connection, spec: CompareSpec) -> dict[int, Sums]:
    """The sums of ``checksum``, in the transaction of a session."""
    parts = [f"({part})" for part in (spec.condition, spec.where) if part]
    source = (
        f"from {'' if spec.children else 'only '}{spec.table.quoted}"
        f"{' where ' if parts else ''}{' and '.join(parts)}"
    )
    if not spec.columns:
        statement = f"select 0, count(*), 0, 0 {source}"
    else:
        inner, group, one, two = row_text(conn, spec.columns, spec.forms) + " as r", "", *SEEDS
        if spec.buckets > 1:
            inner, group = (
                f"{inner}, {key_hash(conn, spec.key)} & {spec.buckets - 1} as b",
                "group by b",
            )
        statement = (
            f"select {'b' if group else 0}, count(*),"  # noqa: S608 - see CompareSpec
            f" sum(hashtextextended(r, {one})), sum(hashtextextended(r, {two}))"
            # OFFSET keeps the planner from working out the text of the row once per hash.
            f" from (select {inner} {source} offset 0) s {group}"
        )
    with translated(describe_dsn(spec.dsn), Values.APART):
        found = conn.execute(statement.encode()).fetchall()
    return {int(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in found if row[1]}


def label(item: object) -> str:
    """Short name of a task, for error messages."""
    text = str(item) if type(item).__str__ is not object.__str__ else type(item).__name__
    return text[:100]


def failed(error: Exception, item: object = None, host: str = "") -> LondisteError:
    """The Londiste error for an exception of a task; its detail names the task.

    item -- the task.
    host -- the remote machine on which it ran, '' for this one.
    """
    if isinstance(error, LondisteError | psycopg.Error):
        ours = from_database(error, values=Values.APART)
    else:
        ours = LondisteError(
            f"task failed: {type(error).__name__}: {exception_text(error)}",
            hint="report this defect with the output of a run with LONDISTE_TRACEBACK=1",
        )
    if isinstance(ours, Superseded):
        return ours
    told = [label(item)] if isinstance(item, ChunkTask) else []
    hint = ""
    if host:
        told.append(f"on executor {host}")
        if isinstance(ours, NodeUnreachable):
            hint = (
                "let the hosts of the executors reach both databases: the locations of the nodes"
                ' and db must be valid there; or run without Spark: engine = "local"'
            )
    if told:
        ours.say_more(", ".join(told), hint)
    return ours


def superseded(table: str, attempt: int) -> Superseded:
    """The error of a task whose attempt is not the current one."""
    return Superseded(
        f"table {table}: copy {attempt} is superseded",
        detail="a newer copy of the table has started, or the copy is no longer requested",
    )


def rewritten(table: TableName) -> TableChanged:
    """The error for a source table whose rows have moved."""
    return TableChanged(
        f"table {table}: rewritten during its copy",
        detail="TRUNCATE, VACUUM FULL, CLUSTER or ALTER TABLE moved its rows",
        hint="wait: the copy restarts automatically",
    )


def changed(table: TableName, detail: str) -> TableChanged:
    """The error for a table that is not what its columns were paired for."""
    return TableChanged(
        f"table {table}: changed during its copy",
        detail=detail,
        hint="wait: the copy restarts automatically",
    )


def use_snapshot(conn: Connection, dsn: str, snapshot: str) -> None:
    """Opens a read-only transaction in an exported snapshot.

    Raises TransientError when the snapshot no longer exists.
    """
    with translated(describe_dsn(dsn)):
        conn.execute("begin isolation level repeatable read, read only")
        try:
            conn.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
        except (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject) as error:
            raise TransientError(
                f"snapshot {snapshot} no longer exists",
                detail=f"{describe_dsn(dsn)}: the session that exported it has ended",
                hint="wait: a copy restarts automatically; run compare again",
            ) from error


@contextmanager
def snapshot_session(
    dsn: str,
    snapshot: str,
    name: str,
    *,
    keep: bool = False,
    answer_seconds: float | None = None,
) -> Iterator[Connection]:
    """A read-only session that sees what the holder of the exported snapshot sees."""
    with session_pool.lent(dsn, name=name, keep=keep, answer_seconds=answer_seconds) as conn:
        use_snapshot(conn, dsn, snapshot)
        yield conn
        _read(conn)


@contextmanager
def _reading(spec: CopySpec, *, keep: bool) -> Iterator[tuple[Connection, str | None]]:
    """A session that reads the source table, and its snapshot when the chunk has its own."""
    name, limit = f"londiste copy {spec.name}", spec.answer_seconds
    if spec.snapshot:
        with snapshot_session(
            spec.source, spec.snapshot, name, keep=keep, answer_seconds=limit
        ) as conn:
            if spec.filenode is not None:
                _lock(conn, spec)
                _same_storage(conn, spec)
            if spec.source_shape is not None:
                _same_shape(conn, spec)
            refuse_views(conn, spec.source_table, conditions=[spec.where])
            yield conn, None
        return
    with session_pool.lent(spec.source, name=name, keep=keep, answer_seconds=limit) as conn:
        with translated(describe_dsn(spec.source)):
            conn.execute("begin isolation level repeatable read, read only")
            # The lock before the snapshot: a table that ALTER TABLE rewrites in between would
            # look empty.
            _lock(conn, spec)
            refuse_views(conn, spec.source_table, conditions=[spec.where])
            row = conn.execute(query("current_snapshot")).fetchone()
        assert row is not None
        yield conn, str(row[0])
        _read(conn)
        # Before the chunk counts as copied: it is never read again, and its snapshot decides which
        # events are applied.
        flush_commits(conn)


def _read(source: Connection) -> None:
    """Ends a read transaction; a closed session has none."""
    if not source.closed:
        source.execute("rollback")


def _lock(source: Connection, spec: CopySpec) -> None:
    """Locks the source table as reading does."""
    with translated(describe_dsn(spec.source)):
        source.execute(
            sql.SQL("lock table {} in access share mode").format(
                spec.source_table.own(spec.source_tree)
            )
        )


def _same_tables(source: Connection, target: Connection, spec: CopySpec) -> None:
    """Raises TableChanged when a table has changed since its columns were paired."""
    if spec.target_mark is None:
        return
    with translated(describe_dsn(spec.target)):
        target.execute(
            sql.SQL("lock table {} in row exclusive mode").format(
                spec.target_table.own(spec.target_tree)
            )
        )
    reason = difference(source, target, spec)
    if reason:
        raise changed(spec.source_table, reason)


def difference(source: Connection, target: Connection, spec: CopySpec) -> str:
    """How the two tables differ from the plan of the copy; '' if they do not."""
    assert spec.target_mark is not None
    here = table_fingerprint.mark(target, spec.target_table)
    ours = table_fingerprint.changed(spec.target_mark, here, [pair[1] for pair in spec.columns])
    if ours:
        return f"on the target: {ours}"
    if spec.source_mark is None:
        return ""
    there = table_fingerprint.mark(source, spec.source_table)
    theirs = table_fingerprint.changed(spec.source_mark, there, [pair[0] for pair in spec.columns])
    if theirs:
        return f"on the source: {theirs}"
    assert there is not None and here is not None
    return table_fingerprint.added(there, here, spec.columns, spec.keeps)


def _same_storage(source: Connection, spec: CopySpec) -> None:
    """Checks that the locked source table was not rewritten."""
    info = catalog.info(source, spec.source_table)
    # It may also have been rewritten between the snapshot and the split.
    if info is None or info.filenode != spec.filenode or catalog.moved(source, spec.source_table):
        raise rewritten(spec.source_table)


def _same_shape(source: Connection, spec: CopySpec) -> None:
    """Checks that the columns of the locked source table are those that were paired."""
    now = table_fingerprint.shape(source, spec.source_table, [pair[0] for pair in spec.columns])
    if now != spec.source_shape:
        raise changed(spec.source_table, OTHER_COLUMNS)


def _both(*conditions: str) -> str:
    given = [f"({condition})" for condition in conditions if condition]
    return " and ".join(given)
