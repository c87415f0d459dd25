"""Context of a comparison: node, root, engine, and the chosen tables."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from londiste import engine
from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.upstream import upstream
from londiste.cascade.model import NodeInfo, NodeType
from londiste.compare.column_pairing import Pairing, TablePair, pairing
from londiste.compare.pause_at_tick import Aligned, aligned
from londiste.compare.standby_side import StandbySide
from londiste.db import bulk_catalog
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import TableName, argument
from londiste.db.queries import try_condition
from londiste.db.sessions.view_guard import reading
from londiste.engine.base import Engine
from londiste.error_values import server_text
from londiste.errors import (
    BadOption,
    LondisteError,
    StateError,
    TransientError,
    UnknownTable,
    from_database,
)
from londiste.handlers.base import TableRules
from londiste.orchestration.connections import Connections, reach
from londiste.replication import sqlapi as tables
from londiste.replication.coverage import comparable
from londiste.replication.forwarding.combined_queue import others_filling
from londiste.replication.forwarding.upstream_filters import held_above
from londiste.replication.model import ReplicatedTable
from londiste.replication.patterns import select, table_meant
from londiste.replication.tablesync import child_rows
from londiste.replication.tablesync.states import described
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """Options of a comparison.

    tables -- names and patterns; none: all.
    timeout -- seconds to wait for the worker to reach a tick.
    where -- SQL condition over the rows to compare, on both sides.
    limit -- rows that are looked for in each table.
    resume -- ranges that the last comparison found equal are not compared again.
    """

    tables: Sequence[str] = ()
    timeout: float = 60.0
    where: str = ""
    count_only: bool = False
    limit: int = 1000
    resume: bool = False


@dataclass(frozen=True)
class Parties:
    """Who is compared with whom, and by what means.

    held -- what branches above hold of tables of which they do not hold all.
    standby -- of the root: its rows are read there, as far as it is usable.
    """

    settings: WorkerSettings
    info: NodeInfo
    root_dsn: str
    engine: Engine
    held: Mapping[TableName, TableRules]
    say: Callable[[str], None]
    standby: StandbySide | None = None

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self.settings.queue_name

    @property
    def parallel(self) -> int:
        """Tasks at a time: each keeps one server at work."""
        return self.settings.parallel_copies * 2

    @contextlib.contextmanager
    def aligned(self, timeout: float, *, hold: bool = False) -> Iterator[Aligned]:
        """Both sides at a new tick; with ``hold`` the root itself is read.

        A temporary failure inside the block lets the root be read next time.
        """
        standby = None if hold else self.standby
        with aligned(
            self.queue,
            self.info.worker,
            self.root_dsn,
            self.settings.db,
            timeout=timeout,
            answer_seconds=self.settings.answer_seconds,
            progress=self.say,
            hold=hold,
            standby=standby,
        ) as at:
            if standby is None or at.root_dsn == self.root_dsn:
                yield at
                return
            failures = standby.failures
            try:
                yield at
            except TransientError as error:
                standby.fail(error)
                raise
            if standby.failures == failures:
                standby.answered()

    def lost(self, at: Aligned, error: TransientError) -> None:
        """After a failed read at a tick: raises the error, unless it was one of the standby."""
        if self.standby is None or at.root_dsn == self.root_dsn:
            raise error
        self.standby.fail(error)


@contextlib.contextmanager
def meet(
    settings: WorkerSettings,
    conn: Connection,
    chosen: Sequence[ReplicatedTable],
    say: Callable[[str], None],
) -> Iterator[Parties]:
    """Finds the root, and an engine for tables of this size.

    Raises StateError at the root, and in a copy of the node's database.
    """
    info = require_subscriber(settings, conn)
    extra = settings.remote_extra_connstr
    copied_database.refuse(conn, settings.queue_name, lambda at: reach(at, extra))
    size = sum(bulk_catalog.sizes(conn, [t.dest for t in chosen]).values())
    kind = settings.engine if size >= settings.spark_min_bytes else "local"
    root = root_location(settings, info)
    standby = standby_side(settings, info, root)
    carrier = engine.begun_locally(kind, settings.spark, settings.spark_min_bytes, tell=say)
    try:
        yield Parties(
            settings,
            info,
            root,
            carrier,
            held_from(settings, info),
            say,
            standby,
        )
    finally:
        if standby is not None:
            standby.close()
        carrier.close()


def standby_side(settings: WorkerSettings, info: NodeInfo, root: str) -> StandbySide | None:
    """The standby of ``read_from``, if the provider of the node is the root."""
    if not settings.read_from or root != reach(
        info.provider_location, settings.remote_extra_connstr
    ):
        return None
    return StandbySide(settings.read_from, settings.read_from_wait, settings.answer_seconds)


def require_subscriber(settings: WorkerSettings, conn: Connection) -> NodeInfo:
    """This node.  Raises StateError when it is the root."""
    info = nodes.get_node_info(conn, settings.queue_name)
    if info.type is NodeType.ROOT:
        raise StateError(
            f"node {info.name}: is the root of queue {settings.queue_name}",
            detail="compare checks a node's tables against the root's",
            hint="run compare with the settings of a branch or leaf",
        )
    if info.combined_type is NodeType.BRANCH:
        raise StateError(
            f"node {info.name}: is fed by combined queue {info.combined_queue}",
            detail="it cannot pause at a tick of its own",
            hint=f"compare with the settings of {info.combined_queue} on this node, and of"
            f" {info.queue} at the root of {info.combined_queue}",
        )
    return info


def choose(
    settings: WorkerSettings, conn: Connection, wanted: Sequence[str]
) -> list[ReplicatedTable]:
    """The tables that a command means, all when it names none.  Raises what is wrong with them."""
    require_subscriber(settings, conn)
    chosen = _chosen(conn, settings.queue_name, wanted)
    _require_in_step(chosen)
    return chosen


def ready(settings: WorkerSettings, conn: Connection) -> list[ReplicatedTable]:
    """The tables that can be compared now; those that are being copied come later."""
    require_subscriber(settings, conn)
    known = _chosen(conn, settings.queue_name, ())
    found = [table for table in known if table.state == "ok"]
    if not found:
        _require_in_step(known)
    return found


def open_session(
    settings: WorkerSettings, dsn: str = "", name: str = "londiste compare"
) -> contextlib.AbstractContextManager[Connection]:
    """A session on this node, or on another one, that a silent server does not keep waiting."""
    return session(
        dsn or settings.db,
        name=name,
        autocommit=True,
        silent_seconds=settings.answer_seconds,
    )


def pair_up(
    root: Connection,
    node: Connection,
    table: ReplicatedTable,
    asked: Asked,
    held: Mapping[TableName, TableRules],
    *,
    queue: str,
    warn: bool = True,
) -> Pairing:
    """How a table is compared.

    Raises BadOption for a condition that does not fit it, StateError where the rows of the root
    are in partitions.

    warn -- log the columns that are not compared, or not wholly.
    """
    # Without a condition the server refuses a view where its rows are read.
    for conn, name in ((root, table.name), (node, table.dest)) if asked.where else ():
        with reading(conn, name):
            pass
        try:
            try_condition(conn, name.quoted, asked.where)
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if state[:2] not in {"42", "22", "0A"} or state == "42501":
                raise from_database(error, where=describe_dsn(conn.info.dsn)) from error
            raise BadOption(
                f"--where {asked.where}: {server_text(error)}",
                detail=f"table {name} on {describe_dsn(conn.info.dsn)}",
                hint="write one boolean expression over the columns of the table, with quotes"
                " around it: --where 'id > 1000'",
            ) from error
    _require_read(root, queue, table.name)
    found = pairing(
        root,
        node,
        _pair(table, held),
        only_rows=asked.where,
        count_only=asked.count_only,
    )
    for what, columns in (
        ("columns not compared", [name for name in found.skipped if name not in found.computed]),
        ("generated columns not compared, their expressions differ", found.computed),
        (
            "columns compared only as far as their types on this node keep the values of the root",
            () if asked.count_only else found.lossy,
        ),
    ):
        if columns and warn:
            log.warning("table %s: %s: %s", table.name, what, ", ".join(columns))
    return found


def _require_read(root: Connection, queue: str, name: TableName) -> None:
    """Refuses a table whose rows a comparison would not see on the root."""
    there = tables.get_table(root, queue, name)
    if there is not None and child_rows.has_some(root, there, root=True):
        raise StateError(
            f"table {name}: the root has its rows in partitions",
            detail=f"its handler there is {there.attrs.get('handler')}; a comparison reads the"
            " table itself",
            hint=f"exclude it; or {child_rows.collect(root, there, 'root')}",
        )


def _pair(table: ReplicatedTable, held: Mapping[TableName, TableRules]) -> TablePair:
    above = held.get(table.name)
    beside = "skip_truncate" in table.attrs
    if above is None:
        return TablePair(table.name, table.dest, table.wants, beside=beside)
    # What a branch above makes of its values is not known here.
    return TablePair(table.name, table.dest, table.wants.of(above), above.changed, beside)


def root_location(settings: WorkerSettings, info: NodeInfo) -> str:
    """Connection string of the cascade's root; connects only to the nodes on the way to it."""
    with _nodes(settings) as sites:
        return upstream(
            sites, info.queue, sites.reach(info.provider_location, info.provider)
        ).root_dsn


def held_from(settings: WorkerSettings, info: NodeInfo) -> Mapping[TableName, TableRules]:
    """Filters of tables that the branches above replicate partially."""
    with _nodes(settings) as sites:
        return held_above(sites, info.queue, sites.reach(info.provider_location, info.provider))


def _nodes(settings: WorkerSettings) -> Connections:
    return Connections(
        name="londiste compare",
        extra=settings.remote_extra_connstr,
        answer_seconds=settings.answer_seconds,
    )


def _chosen(conn: Connection, queue: str, wanted: Sequence[str]) -> list[ReplicatedTable]:
    local = {t.name: t for t in tables.get_table_list(conn, queue) if t.local}
    if not wanted:
        return [t for t in local.values() if comparable(t)]

    def unknown(text: str) -> LondisteError:
        return UnknownTable(
            f"table {text}: not replicated on this node",
            detail=f"queue {queue} has {len(local)} tables on this node",
            hint=table_meant(text, local, "londiste tables"),
        )

    chosen = [local[name] for name in select(wanted, list(local), [], unknown).chosen]
    for table in chosen:
        if table.wants.incomparable:
            raise StateError(
                f"table {table.name}: handler {table.attrs.get('handler')} cannot be compared",
                detail=f"{table.wants.incomparable}: its rows are not those of the source",
                hint="exclude it; londiste tables shows the handlers",
            )
        if not table.wants.stored:
            raise StateError(
                f"table {table.name}: handler {table.attrs.get('handler')} cannot be compared",
                detail="replication does not write its rows on this node",
                hint="exclude it; londiste tables shows the handlers",
            )
    return chosen


def _require_in_step(chosen: Sequence[ReplicatedTable]) -> None:
    half = [f"{t.name} {described(t.state)}" for t in chosen if t.state != "ok"]
    if half:
        raise StateError(f"tables not in sync: {', '.join(half)}", hint="londiste wait-sync")
    if not chosen:
        raise StateError("no table is replicated on this node", hint="londiste add-table --all")


def require_one_source(conn: Connection, queue: str, chosen: Sequence[ReplicatedTable]) -> None:
    """Refuses a table that other sources fill too: their rows would be differences.

    Other sources are queues, and tables of the same queue with the same ``--dest-table``.
    """
    for table in chosen:
        others = others_filling(conn, queue, table.name, table.dest)
        if others:
            name = f"{table.name} (here {table.dest})" if table.name != table.dest else table.name
            raise StateError(
                f"table {name}: also filled from {', '.join(others)}",
                detail="which rows come from which source is not known; nothing was compared",
                hint="compare the other tables by name, or select the rows of this source:"
                f" londiste compare {argument(table.name)} --where \"region = 'eu'\"",
            )
