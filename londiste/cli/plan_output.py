"""Connections of commands, and execution or dry run of their steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from londiste.cascade import copied_database
from londiste.cli import errors, output
from londiste.cli.documents import Done
from londiste.cli.options import Execution
from londiste.db.connection import Connection
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.settings import NodeSettings

if TYPE_CHECKING:
    from londiste.pgq.admin import QueueChange


def sites(settings: NodeSettings, *, bounded: bool = False) -> Connections:
    """Connections for a command that works on several nodes, with the limits of the settings.

    bounded -- no statement of the command may take longer than locks may be waited for, and
        ``response_timeout``: a server that does not answer then is taken for unreachable.
    """
    return Connections(
        name="londiste admin",
        lock_timeout=settings.lock_timeout,
        extra=settings.remote_extra_connstr,
        answer_seconds=settings.answer_seconds if bounded else None,
    )


@contextlib.contextmanager
def changing_sites(settings: NodeSettings, *, bounded: bool = False) -> Iterator[Connections]:
    """``sites`` of a command that changes something, also at other nodes.

    Raises StateError in a copy of the node's database.
    """
    with sites(settings, bounded=bounded) as where:
        copied_database.refuse(where.at(settings.db), settings.queue_name, where.reach)
        yield where


def execute_plan(steps: Sequence[Step], where: Connections, how: Execution) -> int:
    """Prints the remaining steps, or executes them; the number of executed steps."""
    if how.explain:
        output.steps(plan.remaining(steps, where), json_wanted=how.as_json)
        return 0
    with reported(how.as_json) as report:
        return plan.execute(steps, where, report)


def execute_changes(
    conn: Connection,
    changes: Sequence[QueueChange],
    how: Execution,
    after: Callable[[], object] = lambda: None,
) -> None:
    """Prints the changes of queues, or makes them in one transaction; ``conn`` is in autocommit.

    after -- called when they are committed; its error is printed together with what was done.
    """
    if how.explain:
        output.steps(changes, json_wanted=how.as_json)
        return
    with conn.transaction():
        for change in changes:
            change.act(conn)
    report_changes(changes, how, after)


def report_changes(
    changes: Sequence[QueueChange], how: Execution, after: Callable[[], object] = lambda: None
) -> None:
    """Prints the changes of queues that were made; ``after`` as in ``execute_changes``."""
    with reported(how.as_json) as report:
        for change in changes:
            report(change)
        after()


@contextlib.contextmanager
def reported(
    json_wanted: bool,
    document: Callable[[list[str]], Mapping[str, Any]] = lambda done: Done(done=done),
) -> Iterator[Callable[[output.Describes | str], None]]:
    """Collects and prints the executed steps; at the end they are the JSON answer.

    document -- makes the answer of the steps.

    After an error they are a part of its document.
    """
    done: list[str] = []

    def report(step: output.Describes | str) -> None:
        text = step if isinstance(step, str) else step.describe()
        done.append(text)
        output.message(text)

    with errors.also_told(done=done):
        yield report
    if json_wanted:
        output.as_json(document(done))
