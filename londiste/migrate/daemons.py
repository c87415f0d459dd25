"""Daemons of a migration: the ticker and two workers, as children of the command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from londiste.migrate.databases import MigrateSettings, Pair
from londiste.orchestration import daemons
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import (
    TICKER,
    Daemons,
    Found,
    Need,
    Question,
    ticker_runs,
    worker_runs,
)
from londiste.settings import TickerSettings

_KEYS = frozenset(MigrateSettings.model_fields) | frozenset(TickerSettings.model_fields)


def needs(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> list[Need]:
    """The daemons of a migration."""
    databases = "\n".join((pair.old.dsn, pair.new.dsn))
    found = [daemons.need(TICKER, "ticker", {"databases": databases}, _KEYS, verbose=verbose)]
    for side in (pair.old, pair.new):
        settings = pair.worker_settings(side)
        values = {key: getattr(settings, key) for key in settings.model_fields_set}
        found.append(daemons.need(side.worker, "worker", values, _KEYS, verbose=verbose))
    return found


def ask(sites: Connections, pair: Pair) -> Found:
    """Which daemons run, started by any process; each database is asked on its own."""
    sides = (pair.old, pair.new)
    runs = partial(worker_runs, queue=pair.queue)
    return daemons.ask(
        (
            # One ticker serves both.
            *(Question(TICKER, side.dsn, ticker_runs) for side in sides),
            *(Question(side.worker, side.dsn, runs) for side in sides),
        ),
        sites.at,
    )


def _children(pair: Pair, verbose: Sequence[str]) -> Daemons:
    def asked() -> Found:
        with pair.sites() as sites:
            return ask(sites, pair)

    return Daemons(
        needs(pair, verbose=verbose),
        asked,
        hint="check its log, here or where londiste migrate start runs; then repeat the command",
    )


@contextlib.contextmanager
def at_work(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> Iterator[Daemons]:
    """Ticker and workers run in the with block: running ones, and children of this process."""
    with kept(pair, verbose=verbose) as children:
        children.wait()
        yield children


@contextlib.contextmanager
def kept(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> Iterator[Daemons]:
    """For a command that monitors the daemons itself; its children end with the block."""
    with daemons.kept(_children(pair, verbose)) as children:
        yield children
