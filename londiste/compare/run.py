"""One comparison from beginning to end: who, which tables, at which tick, with which engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste import engine
from londiste.cascade import nodes
from londiste.cascade.create import upstream
from londiste.cascade.plan import Sites
from londiste.cascade.types import NodeInfo, NodeType
from londiste.compare.align import aligned
from londiste.compare.checksum import TablePair, TableResult, compare
from londiste.db import catalog
from londiste.db.connection import Connection, session
from londiste.errors import LondisteError, StateError, UnknownTable
from londiste.replication import tables
from londiste.replication.select import select
from londiste.replication.types import ReplicatedTable
from londiste.settings import WorkerSettings

#: Comparisons of a table that is truncated or rewritten each time before it is read.
_ATTEMPTS = 5


@dataclass(frozen=True)
class Comparison:
    """What came out: the tick both sides were at, and the tables in the order of the node.

    tick_id -- of the last tables, when some had to be compared again.
    """

    tick_id: int
    tables: tuple[TableResult, ...]

    @property
    def equal(self) -> bool:
        """Every table is."""
        return all(result.equal for result in self.tables)


def compare_tables(
    settings: WorkerSettings,
    wanted: Sequence[str],
    *,
    timeout: float,
    progress: Callable[[str], None],
    done: Callable[[TableResult], None],
) -> Comparison:
    """Compares tables of this node (all when ``wanted`` is empty) with the root's.

    Tables that are truncated or rewritten before they are read are compared again, at another
    tick.  Raises StateError on a root, when a table is not in step or truncated each time, or
    when the worker does not come to the tick within ``timeout`` seconds; UnknownTable for a name
    that is not replicated here.
    """
    queue = settings.queue_name
    with session(settings.db, name="londiste compare", autocommit=True) as conn:
        info = nodes.get_node_info(conn, queue)
        if info.type is NodeType.ROOT:
            raise StateError(
                f"node {info.name} is the root of queue {queue}",
                detail="compare holds a node's tables against the root's",
                hint="run it with the settings of a branch or leaf",
            )
        chosen = _chosen(conn, queue, wanted)
        _require_in_step(chosen)
        size = sum(catalog.require(conn, t.dest).total_bytes for t in chosen)
    root = root_location(settings, info)
    kind = settings.engine if size >= settings.spark_from_bytes else "local"
    carrier = engine.create(kind, settings.spark)
    try:
        left = [TablePair(t.name, t.dest, t.wants) for t in chosen]
        found: dict[str, TableResult] = {}
        for _ in range(_ATTEMPTS):
            with aligned(
                queue, info.worker, root, settings.db, timeout=timeout, progress=progress
            ) as at:
                results = compare(at, left, carrier, settings.parallel_copies * 2, done)
            found |= {r.table: r for r in results if not r.moved}
            left = [pair for pair in left if str(pair.table) not in found]
            if not left:
                return Comparison(at.tick_id, tuple(found[str(t.name)] for t in chosen))
            names = ", ".join(str(pair.table) for pair in left)
            progress(f"truncated or rewritten meanwhile, compared again: {names}")
        raise StateError(
            f"truncated or rewritten in each of {_ATTEMPTS} attempts: {names}",
            detail="a snapshot that is older than that does not see the rows",
            hint="compare when fewer TRUNCATE and ALTER TABLE are going on",
        )
    finally:
        carrier.close()


def root_location(settings: WorkerSettings, info: NodeInfo) -> str:
    """How to reach the root of this node's cascade; asks only the nodes on the way there."""
    with Sites(name="londiste compare", extra=settings.remote_extra_connstr) as sites:
        return upstream(sites, info.queue, sites.reach(info.provider_location)).root_dsn


def _chosen(conn: Connection, queue: str, wanted: Sequence[str]) -> list[ReplicatedTable]:
    local = {t.name: t for t in tables.get_table_list(conn, queue) if t.local}
    if not wanted:
        return [table for table in local.values() if table.wants.stored]

    def unknown(text: str) -> LondisteError:
        return UnknownTable(
            f"table {text} is not replicated here",
            detail=f"queue {queue} has {len(local)} tables on this node",
            hint="londiste tables lists them",
        )

    chosen = [local[name] for name in select(wanted, list(local), [], unknown).chosen]
    for table in chosen:
        if not table.wants.stored:
            raise StateError(
                f"table {table.name} has handler {table.attrs.get('handler')}",
                detail="replication leaves its rows here alone, so there is nothing to compare",
                hint="compare others; londiste tables shows the handlers",
            )
    return chosen


def _require_in_step(chosen: Sequence[ReplicatedTable]) -> None:
    half = [f"{t.name} ({t.state or 'missing'})" for t in chosen if t.state != "ok"]
    if half:
        raise StateError(
            f"not in step yet: {', '.join(half)}", hint="wait for them: londiste wait-sync"
        )
    if not chosen:
        raise StateError("no table is replicated here", hint="londiste add-table --all")
