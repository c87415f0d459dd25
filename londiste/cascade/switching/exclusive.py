"""Locks of a command at all nodes that it changes, so that one command at a time changes them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from londiste.cascade.switching import operation_log
from londiste.cascade.switching.steps.notes import AtNode, Begin
from londiste.errors import TransientError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


def one_at_a_time(where: Connections, steps: Sequence[Step]) -> None:
    """Locks the command at each node that takes part; nodes that do not answer are ignored.

    In the order of their names, so that of two commands one succeeds.
    """
    for step in steps:
        if isinstance(step, Begin):
            operation_log.require_notes(where.at(step.at.dsn), step.at.name)
    places = {(s.at.name, s.at.dsn, s.queue) for s in steps if isinstance(s, AtNode)}
    for name, dsn, queue in sorted(places):
        with contextlib.suppress(TransientError):
            where.alone(dsn, name, queue)
