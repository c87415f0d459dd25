"""Task that copies several small tables, one after the other, each in a transaction of its own.

A session costs more than a small table, and so does a round trip.  So the task has two sessions
for all its tables, sends several statements at once, and writes a table's rows, its statistics
and its done-mark in one transaction.  An error of one table is rolled back and reported for that
table; the others continue.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from londiste.daemon import crash
from londiste.db import call, copy, owner, table_fingerprint
from londiste.db.connection import Connection, connect, describe_dsn, keep_role
from londiste.db.queries import query, translated
from londiste.db.sessions.view_guard import refuse_views
from londiste.engine.spec import GroupSpec, Member, MemberDone
from londiste.engine.tasks import (
    OTHER_COLUMNS,
    changed,
    failed,
    rewritten,
    superseded,
    task_name,
    use_snapshot,
)
from londiste.engine.throttle import Pace, in_turn
from londiste.errors import (
    NodeUnreachable,
    StateError,
)


def copy_members(spec: GroupSpec) -> list[MemberDone]:
    """Copies the tables of a share, except those that are copied already.

    Waits while the copies are paused or the limit of tasks is reached, and obeys the rate limit.

    Raises errors that concern all tables: a server that does not answer, or a lost snapshot.
    A repeated task copies no table twice.
    """
    if not spec.members:
        return []
    first = spec.members[0].table_name
    with (
        contextlib.closing(_Sides(spec)) as sides,
        Pace(spec.target, spec.queue, task_name(spec.queue, first), first) as pace,
    ):
        return [_copied(sides, member, pace) for member in spec.members]


def _copied(sides: _Sides, member: Member, pace: Pace) -> MemberDone:
    """The result of one table."""
    pace.about(task_name(sides.spec.queue, member.table_name), member.table_name)
    for once_more in (True, False):
        sides.open()
        try:
            return in_turn(pace, lambda pace: _copy(sides, member, pace))
        except Exception as error:
            ours = failed(error)
            # A command that needs this table has ended the session.
            if not (once_more and isinstance(ours, NodeUnreachable)):
                return MemberDone(member.table_name, 0, 0, 0.0, ours)
    raise AssertionError("two tries")


def _copy(sides: _Sides, member: Member, pace: Pace) -> MemberDone:
    """The table in one transaction on the target.  Raises NotYet and BrokenOff as well."""
    started = time.monotonic()
    sides.open()
    with sides.one_table() as (source, target):
        todo = _begin(sides, target, member)
        if todo == "superseded":
            raise superseded(member.table_name, member.attempt)
        if todo == "done":
            return MemberDone(member.table_name, 0, 0, time.monotonic() - started)
        pace.begin(target)
        _lock(sides, source, target, member)
        names = [pair[1] for pair in member.columns]
        staged = owner.OwnerStatement(target, member.target_table, names)
        binary = member.binary and staged.direct
        moved = copy.pipe(
            source,
            copy.copy_out(member.source_table, [pair[0] for pair in member.columns], binary=binary),
            target,
            copy.copy_in(staged.into, names, binary=binary),
            pace=pace.moved,
            keep=True,
        )
        staged.finish(moved.rows)
        with translated(describe_dsn(sides.spec.target)):
            with target.pipeline():
                target.execute(sql.SQL("analyze {}").format(member.target_table.sql))
                call.later(
                    target,
                    "londiste.copy_chunk_end",
                    sides.spec.queue,
                    member.table_name,
                    member.attempt,
                    0,
                    moved.rows,
                    moved.bytes,
                )
            crash.point("copy.mid-chunk")
            target.execute("commit")
        crash.point("copy.after-chunk")
    return MemberDone(member.table_name, moved.rows, moved.bytes, time.monotonic() - started)


def _begin(sides: _Sides, target: Connection, member: Member) -> str:
    """Opens the transaction of a table; the result of ``copy_member_start``.

    Rows and done-mark are lost together, if at all: the end of the load checks the marks,
    and waits for the disk.
    """
    queue = sides.spec.queue
    with translated(describe_dsn(sides.spec.target)):
        with target.pipeline():
            target.execute("begin")
            keep_role(target)
            target.execute(
                "select pg_catalog.set_config('synchronous_commit', 'off', true),"
                " pg_catalog.set_config('application_name', %s, true)",
                [task_name(queue, member.table_name)],
            )
            answer = call.later(
                target, "londiste.copy_member_start", queue, member.table_name, member.attempt
            )
        (row,) = answer()
    return str(row["copy_member_start"])


def _lock(sides: _Sides, source: Connection, target: Connection, member: Member) -> None:
    """Locks both tables, and checks that they are what they were planned to be.

    Readers and, on the source, writers are not blocked.  Raises StateError.
    """
    names = [pair[0] for pair in member.columns]
    with translated(describe_dsn(sides.spec.source)):
        with source.pipeline():
            source.execute(
                sql.SQL("lock table only {} in access share mode").format(member.source_table.sql)
            )
            shape = table_fingerprint.shape_later(source, member.source_table, names)
            moved = source.execute(query("table_moved"), member.source_table._asdict())
        row = moved.fetchone()
    if row is None or row[0]:
        raise rewritten(member.source_table)
    if shape() != member.source_shape:
        raise changed(member.source_table, OTHER_COLUMNS)
    with translated(describe_dsn(sides.spec.target)):
        with target.pipeline():
            target.execute(
                sql.SQL("lock table only {} in share row exclusive mode").format(
                    member.target_table.sql
                )
            )
            mark = table_fingerprint.later(target, member.target_table)
            # All of it.  The server refuses TABLESAMPLE of a view that has taken the name.
            rows = target.execute(
                sql.SQL("select exists (select from only {} tablesample system (100))").format(
                    member.target_table.sql
                )
            )
        here, some = mark(), rows.fetchone()
    reason = table_fingerprint.changed(
        member.target_mark, here, [pair[1] for pair in member.columns]
    )
    if reason:
        raise changed(member.source_table, f"on the target: {reason}")
    if some is not None and some[0]:
        raise StateError(
            f"table {member.target_table}: not empty",
            hint="wait: the copy restarts automatically, and empties it first",
        )


class _Sides:
    """The two sessions of a task; the source session uses the snapshot of the group."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self._source: Connection | None = None
        self._target: Connection | None = None

    def open(self) -> None:
        """Opens both sessions, if they are not open.

        Raises errors of the servers, TransientError when the snapshot no longer exists.
        """
        if self._target is None or self._target.closed:
            self._target = connect(
                self.spec.target, name="londiste copy task", autocommit=True, replica=True
            )
        if self._source is None or self._source.closed:
            self._source = connect(
                self.spec.source,
                name="londiste copy of small tables",
                autocommit=True,
                silent_seconds=self.spec.answer_seconds,
            )
            use_snapshot(self._source, self.spec.source, self.spec.snapshot)
            refuse_views(self._source)

    @contextlib.contextmanager
    def one_table(self) -> Iterator[tuple[Connection, Connection]]:
        """The sessions for one table; its locks and uncommitted rows end with the block."""
        source, target = self._source, self._target
        assert source is not None and target is not None
        with translated(describe_dsn(self.spec.source)):
            source.execute("savepoint one_table")
        try:
            yield source, target
        finally:
            # A lock would block ALTER TABLE on the source until the following tables are copied.
            self._end(source, "rollback to savepoint one_table; release savepoint one_table")
            if target.closed or target.info.transaction_status != TransactionStatus.IDLE:
                self._end(target, "rollback")

    @staticmethod
    def _end(conn: Connection, statement: str) -> None:
        try:
            if not conn.closed:
                conn.execute(statement.encode())
        except psycopg.Error:
            conn.close()

    def close(self) -> None:
        """Closes both sessions."""
        for conn in (self._source, self._target):
            if conn is not None:
                with contextlib.suppress(psycopg.Error, OSError):
                    conn.close()
