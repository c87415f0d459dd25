"""A worker that works until nothing is left, and ends if only an operator can continue it."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cli.plan_output import sites
from londiste.replicate import state
from londiste.replication.worker.worker import Worker


def run_once(worker: Worker) -> None:
    """Raises the first error, and StateError for a copy or script that waits for an operator."""
    settings = worker.settings
    queue, known = settings.queue_name, list[Endpoint]()
    with sites(settings) as reach:

        def require_going() -> None:
            conn = reach.at(settings.db)
            if not known:
                node = nodes.get_worker_state(conn, queue)
                known.append(Endpoint(node.name, settings.db, "", node.worker))
                # Who repeats the command may have removed their cause.
                state.forget_errors_of(conn, queue, node.worker)
            seen = state.look_at_target(reach, known[0], queue)
            stopped = state.stop_waiting([seen], "the same command")
            if stopped is not None:
                raise stopped

        worker.run_once(require_going)
