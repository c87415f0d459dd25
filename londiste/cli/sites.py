"""The connections of a command that works on several nodes."""

from __future__ import annotations

from londiste.cascade.plan import Sites
from londiste.settings import NodeSettings


def sites(settings: NodeSettings) -> Sites:
    """Connections for a command, with the limits of the settings."""
    return Sites(
        name="londiste admin",
        lock_timeout=settings.lock_timeout,
        extra=settings.remote_extra_connstr,
    )
