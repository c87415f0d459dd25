"""What of a node waits for an operator, why, and the command that continues it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.progress import POSITION_LOST_HINT, register_again
from londiste.cascade.switching import operation_log
from londiste.db.connection import Connection
from londiste.db.names import argument
from londiste.pgq import position_check
from londiste.replication.ddl.failures import choices
from londiste.replication.ddl.sqlapi import State, get_scripts
from londiste.replication.tablesync import wait


class Held(NamedTuple):
    """What waits for an operator, why, and the command that continues it.

    node -- of the remedy, where that is a hint of this node; '': it is read anywhere.
    lost -- it is the position of a worker.
    """

    what: str
    reason: str
    remedy: str
    node: str = ""
    lost: bool = False


def position_lost(node: str, source: str, reason: str) -> Held:
    """Of a node whose position does not belong to the queue of the source."""
    hint = POSITION_LOST_HINT
    if reason == position_check.UNREGISTERED:
        hint = register_again(source)
    reason = f"{node}: its position at {source} is lost: {reason}"
    return Held(f"the worker of {node}", reason, hint, node, lost=True)


def paused_ticker(root: str, queue: str) -> Held:
    return Held(
        f"the ticker of {root}",
        f"{root}: parameter ticker_paused of queue {queue} is set",
        f"londiste queue config {argument(queue)} ticker_paused=no",
    )


def of_worker(conn: Connection, queue: str, target: Endpoint, *, failing: bool) -> Iterator[Held]:
    """What waits for an operator of a target's worker.

    failing -- the worker has an error: it may be that of an event, a script or its position.
    """
    why = wait.find(conn, queue)
    name = target.name
    worker = f"the worker of {name}"
    lost = position_check.lost(conn, queue, target.worker) if failing else None
    if lost is not None and lost.source == nodes.get_node_info(conn, queue).provider:
        yield position_lost(name, lost.source, lost.reason)
    # One of before may be mended: the worker tries the event again.
    if why is not None and why.state == "halted" and failing:
        yield Held(worker, f"{name}: {why.reason}", "londiste events show")
    # A change of the cascade resumes the worker that it has paused.
    if why is not None and why.state == "paused" and operation_log.find(conn, queue) is None:
        yield Held(worker, f"{name}: paused", f"londiste resume --node {argument(name)}")
    for script in get_scripts(conn, queue) if failing else ():
        if script.state is State.FAILED:
            reason = script.error or "it has failed"
            yield Held(f"script {script.name} on {name}", reason, choices(script.name))
