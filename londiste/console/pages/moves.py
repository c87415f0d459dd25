"""Page Moves: changes of the cascade, migrations and scripts that are under way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from londiste.console.facts import Fact
from londiste.console.pages import common
from londiste.console.pages.common import MigrationRow, Page, Request
from londiste.replication.ddl.sqlapi import State


@dataclass(frozen=True)
class MoveRow:
    """An unfinished change of the cascade, as a node has recorded it.

    finish -- the command that finishes it.  undo -- what undoes it, where that is possible.
    """

    node: str
    move: str
    operator: str
    started: datetime
    finish: str
    undo: str | None


@dataclass(frozen=True)
class ScriptRow:
    """A script of ``londiste execute`` that is not done on a node.

    state -- pending, running, retry, or failed: it waits for a decision.
    statement -- number of the one that failed.
    """

    node: str
    script: str
    state: str
    since: datetime | None
    statement: int | None


@dataclass(frozen=True, kw_only=True)
class MovesPage(Page):
    """What is under way, and how it is finished."""

    moves: tuple[MoveRow, ...] = ()
    scripts: tuple[ScriptRow, ...] = ()
    migration: MigrationRow | None = None


def build(request: Request) -> MovesPage:
    """The values of the page."""
    moves, scripts = [], []
    for name, facts in common.nodes(request):
        one = facts.operation
        if one is not None:
            finish = one.command(name)
            can_undo = "--rollback" in one.way_out(name)
            moves.append(
                MoveRow(
                    node=name,
                    move=f"{one.kind.value} {one.node} to {one.new}",
                    operator=one.operator,
                    started=one.started_at,
                    finish=finish,
                    undo=f"{finish} --rollback" if can_undo else None,
                )
            )
        for script in facts.slow.scripts if facts.slow is not None else ():
            if not State(script.state).over:
                since = script.started_at
                scripts.append(
                    ScriptRow(name, script.name, str(script.state), since, script.statement)
                )
    return MovesPage(
        **common.head(request, "londiste status; londiste execute status", Fact.MOVE, Fact.SCRIPTS),
        moves=tuple(moves),
        scripts=tuple(scripts),
        migration=request.migration,
    )
