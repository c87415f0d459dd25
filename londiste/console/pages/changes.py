"""Page Log of changes: actions, decisions, scripts and moves, with operator and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from londiste.console.facts import MOST_CHANGES, Fact, NodeFacts
from londiste.console.pages import common
from londiste.console.pages.common import Page, Request


@dataclass(frozen=True)
class ChangeRow:
    """A change at a node; who -- the operator, null where it is not recorded."""

    time: datetime
    node: str
    who: str | None
    what: str
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class ChangesPage(Page):
    """Recorded changes of all nodes, the newest first, 200 at most."""

    changes: tuple[ChangeRow, ...] = ()


def build(request: Request) -> ChangesPage:
    """The values of the page."""
    rows = [row for name, facts in common.nodes(request) for row in _rows(name, facts)]
    rows.sort(key=lambda row: row.time, reverse=True)
    return ChangesPage(
        **common.head(
            request,
            "londiste events show --all; londiste execute status",
            *(Fact.MOVE, Fact.DECIDED, Fact.ACTIONS, Fact.SCRIPTS),
        ),
        changes=tuple(rows[:MOST_CHANGES]),
    )


def _rows(node: str, facts: NodeFacts) -> Iterator[ChangeRow]:
    if facts.operation is not None:
        one = facts.operation
        what = f"{one.kind.value} {one.node} to {one.new} started"
        yield ChangeRow(one.started_at, node, one.operator, what, None)
    if facts.slow is None:
        return
    for logged in facts.slow.actions:
        what = f"{logged.command}: {logged.outcome or 'no outcome'}"
        yield ChangeRow(logged.began_at, node, logged.operator, what, logged.reason)
    for event in facts.slow.decided:
        error = event.error
        if error.decided_at is not None:
            what = f"skip event {error.address} of {error.dest or error.table}"
            yield ChangeRow(error.decided_at, node, error.decided_by, what, error.reason)
    for script in facts.slow.scripts:
        at = script.finished_at or script.started_at
        if at is not None:
            yield ChangeRow(at, node, None, f"script {script.name}: {script.state}", None)
