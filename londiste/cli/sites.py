"""The connections of a command that works on several nodes."""

from __future__ import annotations

from londiste.cascade.plan import Sites
from londiste.settings import NodeSettings

#: Seconds over ``lock_timeout`` in which a server has to answer a command that changes the cascade.
_ANSWER_SECONDS = 20.0


def sites(settings: NodeSettings, *, bounded: bool = False) -> Sites:
    """Connections for a command, with the limits of the settings.

    bounded -- no statement of the command may take longer than locks may be waited for, and 20 s:
        a server that does not answer then is taken for unreachable.
    """
    return Sites(
        name="londiste admin",
        lock_timeout=settings.lock_timeout,
        extra=settings.remote_extra_connstr,
        answer_seconds=settings.lock_timeout + _ANSWER_SECONDS if bounded else None,
    )
