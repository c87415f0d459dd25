"""Page Failed events: events that stop a node, what each choice does, and its command."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from londiste.console.facts import Fact
from londiste.console.pages import common
from londiste.console.pages.common import Page, Request
from londiste.monitor.apply_errors import Decision, StoredError


@dataclass(frozen=True)
class FailedRow:
    """An event that could not be applied.

    kind -- missing, exists, constraint, value, …  key -- names of the key columns.
    first_seen, last_seen, times -- of the failure.
    message, row, target_row, conflicting_row -- null unless ``show_values`` is set.
    """

    node: str
    event: str
    state: str
    table: str | None
    op: str | None
    kind: str
    sqlstate: str | None
    key: tuple[str, ...]
    consumer: str
    tick: int
    first_seen: datetime
    last_seen: datetime
    times: int
    message: str | None
    row: str | None
    target_row: str | None
    conflicting_row: str | None
    choices: tuple[Decision, ...]


@dataclass(frozen=True, kw_only=True)
class FailedPage(Page):
    """Events that block the worker of a node."""

    events: tuple[FailedRow, ...] = ()


def build(request: Request) -> FailedPage:
    """The values of the page."""
    return FailedPage(
        **common.head(request, "londiste events show", Fact.FAILED),
        events=tuple(
            _row(name, one) for name, facts in common.nodes(request) for one in facts.failed
        ),
    )


def _row(node: str, one: StoredError) -> FailedRow:
    error = one.error
    return FailedRow(
        node=node,
        event=error.address,
        state=error.state,
        table=error.dest or error.table,
        op=error.op,
        kind=error.kind,
        sqlstate=error.sqlstate,
        key=tuple(error.key or ()),
        consumer=error.consumer,
        tick=error.tick,
        first_seen=error.first_seen,
        last_seen=error.last_seen,
        times=error.times,
        message=error.message or None,
        row=error.image,
        target_row=one.now,
        conflicting_row=error.here,
        choices=tuple(one.choices),
    )
