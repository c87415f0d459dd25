"""Defects of the program, planted in its processes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from tests.nemesis.defects.planting import defect


@defect("position outside the transaction", "P1", operation="traffic", fault="kill worker")
def position_outside() -> None:
    """The rows are committed first, the position after them."""
    from londiste.cascade.progress import NodeProgress
    from londiste.replication.apply.batch import BatchApplier

    later: list[Any] = []
    completing, run = NodeProgress.completing, BatchApplier._run

    def nothing(self: Any, batch: Any) -> Callable[[], None]:
        later.append((self, batch))
        return lambda: None

    def ran(self: Any, *args: Any) -> Any:
        result = run(self, *args)
        import time

        time.sleep(0.1)
        for progress, batch in later:
            completing(progress, batch)()
        later.clear()
        return result

    NodeProgress.completing = nothing  # type: ignore[method-assign]
    BatchApplier._run = ran  # type: ignore[method-assign]


@defect("parts are committed one by one", "P2", operation="traffic")
def parts_committed() -> None:
    """A transaction of the subscriber for each table of a batch."""
    from londiste.applier.applier import Applier

    apply = Applier.apply

    def one_by_one(self: Any, plans: Any, again: Any = None, **more: Any) -> None:
        if len(plans) > 1 and more.get("begin") is not None:
            apply(self, plans[:1], None, begin=more["begin"], more=True)
            self._conn.execute("commit")
            self._conn.execute("begin")
            plans, again = plans[1:], None
        apply(self, plans, again, **more)

    Applier.apply = one_by_one  # type: ignore[method-assign]


@defect("an event that fails is skipped", "P3", operation="local row")
def failed_is_skipped() -> None:
    """No halt: the worker goes on behind it."""
    from londiste.applier.applier import Applier
    from londiste.errors import EventError

    apply = Applier.apply

    def applied(self: Any, plans: Any, again: Any = None, **more: Any) -> None:
        try:
            apply(self, plans, again, **more)
        except EventError:
            self._conn.rollback()
            self._conn.execute("begin")
            more["also"]() if more.get("also") else None

    Applier.apply = applied  # type: ignore[method-assign]


@defect("a copy locks the tables of its source", "P4", operation="resync")
def copy_locks() -> None:
    """Applications wait for it."""
    from londiste.copy import snapshot_copy
    from londiste.copy.chunking import source_snapshot

    plain = source_snapshot.exported_snapshot

    @contextlib.contextmanager
    def locked(sides: Any) -> Iterator[Any]:
        with psycopg.connect(sides.location) as conn:
            conn.execute("lock table nemesis.account in share mode")
            conn.execute("select pg_sleep(17)")
            with plain(sides) as found:
                yield found

    if hasattr(snapshot_copy, "exported_snapshot"):
        snapshot_copy.exported_snapshot = locked
    from londiste.copy import group_copy

    if hasattr(group_copy, "exported_snapshot"):
        group_copy.exported_snapshot = locked


@defect(
    "two workers may both commit",
    "P9",
    sql=(("pgq_node.move_consumer_completed", r"and last_tick_id = i_from_tick", ""),),
    operation="traffic",
    fault="two workers",
)
def two_commit() -> None:
    """No lock of the job, no compare-and-set."""
    from londiste.cascade.progress import NodeProgress
    from londiste.replication.worker import connections

    connections.acquire_singleton_lock = lambda *a, **k: None  # type: ignore[attr-defined]
    NodeProgress.seen = lambda self, batch, tick=None: False  # type: ignore[method-assign]


@defect("a copy starts on what is left of the last", "P11", operation="resync", shape="wholerow")
def not_emptied() -> None:
    """The table is not emptied."""
    from londiste.copy import group_copy, prepare

    group_copy.empty = lambda *a, **k: None  # type: ignore[attr-defined]
    prepare.owner.truncate = lambda *a, **k: None  # type: ignore[assignment]


@defect("connection strings are logged as they are", "P13", operation="traffic")
def secrets_logged() -> None:
    """With their passwords."""
    import londiste.dsn

    for name, module in list(__import__("sys").modules.items()):
        if name.startswith("londiste") and hasattr(module, "describe_dsn"):
            module.describe_dsn = lambda dsn, *a, **k: str(dsn)  # type: ignore[attr-defined]
    assert londiste.dsn


@defect("values of rows are logged", "P13", operation="traffic")
def values_logged() -> None:
    """By the worker, with every batch."""
    import logging

    from londiste.applier.applier import Applier

    text = Applier._text

    def logged(self: Any, shape: Any, rows: Any) -> str:
        logging.getLogger("londiste").warning("rows of %s: %s", shape.name, "qz7value")
        return text(self, shape, rows)

    Applier._text = logged  # type: ignore[method-assign]


@defect("indexes are forgotten by a copy", "copy.md", operation="resync")
def indexes_forgotten() -> None:
    """What a copy has dropped is deleted from the list, and not created again."""
    from londiste.copy import restore

    restore.run_stored = lambda *a, **k: None  # type: ignore[assignment]


@defect("compare sees no difference", "compare.md", operation="repair")
def compare_is_blind() -> None:
    """It reports every table as equal."""
    from londiste.compare import checksum

    checksum.differing = lambda root, node: ()


@defect("a branch loses an event", "cascade.md", operation="change-provider")
def branch_loses() -> None:
    """The first one of each block of three or more."""
    from londiste.cascade.forward import Forwarder

    rows = Forwarder._rows

    def fewer(self: Any, events: Any, ids: bool) -> bytes:
        text = rows(self, events, ids)
        lines = bytes(text).splitlines(keepends=True)
        return b"".join(lines[1:]) if len(lines) > 12 else text

    Forwarder._rows = fewer  # type: ignore[method-assign]


@defect("the main worker applies tables that are being copied", "P1", operation="resync")
def applied_twice() -> None:
    """Changes that the copy includes are applied once more."""
    from londiste.replication.apply import routing
    from londiste.replication.tablesync.states import By, InCopy, Missing, interesting

    def always(by: By, state: Any) -> bool:
        early = isinstance(state, Missing | InCopy)
        return interesting(by, state) or (by is By.MAIN and not early)

    routing.interesting = always  # type: ignore[attr-defined]


@defect("a copy does not replay what happened meanwhile", "P1", operation="resync")
def nothing_replayed() -> None:
    """Changes between its snapshot and the hand-over are lost."""
    from londiste.replication.apply import routing
    from londiste.replication.tablesync.states import By, interesting

    def never(by: By, state: Any) -> bool:
        return interesting(by, state) and by is By.MAIN

    routing.interesting = never  # type: ignore[attr-defined]


@defect("a copy ignores transactions that it does not contain", "P1", operation="resync")
def open_is_copied() -> None:
    """Those that were open at its snapshot."""
    from londiste.db.snapshot import Snapshot

    Snapshot.sees = lambda self, txid: txid < self.xmax + 3  # type: ignore[method-assign]


@defect("a row that is inserted and deleted in one batch stays", "P1", operation="traffic")
def deleted_stays() -> None:
    """The fold of changes forgets the DELETE."""
    from londiste.changes.types import Op
    from londiste.replication.apply.net_changes import encoded
    from londiste.replication.apply.net_changes.states import INSERTED

    steps = list(encoded.STEPS[Op.DELETE, False])
    steps[INSERTED] = INSERTED
    encoded.STEPS[Op.DELETE, False] = tuple(steps)


@defect("deletes are not applied", "P1", operation="traffic")
def deletes_ignored() -> None:
    """They are gone from the net changes."""
    from londiste.replication.apply.net_changes import encoded
    from londiste.replication.apply.net_changes.states import DELETED

    encoded._VERBS[DELETED] = ()


@defect("updates are not applied", "P1", operation="traffic")
def updates_ignored() -> None:
    """They are gone from the net changes."""
    from londiste.replication.apply.net_changes import encoded
    from londiste.replication.apply.net_changes.states import UPDATED

    encoded._VERBS[UPDATED] = ()


@defect("the position is stored some batches late", "P1", operation="traffic", fault="kill worker")
def position_late() -> None:
    """After a kill some batches are applied once more."""
    from londiste.cascade.progress import NodeProgress

    completing, seen = NodeProgress.completing, NodeProgress.seen
    held: list[Any] = []

    def late(self: Any, batch: Any) -> Callable[[], None]:
        held.append(batch)
        return completing(self, batch) if len(held) % 3 == 0 else lambda: None

    def unseen(self: Any, batch: Any, tick: int | None = None) -> bool:
        return seen(self, batch, batch.prev_tick_id)

    NodeProgress.completing = late  # type: ignore[method-assign]
    NodeProgress.seen = unseen  # type: ignore[method-assign]


@defect("a switchover does not wait for the new root", "P9", operation="switchover")
def switched_early() -> None:
    """It takes writes before it has what the old root has."""
    from londiste.cascade.switching.steps import waits

    waits.reached = lambda *args, **more: True  # type: ignore[assignment]


@defect("a daemon does not end when it is told to", "processes.md", operation="restart")
def never_ends() -> None:
    """It has no ear for SIGTERM."""
    from londiste.daemon.signals import Signals

    Signals._on_stop = lambda *args: None  # type: ignore[method-assign]


@defect("a command ends with a traceback", "errors.md", operation="status")
def traceback_printed() -> None:
    """What it fails with is no error of its own."""
    from londiste.monitor import status

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError

    status.collect = broken


@defect("errors are logged with a traceback", "errors.md", operation="local row")
def traceback_logged() -> None:
    """Of the worker, which halts."""
    import logging

    from londiste.applier.applier import Applier
    from londiste.errors import EventError

    apply = Applier.apply

    def applied(self: Any, *args: Any, **more: Any) -> None:
        try:
            apply(self, *args, **more)
        except EventError:
            logging.getLogger("londiste").exception("apply")
            raise

    Applier.apply = applied  # type: ignore[method-assign]


@defect("repair deletes what it should insert", "compare.md", operation="repair")
def repair_deletes() -> None:
    """A missing row stays missing."""
    from londiste.compare import repair_plan

    repair_plan._insert = repair_plan._delete


@defect("compare does not wait for the tick", "compare.md", operation="compare")
def compare_is_early() -> None:
    """It reads the node wherever that is."""
    from londiste.compare import pause_at_tick

    def now(node: Any, *args: Any) -> str:
        return pause_at_tick._export(node)[0]

    pause_at_tick._node_at = now  # type: ignore[assignment]


@defect("a branch passes no ticks on", "cascade.md", operation="change-provider")
def no_ticks() -> None:
    """Its readers get no batch."""
    from londiste.cascade.forward import Forwarder

    Forwarder.tick = lambda self, batch: None  # type: ignore[method-assign]


@defect("an export lacks rows of a lost root", "cascade.md", operation="return")
def export_lacks() -> None:
    """A third of its statements is lost without a trace."""
    from londiste.replication.failover.rejoin import export

    statement, count = export._statement, itertools.count()

    def less(event: Any, change: Any) -> Iterator[str]:
        return statement(event, change) if next(count) % 3 else iter(())

    export._statement = less


@defect("a restored node continues where its provider is", "P5", operation="restore")
def restored_unnoticed() -> None:
    """Its events of the time since are missing."""
    from londiste.cascade import sqlapi
    from londiste.cascade.progress import NodeProgress
    from londiste.errors import PositionLost
    from londiste.pgq import position_check

    seen = NodeProgress.seen

    def anyway(self: Any, batch: Any, tick: int | None = None) -> bool:
        try:
            return seen(self, batch, tick)
        except PositionLost:
            first = batch.prev_tick_id
            sqlapi.set_consumer_completed(self.conn, self.queue, self.consumer, first)
            return False

    NodeProgress.seen = anyway  # type: ignore[method-assign]
    position_check.decide = lambda *given: None  # type: ignore[assignment]


@defect(
    "a branch forwards rows that it does not keep",
    "cascade.md",
    operation="filter-branch",
    shape="plain",
)
def forwards_all() -> None:
    """Nodes below get all events."""
    from londiste.replication.apply import routing

    routing.held = lambda tables: {}  # type: ignore[attr-defined]


@defect("a shard keeps all rows", "handlers.md", operation="change-shard", shape="plain")
def whole_shard() -> None:
    """As if it had no part."""
    from dataclasses import replace

    from londiste.handlers.shard import Shard

    wants = Shard.wants
    Shard.wants = lambda self: replace(wants(self), where="")  # type: ignore[method-assign]


@defect("a hash is the value", "handlers.md", operation="handler", shape="plain")
def hash_shows() -> None:
    """The masked column is replicated as it is."""
    from londiste.handlers import obfuscate

    obfuscate._scalar = lambda key, rule, value: value


@defect("a copy of a part removes the others", "copy.md", operation="merge")
def part_empties() -> None:
    """As a copy of a table that has one source."""
    from londiste.copy import prepare

    def emptied(conn: Any, table: Any, written: Any, *, tree: bool) -> None:
        prepare.owner.truncate(conn, table.dest, tree=tree)

    prepare.copied_rows.take_back = emptied  # type: ignore[attr-defined]
