"""A source and a target in which case after case is run: written, captured, replayed, compared.

The databases, the queue and the sessions stay; a case makes its tables and the next one drops
them.  Replay is the worker's own machinery, in this process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from londiste.cascade.progress import NodeProgress
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.pgq import batches, queues
from londiste.replication.apply.batch import BatchApplier
from londiste.replication.apply.routing import Route, RoutingTable
from londiste.replication.tablesync.states import By
from tests.capture.cases import MAIN, SCHEMA, Alter, Case, Copy, Mark, Statement, Undone, Write
from tests.fixtures.cascade import QUEUE, Node
from tests.support.queue_events import writer

#: What an application may run into by itself: constraints, and rows changed under its hands.
USERS_OWN = {"23502", "23503", "23505", "23514", "21000", "27000", "23P01", "55006", "0A000"}
#: What only a statement made for other tables than there are meets: a case made smaller.
UNKNOWN = {"42703", "42P01", "42P10", "42704", "42804", "55000"}


class Differs(AssertionError):
    """The target is not what the source is, or replay has stopped."""


class Pair:
    """The two databases and the sessions on them.

    ``app`` is the session that writes on the source; nothing is pinned in it.
    """

    def __init__(self, root: Node, leaf: Node) -> None:
        self.source: Connection = root.connect()
        self.target: Connection = leaf.connect(replica=True, lock_timeout_ms=5000)
        self.app = writer(root.dsn)
        self.worker = leaf.worker
        self.refused = 0
        self.written = 0
        self._runner = self._new_runner(64 << 20)
        self._after: list[str] = []
        queues.set_queue_config(self.source, QUEUE, "rotation_period", "0")
        # Nobody moves them here, and no table is emptied before all consumers have read it.
        self.source.execute(
            "select pgq.unregister_consumer(queue_name, consumer_name)"
            " from pgq.get_consumer_info() where consumer_name like '.%'"
        )
        self.takes_forms = self._takes("form=row")
        self.takes_packs = self._has_parameter("packed_events")

    def close(self) -> None:
        self.app.close()

    # -- a case ----------------------------------------------------------------------------

    def run(self, case: Case, *, strict: bool = True) -> None:
        """Raises Differs when replay stops or ends with other rows than the source has.

        strict -- a statement refused for anything but constraints of the application is an
            error, too.
        """
        self.make(case)
        self.go(case, strict=strict)

    def go(self, case: Case, *, strict: bool = True) -> None:
        """The steps of a case whose tables are made."""
        allowed = USERS_OWN if strict else USERS_OWN | UNKNOWN
        for step in case.steps:
            if isinstance(step, Write):
                self._write(step, allowed)
            elif isinstance(step, Alter):
                self._alter(step, allowed)
            else:
                self._mark(step, case)

    def make(self, case: Case) -> None:
        """The tables of the case on both sides, empty and captured, and nothing in the queue."""
        for conn in (self.source, self.target):
            self._clean(conn)
        self._skip()
        for statement in (*case.made, *case.extras):
            for conn in (self.source, self.target):
                with contextlib.suppress(psycopg.errors.UndefinedTable):
                    _raw(conn, statement)
        for statement in case.target:
            _raw(self.target, statement)
        if self.takes_packs:
            queues.set_queue_config(self.source, QUEUE, "packed_events", str(case.packed).lower())
        for table, options in case.tables.items():
            self.source.execute(
                "select londiste.create_capture(%s, %s, %s::text[])", [QUEUE, table, list(options)]
            )
        self._runner = self._new_runner(case.flush_bytes)
        self._after = []
        self.app.execute("reset all")
        self.set(self.app, case)

    def set(self, session: psycopg.Connection[Any], case: Case) -> None:
        """Gives a session the settings of the case, as far as the server takes them."""
        for name, value in case.settings.items():
            with contextlib.suppress(psycopg.errors.InvalidParameterValue):
                session.execute("select set_config(%s, %s, false)", [name, value])

    def _clean(self, conn: Connection) -> None:
        captured = conn.execute(
            "select table_name from londiste._captures(%s) as c", [QUEUE]
        ).fetchall()
        for (table,) in captured:
            conn.execute("select londiste.drop_capture(%s, %s)", [QUEUE, table])
        conn.execute("set client_min_messages = warning")
        _raw(conn, f"drop schema if exists {SCHEMA} cascade")
        _raw(conn, f"create schema {SCHEMA}")

    # -- writing ---------------------------------------------------------------------------

    def _write(self, step: Write, allowed: set[str]) -> None:
        self.app.execute(f"begin isolation level {step.level}")
        try:
            for statement in step.statements:
                if step.guarded:
                    self.app.execute("savepoint guard")
                try:
                    self._do(statement, allowed)
                except psycopg.Error as error:
                    self._tolerate(error, allowed, statement)
                    if not step.guarded:
                        return
                    self.app.execute("rollback to guard")
            if step.commit:
                try:
                    self.app.execute("commit")
                except psycopg.Error as error:
                    self._tolerate(error, allowed, "commit")
        finally:
            if self.app.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.app.execute("rollback")

    def _do(self, statement: Statement, allowed: set[str]) -> None:
        if isinstance(statement, Undone):
            self.app.execute("savepoint undone")
            try:
                for inner in statement.statements:
                    self._do(inner, allowed)
            except psycopg.Error as error:
                self._tolerate(error, allowed, statement)
            self.app.execute("rollback to undone")
            return
        self.written += 1
        if isinstance(statement, Copy):
            with self.app.cursor().copy(cast(LiteralString, statement.text)) as copy:
                copy.write(statement.data)
            return
        self.app.execute(statement.encode())

    def _tolerate(self, error: psycopg.Error, allowed: set[str], statement: object) -> None:
        self.refused += 1
        ours = (error.diag.schema_name or "") in {"pgq", "londiste"}
        if ours or error.sqlstate not in allowed:
            raise Differs(
                f"the application was refused: {error.sqlstate} {error}\n{statement}"
            ) from error

    def _alter(self, step: Alter, allowed: set[str]) -> None:
        if step.settled:
            self._replay(None)
        try:
            self.app.execute(step.source.encode())
        except psycopg.Error as error:
            self._tolerate(error, allowed, step)
            return
        if step.refreshed:
            self.source.execute("select londiste.refresh_capture(%s, %s)", [QUEUE, MAIN])
        if step.before:
            _raw(self.target, step.before)
        if step.after:
            self._after.append(step.after)

    # -- replay ----------------------------------------------------------------------------

    def _mark(self, step: Mark, case: Case) -> None:
        if step.what == "tick":
            self.tick()
        elif step.what == "rotate":
            self.rotate()
        else:
            self._replay(1_000_000 if step.what == "replay joined" else None)
            for table, options in case.tables.items():
                self.compare(table, options)

    def tick(self) -> None:
        queues.force_tick(self.source, QUEUE)
        queues.ticker(self.source, QUEUE)

    def replay(self) -> None:
        """A tick, and everything before it written on the target."""
        self._replay(None)

    def rotate(self) -> None:
        """The next event table, if the one after it is free."""
        self.source.execute("select pgq.maint_rotate_tables_step1(%s)", [QUEUE])
        self.source.execute("select pgq.maint_rotate_tables_step2()")

    def _replay(self, joined: int | None) -> None:
        self.tick()
        interest = self.interest()
        while True:
            batch = batches.next_batch(self.source, QUEUE, self.worker, min_count=joined)
            if batch is None:
                if joined is None:
                    break
                joined = None
                continue
            try:
                self._runner.run(batch, interest)
            except Exception as error:
                raise Differs(f"replay has stopped: {error!r}\n{self.events(batch.id)}") from error
            batches.finish_batch(self.source, batch.id)
        for statement in self._after:
            _raw(self.target, statement)
        self._after = []

    def interest(self) -> RoutingTable:
        """All tables, whole."""
        return RoutingTable(By.MAIN, {name: Route(name, name, None) for name in self._tables()})

    def _skip(self) -> None:
        """What lies in the queue is done, without being written."""
        self.tick()
        progress = NodeProgress(self.target, QUEUE, self.worker)
        while (batch := batches.next_batch(self.source, QUEUE, self.worker)) is not None:
            if not progress.seen(batch):
                with self.target.transaction():
                    progress.completed(batch)
            batches.finish_batch(self.source, batch.id)

    def _tables(self) -> Iterable[TableName]:
        rows = self.source.execute(
            "select c.relname::text from pg_class as c"
            " where c.relnamespace = to_regnamespace(%s) and c.relkind in ('r', 'p')",
            [SCHEMA],
        ).fetchall()
        return [TableName(SCHEMA, row[0]) for row in rows]

    def events(self, batch_id: int) -> str:
        """The events of an open batch, for a message."""
        rows = self.source.execute(
            "select ev_id, ev_txid, ev_type, ev_data, ev_extra3"
            " from pgq.get_batch_events(%s) order by ev_id limit 200",
            [batch_id],
        ).fetchall()
        return "\n".join(" ".join(str(value) for value in row) for row in rows)

    # -- comparing -------------------------------------------------------------------------

    def compare(self, table: str, options: Iterable[str] = ()) -> None:
        """Raises Differs unless both sides have the same rows, by the texts of all columns."""
        ignored = [o.partition("=")[2].split(",") for o in options if o.startswith("ignore=")]
        columns = [
            row[0]
            for row in self.source.execute(
                "select a.attname::text from pg_attribute as a where a.attrelid = %s::regclass"
                " and a.attnum > 0 and not a.attisdropped order by a.attnum",
                [table],
            ).fetchall()
            if not any(row[0] in names for names in ignored)
        ]
        statement = sql.SQL(
            "select x.row from (select row({columns})::text as row from {only}{table}) as x"
            ' order by x.row collate "C"'
        ).format(
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
            only=sql.SQL("" if self._partitioned(table) else "only "),
            table=sql.Identifier(*table.split(".")),
        )
        there, here = (
            [row[0] for row in conn.execute(statement).fetchall()]
            for conn in (self.source, self.target)
        )
        if there != here:
            raise Differs(
                f"{table} {columns} differs\nonly on the source: {_less(there, here)}\n"
                f"only on the target: {_less(here, there)}"
            )

    def _partitioned(self, table: str) -> bool:
        kind = self.source.execute(
            "select relkind::text from pg_class where oid = %s::regclass", [table]
        ).fetchone()
        return kind == ("p",)

    # -- what there is ---------------------------------------------------------------------

    def _takes(self, option: str) -> bool:
        try:
            self.source.execute("select londiste._capture_options(%s)", [[option]])
        except psycopg.Error:
            return False
        return True

    def _has_parameter(self, name: str) -> bool:
        try:
            queues.set_queue_config(self.source, QUEUE, name, "true")
        except Exception:
            return False
        return True

    def _new_runner(self, flush_bytes: int) -> BatchApplier:
        return BatchApplier(
            node="leaf",
            queue=QUEUE,
            source=self.source,
            target=self.target,
            progress=NodeProgress(self.target, QUEUE, self.worker),
            flush_bytes=flush_bytes,
        )


def minimise(pair: Pair, case: Case, limit: int = 400) -> tuple[Case, str]:
    """The smallest case found that still goes wrong, and how it does."""
    message = ""
    runs = 0
    while True:
        for less in case.smaller():
            runs += 1
            try:
                pair.run(less, strict=False)
            except Differs as error:
                case, message = less, str(error)
                break
            except psycopg.Error:
                continue
            if runs > limit:
                return case, message
        else:
            return case, message


def _raw(conn: psycopg.Connection[Any], statement: str) -> None:
    conn.execute(statement.encode())


def _less(one: list[str], other: list[str]) -> list[str]:
    """The rows that only ``one`` has, for a message."""
    rest = list(other)
    left = []
    for row in one:
        if row in rest:
            rest.remove(row)
        else:
            left.append(row if len(row) <= 200 else row[:199] + "…")
    return left[:20]
