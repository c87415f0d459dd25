"""Databases that a command gets as connection strings: what it uses, and what nodes may store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from psycopg import conninfo

from londiste.cascade.commands import location_check
from londiste.dsn import PLACE_PARAMETERS, parsed
from londiste.orchestration.connections import Connections
from londiste.settings import WorkerSettings


@dataclass(frozen=True)
class Endpoint:
    """The database of a node.

    dsn -- as given; may contain a password.  location -- without it; stored on the nodes.
    worker -- the consumer of its worker.
    """

    name: str
    dsn: str = field(repr=False)
    location: str
    worker: str

    @property
    def complete(self) -> str:
        """The given string, with the database that the location has."""
        return conninfo.make_conninfo(self.location, **parameters(self.dsn))


def connections(
    name: str,
    settings: WorkerSettings,
    known: Collection[Endpoint],
    *,
    event_triggers: bool = True,
) -> Connections:
    """Connections for a command, which reach all by the given connection strings.

    event_triggers -- as in ``Connections``.
    """
    sites = Connections(
        name=name,
        lock_timeout=settings.lock_timeout,
        answer_seconds=settings.answer_seconds,
        known={one.location: one.dsn for one in known},
        event_triggers=event_triggers,
    )
    sites.call_them({one.dsn: one.name for one in known})
    return sites


def worker_settings(
    shared: WorkerSettings, queue: str, of: Endpoint, provider: Endpoint, **more: Any
) -> WorkerSettings:
    """The settings of a node's worker, and of compare.

    shared -- of the command: what was given there, and its engine.
    """
    given = {
        key: getattr(shared, key)
        for key in WorkerSettings.model_fields
        if key in shared.model_fields_set
    }
    return WorkerSettings(
        **{
            **given,
            "engine": shared.engine,
            "db": of.dsn,
            "queue_name": queue,
            "job_name": of.worker,
            "consumer_name": "",
            # Only for the provider: a changed location gets none of its secrets.
            "remote_extra_connstr": provider.complete,
            "pidfile": None,
            **more,
        }
    )


def parameters(dsn: str) -> dict[str, str]:
    """The parameters of a connection string.  Raises BadOption."""
    return {key: str(value) for key, value in parsed(dsn).items()}


def public(dsn: str, **more: str) -> str:
    """What nodes may store of a connection string, with other parameters added."""
    kept = {key: value for key, value in parameters(dsn).items() if key in PLACE_PARAMETERS}
    return conninfo.make_conninfo("", **{**kept, **more})


def endpoint(name: str, dsn: str, worker: str, **more: str) -> Endpoint:
    """The database of a connection string, which names its place (``dsn.with_environment``).

    Raises BadOption.

    more -- parameters that the stored location needs besides those of the string.
    """
    return Endpoint(name, dsn, location_check.check_location(public(dsn, **more)), worker)
