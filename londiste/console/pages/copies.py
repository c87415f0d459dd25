"""Page Copies: tables that are being copied, with rates and the time that is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from londiste.console.facts import Fact
from londiste.console.pages import common
from londiste.console.pages.common import Page, Request
from londiste.copy.status import CopyStatus, TableStatus


@dataclass(frozen=True)
class LimitRow:
    """Pause and limits of the copies of a node.

    bytes_per_second, tasks -- limits of an operator.
    held_bytes_per_second, held_reason -- limit of the load throttle.
    """

    node: str
    paused: bool
    bytes_per_second: int | None
    tasks: int | None
    held_bytes_per_second: int | None
    held_reason: str | None


@dataclass(frozen=True)
class CopyRow:
    """A table that is not in sync.

    step, step_seconds -- what runs now, and since when.
    fraction -- of its bytes, 0 to 1; None: no row is being copied.
    left_seconds -- until all rows are copied.
    chunks, total_chunks -- finished, and all.
    waits -- the reason of a wait that ends automatically.  error -- why it does not continue.
    """

    node: str
    table: str
    state: str
    step: str
    step_seconds: float | None
    mode: str
    fraction: float | None
    rows: int | None
    bytes: int | None
    total_bytes: int | None
    chunks: int | None
    running: int | None
    total_chunks: int | None
    bytes_per_second: float | None
    left_seconds: float | None
    indexes: tuple[str, ...]
    waits: str
    error: str


@dataclass(frozen=True, kw_only=True)
class CopiesPage(Page):
    """Tables that are not in sync, and the limits of copies; nodes -- that copy tables."""

    nodes: tuple[str, ...] = ()
    limits: tuple[LimitRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()


def build(request: Request) -> CopiesPage:
    """The values of the page."""
    head = common.head(request, "londiste copy status", Fact.COPIES)
    found = [
        (name, facts.copies) for name, facts in common.nodes(request) if facts.copies is not None
    ]
    return CopiesPage(
        **head,
        nodes=tuple(name for name, _ in found if name != common.root(request)),
        limits=tuple(row for name, copies in found for row in _limits(name, copies)),
        copies=tuple(_row(name, one) for name, copies in found for one in copies.tables),
    )


def _limits(node: str, copies: CopyStatus) -> Iterator[LimitRow]:
    one = copies.control
    if one.paused or one.bytes_per_second or one.tasks or one.held_bytes_per_second:
        yield LimitRow(
            node,
            one.paused,
            one.bytes_per_second,
            one.tasks,
            one.held_bytes_per_second,
            one.held_reason,
        )


def _row(node: str, one: TableStatus) -> CopyRow:
    load = one.load
    return CopyRow(
        node=node,
        table=one.table,
        state=one.state or "waits for its copy",
        step=one.step,
        step_seconds=None if one.seconds is None else round(one.seconds, 1),
        mode=one.mode,
        fraction=None if load is None else round(load.fraction, 4),
        rows=None if load is None else load.rows,
        bytes=None if load is None else load.bytes,
        total_bytes=None if load is None else load.total_bytes,
        chunks=None if load is None else load.chunks,
        running=None if load is None else load.running,
        total_chunks=None if load is None else load.total_chunks,
        bytes_per_second=None if load is None or load.rate is None else round(load.rate, 1),
        left_seconds=None if load is None or load.eta is None else round(load.eta, 1),
        indexes=tuple(f"{b.index or 'index'}: {b.phase}" for b in one.builds),
        waits=one.waits,
        error=one.error,
    )
