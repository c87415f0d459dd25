"""The connections of a command that works on several nodes."""

from __future__ import annotations

from londiste.orchestration.connections import Connections
from londiste.settings import NodeSettings


def sites(settings: NodeSettings, *, bounded: bool = False) -> Connections:
    """Connections for a command, with the limits of the settings.

    bounded -- no statement of the command may take longer than locks may be waited for, and
        ``response_timeout``: a server that does not answer then is taken for unreachable.
    """
    return Connections(
        name="londiste admin",
        lock_timeout=settings.lock_timeout,
        extra=settings.remote_extra_connstr,
        answer_seconds=patience(settings) if bounded else None,
    )


def patience(settings: NodeSettings) -> float:
    """Seconds for the answer to one statement of a command about nodes."""
    return settings.lock_timeout + settings.response_timeout
