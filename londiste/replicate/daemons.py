"""Daemons of ``londiste replicate``: a ticker of the source, and the worker of each node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from londiste.orchestration import daemons
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import (
    TICKER,
    Daemons,
    Found,
    Need,
    Question,
    ticker_runs,
    worker_blocked,
    worker_runs,
)
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.settings import TickerSettings

_KEYS = frozenset(ReplicateSettings.model_fields) | frozenset(TickerSettings.model_fields)


def needs(replications: Sequence[Replication], *, verbose: Sequence[str] = ("-q",)) -> list[Need]:
    """The daemons that have to run: one ticker for all queues, and the workers of each."""
    databases = {"databases": replications[0].source.dsn}
    found = [daemons.need(TICKER, "ticker", databases, _KEYS, verbose=verbose)]
    for replication in replications:
        for one in replication.workers:
            settings = replication.worker_settings(one)
            values = {key: getattr(settings, key) for key in settings.model_fields_set}
            found.append(daemons.need(one.worker, "worker", values, _KEYS, verbose=verbose))
    return found


def ask(sites: Connections, replications: Sequence[Replication]) -> Found:
    """Which daemons run, started by any process; each database is asked on its own."""
    return daemons.ask(
        (
            Question(TICKER, replications[0].source.dsn, ticker_runs),
            *(
                Question(one.worker, one.dsn, partial(worker_runs, queue=replication.queue))
                for replication in replications
                for one in replication.all
            ),
        ),
        sites.at,
    )


def blocked(sites: Connections, replications: Sequence[Replication]) -> dict[str, str]:
    """The workers that cannot run because a session of another role holds their lock, and which."""
    found = {
        one.worker: worker_blocked(sites.at(one.dsn), replication.queue)
        for replication in replications
        for one in replication.all
    }
    return {worker: text for worker, text in found.items() if text}


def children(replications: Sequence[Replication], *, verbose: Sequence[str] = ("-q",)) -> Daemons:
    """The daemons as children of this process; those that run already are kept."""

    def asked() -> Found:
        with replications[0].sites() as sites:
            return ask(sites, replications)

    return Daemons(
        needs(replications, verbose=verbose),
        asked,
        hint="check the messages above; then repeat the command",
    )
