"""Daemons of a migration: the ticker and two workers, as children of the command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from londiste.db.connection import Connection, session
from londiste.migrate.databases import MigrateSettings, Pair
from londiste.orchestration import daemons
from londiste.orchestration.daemons import TICKER, Daemons, Need, ticker_runs, worker_runs
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


def running(pair: Pair, conn: dict[str, Connection]) -> set[str]:
    """The daemons that run, started by any process; ``conn`` by the names of the nodes."""
    found = set()
    if all(ticker_runs(conn[side.name]) for side in (pair.old, pair.new)):
        found.add(TICKER)
    found |= {s.worker for s in (pair.old, pair.new) if worker_runs(conn[s.name], pair.queue)}
    return found


def _children(pair: Pair, verbose: Sequence[str]) -> Daemons:
    def look() -> set[str]:
        with contextlib.ExitStack() as stack:
            conn = {
                side.name: stack.enter_context(
                    session(
                        side.dsn,
                        name="londiste migrate",
                        autocommit=True,
                        answer_seconds=pair.answer_seconds,
                    )
                )
                for side in (pair.old, pair.new)
            }
            return running(pair, conn)

    return Daemons(
        needs(pair, verbose=verbose),
        look,
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
