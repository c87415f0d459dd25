"""Defects that are planted to see whether the machine catches them: one at least per promise.

A defect changes the program (``plant``, in every process of a life) or its SQL (``change``, in
every database before the first step).  A life that does not notice it has not been a proof.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.nemesis.registry import Registry

DEFECTS = Registry()


@dataclass(frozen=True)
class Defect:
    """promise -- which one it breaks; sql -- function, text and what replaces it.

    faults, operations -- what the lives need to contain for it to matter; empty: anything.
    """

    promise: str
    sql: tuple[tuple[str, str, str], ...] = ()
    operation: str = ""
    fault: str = ""
    shape: str = ""


def _defect(name: str, promise: str, **more: Any) -> Callable[..., Any]:
    return DEFECTS.add(name, more=Defect(promise, **more))


def plant(name: str) -> None:
    """In this process."""
    DEFECTS[name].run()


def change(name: str, conn: psycopg.Connection[Any]) -> None:
    """In this database.  AssertionError when the text to be replaced is no longer there."""
    for function, old, new in DEFECTS[name].more.sql:
        row = conn.execute(
            "select pg_get_functiondef(oid) from pg_proc where oid = to_regproc(%s)", [function]
        ).fetchone()
        assert row is not None, f"no function {function}"
        changed, count = re.subn(old, new, row[0])
        assert count, f"{function} has no {old}"
        conn.execute(changed.encode())


@_defect("position outside the transaction", "P1", operation="traffic", fault="kill worker")
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


@_defect("parts are committed one by one", "P2", operation="traffic")
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


@_defect(
    "open transactions count as finished",
    "P2",
    sql=(
        (
            "pgq._insert_tick",
            r"coalesce\(i_snapshot, txid_current_snapshot\(\)\)",
            "coalesce(i_snapshot, (txid_snapshot_xmax(txid_current_snapshot())::text || ':'"
            " || txid_snapshot_xmax(txid_current_snapshot())::text || ':')::txid_snapshot)",
        ),
    ),
    operation="traffic",
)
def open_as_finished() -> None:
    """Events of a transaction that is open at a tick are never delivered."""


@_defect("an event that fails is skipped", "P3", operation="local row")
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


@_defect("a copy locks the tables of its source", "P4", operation="resync")
def copy_locks() -> None:
    """Applications wait for it."""
    from londiste.copy import snapshot_copy

    plain = snapshot_copy.exported_snapshot

    @contextlib.contextmanager
    def locked(sides: Any) -> Iterator[Any]:
        with psycopg.connect(sides.location) as conn:
            conn.execute("lock table nemesis.account in share mode")
            conn.execute("select pg_sleep(17)")
            with plain(sides) as found:
                yield found

    for module in (snapshot_copy,):
        module.exported_snapshot = locked
    from londiste.copy import group_copy

    if hasattr(group_copy, "exported_snapshot"):
        group_copy.exported_snapshot = locked


@_defect(
    "captures use the settings of the session",
    "P8",
    sql=(
        (
            "londiste._capture_every_setting",
            r"(?s)select '\{.*\}'::text\[\]",
            "select '{}'::text[]",
        ),
    ),
    operation="add-table",
    shape="types",
)
def unpinned() -> None:
    """Dates, intervals and floats are captured as each application writes them."""


@_defect(
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


@_defect("a copy starts on what is left of the last", "P11", operation="resync", shape="wholerow")
def not_emptied() -> None:
    """The table is not emptied."""
    from londiste.copy import group_copy, prepare

    group_copy.empty = lambda *a, **k: None  # type: ignore[attr-defined]
    prepare.owner.truncate = lambda *a, **k: None  # type: ignore[assignment]


@_defect("connection strings are logged as they are", "P13", operation="traffic")
def secrets_logged() -> None:
    """With their passwords."""
    import londiste.dsn

    for name, module in list(__import__("sys").modules.items()):
        if name.startswith("londiste") and hasattr(module, "describe_dsn"):
            module.describe_dsn = lambda dsn, *a, **k: str(dsn)  # type: ignore[attr-defined]
    assert londiste.dsn


@_defect("values of rows are logged", "P13", operation="traffic")
def values_logged() -> None:
    """By the worker, with every batch."""
    import logging

    from londiste.applier.applier import Applier

    text = Applier._text

    def logged(self: Any, shape: Any, rows: Any) -> str:
        logging.getLogger("londiste").warning("rows of %s: %s", shape.name, "qz7value")
        return text(self, shape, rows)

    Applier._text = logged  # type: ignore[method-assign]


@_defect("indexes are forgotten by a copy", "copy.md", operation="resync")
def indexes_forgotten() -> None:
    """What a copy has dropped is deleted from the list, and not created again."""
    from londiste.copy import restore

    restore.run_stored = lambda *a, **k: None  # type: ignore[assignment]


@_defect("compare sees no difference", "compare.md", operation="repair")
def compare_is_blind() -> None:
    """It reports every table as equal."""
    from londiste.compare import checksum

    kinds = [k for k in vars(checksum).values() if isinstance(k, type) and hasattr(k, "equal")]
    assert kinds
    for kind in kinds:
        kind.equal = property(lambda self: True)  # type: ignore[attr-defined]


@_defect("a branch loses an event", "cascade.md", operation="change-provider")
def branch_loses() -> None:
    """The first one of each block of three or more."""
    from londiste.cascade.forward import Forwarder

    rows = Forwarder._rows

    def fewer(self: Any, events: Any, ids: bool) -> bytes:
        text = rows(self, events, ids)
        lines = bytes(text).splitlines(keepends=True)
        return b"".join(lines[1:]) if len(lines) > 12 else text

    Forwarder._rows = fewer  # type: ignore[method-assign]
