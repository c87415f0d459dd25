"""Pages of an endpoint: ``/metrics``, ``/healthz`` and ``/readyz`` of each kind of daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus

from londiste.daemon.durations import dhms
from londiste.metrics import exposition, samples
from londiste.metrics.cache import Cache, Outcome
from londiste.metrics.catalog import Sample
from londiste.metrics.collect import Cascade, Counted, Databases
from londiste.metrics.endpoint import Response, Routes
from londiste.monitor import verdict
from londiste.monitor.status import NodeStatus
from londiste.monitor.verdict import Allowed


def of_cascade(
    cache: Cache[Counted],
    own: Callable[[], Iterator[Sample]],
    max_lag: Callable[[], float],
) -> Routes:
    """Pages of a worker, or of ``run``.

    own -- samples of the process.  max_lag -- seconds up to which a node is ready.
    """

    def metrics() -> Iterator[Sample]:
        outcome = cache.get()
        yield from samples.process(outcome)
        if outcome.value is not None:
            yield from samples.cascade(outcome.value, Allowed(lag=max_lag()))
        yield from own()

    def ready() -> list[str]:
        return not_ready(cache.get(), max_lag())

    return _routes(metrics, ready)


def of_ticker(
    cache: Cache[Databases],
    own: Callable[[], Iterator[Sample]],
    late: Callable[[], list[str]],
) -> Routes:
    """Pages of a ticker; late -- its databases without a round of ticks."""

    def metrics() -> Iterator[Sample]:
        outcome = cache.get()
        complete = outcome.value is not None and outcome.value.complete
        yield from samples.process(replace(outcome, ok=outcome.ok and complete))
        if outcome.value is not None:
            yield from samples.databases(outcome.value)
        yield from own()

    def ready() -> list[str]:
        return [f"no round of ticks: {database}" for database in late()]

    return _routes(metrics, ready)


def of_consumer(
    cache: Cache[Databases], own: Callable[[], Iterator[Sample]], max_lag: float
) -> Routes:
    """Pages of a consumer, a lake or a dispatcher; max_lag -- seconds up to which it is ready."""

    def metrics() -> Iterator[Sample]:
        outcome = cache.get()
        yield from samples.process(outcome)
        for database, facts in (outcome.value.facts if outcome.value else {}).items():
            if facts is not None:
                yield from samples.queues(database, facts)
        yield from own()

    def ready() -> list[str]:
        return consumer_not_ready(cache.get(), max_lag)

    return _routes(metrics, ready)


def consumer_not_ready(outcome: Outcome[Databases], max_lag: float) -> list[str]:
    """Pure: why a consumer is not up to date within the limit."""
    if outcome.value is None or not outcome.ok:
        return ["the database does not answer"]
    (facts,) = outcome.value.facts.values()
    if facts is None or not facts.consumers:
        return ["not registered"]
    found = []
    for one in facts.consumers:
        if one.lost:
            found.append(f"consumer {one.name}: its position is lost")
        elif one.paused is not None:
            found.append(f"consumer {one.name}: paused")
        elif one.lag is None and one.pending:
            found.append(f"consumer {one.name}: lag unknown")
        elif one.lag is not None and one.pending and one.lag > max_lag:
            found.append(
                f"consumer {one.name}: behind by {dhms(one.lag)}, allowed: {dhms(max_lag)}"
            )
    return found


def not_ready(outcome: Outcome[Counted], max_lag: float) -> list[str]:
    """Pure: why the nodes are not in sync within the limit; names and numbers only."""
    if outcome.value is None or not outcome.ok:
        return ["the databases do not answer"]
    found: Cascade = outcome.value.cascade
    nodes = verdict.chosen(found.status, found.only)
    lines = [line for node in nodes for line in _not_ready(node, max_lag)]
    return lines + [
        f"node {name}: not in the cascade" for name in verdict.missing(found.status, found.only)
    ]


def _not_ready(node: NodeStatus, max_lag: float) -> Iterator[str]:
    def line(text: str) -> str:
        return f"node {node.name}: {text}"

    # How long events may wait for a tick is a matter of the limit.
    if node.worker_state != "ok":
        yield line(node.worker_state)
        return
    if node.unreachable:
        yield line("unreachable")
        return
    if node.tables is not None and node.tables.half:
        yield line(f"{node.tables.half} tables are not in sync")
    if node.behind is None or node.behind.seconds is None:
        yield line("lag unknown")
    elif node.behind.seconds > max_lag:
        yield line(f"behind by {dhms(node.behind.seconds)}, allowed: {dhms(max_lag)}")


def _routes(metrics: Callable[[], Iterator[Sample]], ready: Callable[[], list[str]]) -> Routes:
    def metrics_page() -> Response:
        return Response(exposition.render(metrics()), type=exposition.content_type())

    def readyz() -> Response:
        reasons = ready()
        if not reasons:
            return Response(b"ok\n")
        text = "".join(f"{reason}\n" for reason in reasons)
        return Response(text.encode("utf-8", "replace"), HTTPStatus.SERVICE_UNAVAILABLE)

    return {"/metrics": metrics_page, "/healthz": lambda: Response(b"ok\n"), "/readyz": readyz}
