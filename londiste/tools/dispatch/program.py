"""Table dispatcher: writes row changes of a queue into tables and partitions, exactly once.

Rows are written as the handler ``dispatch`` writes them on a node, in the transaction that has the
position; no node is needed.  A large batch may be a job of the engine (``staged``).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import psycopg

from londiste.applier.applier import Applier
from londiste.changes.types import RowChange, Truncate
from londiste.consumer import (
    EXACTLY_ONCE_ELSEWHERE,
    Batch,
    Consumer,
    ConsumerSettings,
    Context,
    Delivery,
    Event,
    Events,
)
from londiste.consumer.factory import Parts
from londiste.consumer.progress import TickProgress
from londiste.consumer.source import QueueSource
from londiste.daemon import crash
from londiste.daemon.signals import Signals
from londiste.db import catalog
from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import TableName
from londiste.db.session_role import use_replica_role
from londiste.error_values import Values
from londiste.errors import (
    BadOption,
    EventError,
    LondisteError,
    NodeBusy,
    StateError,
    from_database,
)
from londiste.handlers.dispatch import Dispatching
from londiste.handlers.event_actions import At
from londiste.install import compat
from londiste.pgq import batches, queues
from londiste.pgq.consumers import ConsumerKind
from londiste.pgq.types import Tick
from londiste.replication.apply.relation_cache import RelationCache
from londiste.replication.apply.routing import Pending, plan
from londiste.tools.dispatch import first_copy, skips, trust
from londiste.tools.dispatch.rules import DispatchRoute, Rule, Rules, bad_option, rules
from londiste.tools.dispatch.settings import DispatchBase, DispatchSettings
from londiste.tools.dispatch.staged import (
    FLUSH_BYTES,
    DispatchedSlice,
    DispatchSpec,
    Writing,
    stage_rows,
)
from londiste.tools.parallel_batches import JobConsumer

if TYPE_CHECKING:
    from londiste.tools.dispatch.files import FileDispatcher

log = logging.getLogger(__name__)

#: Behind the name of a consumer: that of the one that keeps events during its first copy.
_COPY = ".copy"
#: Events of the first copy in a list.
_FETCH = 5000
#: Settings that choose or hold back events, which is not done for files.
_TABLES_ONLY = (
    "consumer_filter",
    "skip_events",
    "subconsumer_name",
    "pgq_keep_lag",
    "pgq_batch_collect_events",
    "pgq_batch_collect_interval",
    "max_attempts",
)


class _Parts(Parts):
    """Parts of a dispatcher: its ``event_types`` are the handler's letters, no types of events."""

    def __init__(
        self, kind: type[Consumer], settings: ConsumerSettings, stopping: Callable[[], bool]
    ) -> None:
        super().__init__(kind, settings.model_copy(update={"event_types": ()}), stopping)

    def register_with_copy(
        self, rules: Rules, copied: Mapping[TableName, Dispatching]
    ) -> first_copy.Copied | None:
        """Registers the consumer after the rows of some tables; None if it is registered.

        copied -- the tables, and the rules for their rows.
        """
        on = self.source()
        with self._stored() as stored, on.administering() as conn:
            assert isinstance(stored, TickProgress)
            other = acquire_singleton_lock(conn, f"dispatch copy {on.queue}\n{on.consumer}")
            if other is not None:
                raise NodeBusy(
                    f"consumer {on.consumer}: another process copies its tables",
                    detail=other,
                    hint="wait until it ends",
                )
            known = bool(queues.get_consumer_info(conn, on.queue, on.consumer))
            if known and stored.tick() is None:
                raise StateError(
                    f"consumer {on.consumer} of queue {on.queue} is registered, without a position"
                    " in the target",
                    detail="it may belong to another target",
                    hint="set another consumer_name, or first: --unregister",
                )
            if known:
                log.warning("with_copy: the consumer is registered already, nothing is copied")
                return None
            return self._register_behind(on, conn, stored, rules, copied)

    def unregister(self) -> bool:
        """As every consumer; with what a copy that was killed has left."""
        there = super().unregister()
        on = self.source()
        with on.administering() as conn:
            batches.unregister_consumer(conn, on.queue, on.consumer + _COPY)
        return there

    def _register_behind(
        self,
        on: QueueSource,
        conn: Connection,
        stored: TickProgress,
        rules: Rules,
        copied: Mapping[TableName, Dispatching],
    ) -> first_copy.Copied:
        counts: dict[TableName, int] = {}
        keeper = on.consumer + _COPY
        copying = bool(queues.get_consumer_info(conn, on.queue, keeper))
        tick = stored.tick()
        if tick is not None and not copying:
            raise StateError(
                f"consumer {on.consumer}: the target has the position of an earlier registration",
                detail="its rows may be there as well; nothing was copied",
                hint="first: --unregister; or continue at that position: --rewind",
            )
        if tick is None:
            # Keeps the events until the consumer itself does.
            batches.register_consumer(conn, on.queue, keeper)
            try:
                with first_copy.held(on, list(copied)) as source, stored.db().transaction():
                    stored.lock()
                    counts = self._copy(source, stored.db(), rules, copied)
                    stored.set(source.end.id)
            except BaseException:
                with contextlib.suppress(LondisteError, psycopg.Error):
                    self._let_go(on, conn, keeper)
                raise
            crash.point("dispatch.copied")
        # A process that died after the commit has not come here.
        self.rewind()
        batches.unregister_consumer(conn, on.queue, keeper)
        return first_copy.Copied(counts, first_copy.queue_tables(conn, on.queue))

    def _let_go(self, on: QueueSource, conn: Connection, keeper: str) -> None:
        """Forgets what keeps the events, unless the rows are in the target all the same."""
        with self._stored() as stored:
            if stored.tick() is None:
                batches.unregister_consumer(conn, on.queue, keeper)

    def _copy(
        self,
        source: first_copy.SourceSnapshot,
        conn: Connection,
        rules: Rules,
        copied: Mapping[TableName, Dispatching],
    ) -> dict[TableName, int]:
        counts: dict[TableName, int] = {}
        same = [name for name in copied if rules.dest(name) == name]
        first_copy.require_other(source.conn, conn, same)
        use_replica_role(conn)
        writer = _Here(self._batch(source, source.tick), conn, rules, first=True)
        for dest in sorted(set(map(rules.dest, copied))):
            writer.require_empty(dest)
        for table in source.tables:
            count, dest = 0, rules.dest(table.name)
            with first_copy.of_copy(table.name):
                for rows in source.rows(table):
                    if self.stopping():
                        raise KeyboardInterrupt
                    writer.insert(copied[table.name], dest, rows)
                    count += len(rows)
                    crash.point("dispatch.mid-copy")
            log.info("table %s: copied %d rows", table.name, count)
            counts[table.name] = count
        # Other tables begin at the end tick, as a consumer that is registered there.
        mine = Rules(Rule(None), {name: rules.of(name) for name in copied})
        events = Events(self._batch(source, source.end), source.events(), _FETCH)
        try:
            _Here(events.batch, conn, mine).write(events, Counter())
        except EventError as error:
            error.hint = "correct the row, the target or the options, then repeat the command"
            raise
        log.info("%d events since the copy began", events.count)
        return counts

    def _batch(self, source: first_copy.SourceSnapshot, end: Tick) -> Batch:
        first, who = source.tick, (self.settings.queue_name, self.settings.consumer)
        return Batch(0, *who, first.id, end.id, first.time, end.time, first.seq, end.seq)


class Dispatcher(JobConsumer):
    """Writes row changes of a queue into tables, partitions by time, or files, exactly once."""

    delivery: ClassVar[Delivery] = EXACTLY_ONCE_ELSEWHERE
    listed_as: ClassVar[ConsumerKind] = ConsumerKind.DISPATCH
    settings_class = DispatchSettings
    settings: DispatchBase
    parts_class = _Parts
    #: What ``register`` has copied, one line per table.
    copy_report: Sequence[str] = ()

    def into_files(self) -> FileDispatcher | None:
        """The consumer that writes files instead, when target_path is set."""
        settings = self.settings
        if settings.target_path is None:
            return None
        if settings.target_db:
            raise BadOption(
                "target_path and target_db exclude each other",
                hint="use one of them: files or tables",
            )
        for name in _TABLES_ONLY:
            if getattr(settings, name):
                raise BadOption(
                    f"{name} is not available with target_path",
                    hint="remove it; event_types and table_filter select the changes",
                )
        from londiste.tools.dispatch.files import FileDispatcher

        return FileDispatcher(settings, self._rules())

    def register(self, tick: int | None = None, *, like: str | None = None) -> bool:
        """As every consumer; with ``with_copy`` after the existing rows of the tables."""
        settings = self.settings
        if not settings.with_copy:
            return super().register(tick, like=like)
        first_copy.require_options(settings, placed=tick is not None or like is not None)
        assert isinstance(self._parts, _Parts)
        rules = self._rules()
        copied = {
            table: first_copy.rule_of_copy(table, rules.of(table).work)
            for table in rules.chosen(settings.table_filter, "for with_copy")
        }
        signals = self.signals = Signals(stop_timeout=settings.stop_timeout)
        try:
            with self._bound(), signals.handled():
                done = self._parts.register_with_copy(rules, copied)
            self.copy_report = done.report(rules, settings.table_filter) if done else ()
            return done is not None
        finally:
            self.signals = None
            signals.close()

    def startup(self) -> None:
        """Refuses invalid options and missing tables."""
        super().startup()
        self.rules = self._rules()
        settings = self.settings
        with session(settings.target, name="londiste dispatch", autocommit=True) as conn:
            compat.check(conn, "pgq_ext")
            compat.check(conn, "londiste")
            usual = self.rules.usual.work
            if usual is not None and usual.parts is not None:
                try:
                    usual.parts.check(conn)
                except BadOption as error:
                    raise bad_option(error) from error
            for source in {*self.rules.own, *map(TableName.parse, settings.table_filter)}:
                rule = self.rules.of(source)
                if rule.work is not None:
                    try:
                        _check(conn, rule.work, settings.queue_name, self.rules.dest(source))
                    except BadOption as error:
                        raise bad_option(error, f"[table {source}]: ") from error
            trust.warn(conn, settings, self.rules)

    def reload(self) -> None:
        """Takes new options."""
        found = self._rules()
        super().reload()
        self.rules = found

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Writes the whole batch in the transaction of the position."""
        use_replica_role(ctx.db)
        if not self._as_job(batch, events, ctx):
            _Here(batch, ctx.db, self.rules).write(events, ctx.stats)

    def _as_job(self, batch: Batch, events: Events, ctx: Context) -> bool:
        if not self.jobs.wanted:
            return False
        writing = Writing(ctx.db, self.rules, batch)
        done = self.jobs.carry(
            batch,
            events,
            ctx,
            where=self.condition(),
            task=stage_rows,
            spec=functools.partial(DispatchSpec, rules=self.rules),
            result=DispatchedSlice,
            merge=writing.write,
            finish=writing.finish,
        )
        if done and writing.left_out:
            ctx.stats["skipped"] += writing.left_out
        return done

    def _rules(self) -> Rules:
        settings = self.settings
        found = rules(settings.handler, settings.options, settings.tables)
        if found.usual.table and len(settings.table_filter) != 1:
            raise BadOption(
                f"table = {found.usual.table}: not available for all tables of the queue",
                hint="set it in a section [table schema.name], or select one table with"
                " table_filter",
            )
        found.require_sections(settings.table_filter)
        if settings.target_path is None:
            found.require_targets(settings.table_filter)
        return replace(found, skips=skips.parse(settings.skip_events))


def _check(conn: Connection, work: Dispatching, queue: str, dest: TableName) -> None:
    """Raises BadOption for options that can never work, and for a table that is missing."""
    work.check(conn, queue, dest)
    if (work.parts is None or not work.parts.makes_own) and not catalog.columns(conn, dest):
        raise BadOption(
            f"table {dest} does not exist in {describe_dsn(conn.info.dsn)}",
            hint="create it, correct table = …, or set table_mode = ignore",
        )


class _Here:
    """Writes a batch in this process.

    first -- every table is empty before its first row.
    """

    def __init__(
        self, batch: Batch, conn: Connection, rules: Rules, *, first: bool = False
    ) -> None:
        self._batch = batch
        self._first = first
        self._empty: set[TableName] = set()
        self._conn = conn
        self._rules = rules
        self._shapes = RelationCache(conn)
        self._applier = Applier(conn, node=batch.consumer, queue=batch.queue)

    def write(self, events: Events, stats: Counter[str]) -> None:
        """All events, as lists.  Raises EventError."""
        targets: dict[TableName, list[tuple[DispatchRoute, Event]]] = {}
        try:
            for chunk in events.chunks():
                # Events of different targets may change places, those of one may not.
                targets = {}
                for event in chunk:
                    route = self._rules.route(event)
                    if route is None:
                        stats["skipped"] += 1
                        continue
                    targets.setdefault(route.dest, []).append((route, event))
                for routed in targets.values():
                    for _, some in itertools.groupby(routed, key=lambda one: one[0].source):
                        neighbours = list(some)
                        route = neighbours[0][0]
                        route.work.work(self._at(route.dest), [event for _, event in neighbours])
            self._applier.apply([])
        except EventError as error:
            events_at_hand = (event for routed in targets.values() for _, event in routed)
            self._rules.explain(error, self._batch, events_at_hand)
            raise
        except psycopg.Error as error:
            raise from_database(
                error, where=describe_dsn(self._conn.info.dsn), values=Values.APART
            ) from error

    def insert(self, work: Dispatching, dest: TableName, rows: list[RowChange]) -> None:
        """Rows that come from no event."""
        at = self._at(dest)
        event = Event(0, at.tick_time, 0, None, None, None, None, None, None, None)
        try:
            told = (work.row(dest, at.tick_time, event, row) for row in rows)
            work.write(at, itertools.chain.from_iterable(told))
            self._applier.apply([])
        except psycopg.Error as error:
            raise from_database(
                error, where=describe_dsn(self._conn.info.dsn), values=Values.APART
            ) from error

    def require_empty(self, table: TableName) -> None:
        """Raises BadOption for a table with rows, the first time that it is named."""
        if table not in self._empty:
            first_copy.require_empty(self._conn, table)
            self._empty.add(table)

    def _at(self, dest: TableName) -> At:
        batch = self._batch
        return At(
            self._conn,
            batch.queue,
            batch.tick_id,
            batch.tick_time,
            dest,
            self._changes,
            self._rules.skips,
        )

    def _changes(self, changes: Iterable[tuple[TableName, RowChange | Truncate]]) -> None:
        pending = Pending()
        for dest, change in changes:
            if self._first:
                self.require_empty(dest)
            pending.add(dest, change)
            if pending.bytes >= FLUSH_BYTES:
                self._flush(pending)
        self._flush(pending)

    def _flush(self, pending: Pending) -> None:
        found = self._shapes.of(pending.changes)
        self._applier.apply(plan(pending.changes, found, node=self._batch.consumer), more=True)
        pending.clear()
