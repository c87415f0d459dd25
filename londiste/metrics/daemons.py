"""Endpoints of the daemons: which facts each of them shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from londiste.daemon.supervisor import Supervisor
from londiste.db.connection import describe_dsn
from londiste.lake.settings import LakeSettings
from londiste.metrics import collect, pages
from londiste.metrics.cache import Cache
from londiste.metrics.catalog import Sample
from londiste.metrics.collect import Cascade, Counted
from londiste.metrics.endpoint import Routes
from londiste.metrics.tally import ChildTallies, ConsumerTally, TickerTally, WorkerTally
from londiste.monitor.place import Place
from londiste.settings import WorkerSettings
from londiste.ticker.service import Service

#: Seconds beyond its period after which a round of ticks is late.
_TICK_GRACE = 30.0


def of_worker(current: Callable[[], WorkerSettings], tally: WorkerTally) -> Routes:
    """The pages of a worker: its own node, and its batches."""

    def found() -> Cascade:
        return collect.cascade([Place.of(current())], only_local=True)

    cache = Cache(collect.counting(found))
    return pages.of_cascade(cache, tally.samples, lambda: current().metrics_max_lag)


def of_ticker(service: Service, tally: TickerTally) -> Routes:
    """The pages of a ticker: the queues of its databases, and its ticks."""

    def late() -> list[str]:
        allowed = service.duty.periods.tick + _TICK_GRACE
        served = service.served()
        found = tally.late(served, allowed)
        # At the start it is ready with its first ticks.
        found += [d for d in served if d not in found and not tally.ticked(d)]
        return [describe_dsn(dsn) for dsn in found] if served else ["no database is served yet"]

    def own() -> Iterator[Sample]:
        behind = len(tally.late(service.served(), service.duty.periods.tick + _TICK_GRACE))
        yield from tally.samples()
        for state, number in (("ok", len(service.served()) - behind), ("late", behind)):
            yield Sample("londiste_ticker_databases", number, {"state": state})

    return pages.of_ticker(Cache(lambda: collect.databases(service.served())), own, late)


def of_consumer(
    dsn: Callable[[], str],
    queue: str,
    is_own: Callable[[str], bool],
    tally: ConsumerTally,
    max_lag: float,
) -> Routes:
    """The pages of a consumer: its position in its queue, and its batches.

    is_own -- whether a consumer of the queue is this one; a lake has one for each table.
    """
    cache = Cache(lambda: collect.readers(dsn(), queue, is_own))
    return pages.of_consumer(cache, tally.samples, max_lag)


def of_lake(settings: LakeSettings, tally: ConsumerTally) -> Routes:
    """The pages of a lake, or of a dispatcher into files: a consumer for each table."""
    own = f"{settings.consumer}."
    return of_consumer(
        lambda: settings.db,
        settings.queue_name,
        lambda name: name.startswith(own),
        tally,
        settings.metrics_max_lag,
    )


def of_run(
    places: Callable[[], list[Place]],
    chosen: Collection[str],
    supervisor: Supervisor,
    tallies: ChildTallies,
    max_lag: float,
) -> Routes:
    """The pages of ``londiste run``: the whole cascade, and its processes.

    chosen -- nodes that it runs; only these are shown, if there are any.
    """

    def found() -> Cascade:
        all_nodes = collect.cascade(places())
        return collect.only(all_nodes, chosen) if chosen else all_nodes

    def own() -> Iterator[Sample]:
        for name, (runs, failed) in sorted(supervisor.health().items()):
            yield Sample("londiste_run_daemon_up", runs, {"daemon": name})
            yield Sample("londiste_run_failures_total", failed, {"daemon": name})
        yield from tallies.samples()

    return pages.of_cascade(Cache[Counted](collect.counting(found)), own, lambda: max_lag)
