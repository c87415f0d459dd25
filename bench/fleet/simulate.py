"""What a fleet does by its description and its costs: shares, lag, backlog, disk, daemons.

Each machine and each worker has a cost per event and a cost per cycle; a cycle is a tick and the
batch that follows it.  Events have to be processed at their rate.  Batches yield: where time is
short the cycle becomes longer, as a worker joins ticks and the ticker slows down with its
consumers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bench.fleet.model import Costs, Fleet

#: Share of a resource that is planned for; the rest is for what the model does not know.
HEADROOM = 0.7
HOUR = 3600.0
GB = 1e9


@dataclass(frozen=True)
class Resource:
    """Processor time of one kind of machine, or of one worker, which is one core.

    event -- seconds for one event a second in each queue.
    cycle -- seconds for one tick and batch of each queue.
    drain -- seconds for one event of the subscriber that was off, in each of its queues.
    rest -- cores that idle daemons use.
    """

    name: str
    cores: float
    event: float
    cycle: float
    drain: float
    rest: float = 0.0

    def needed(self, rate: float) -> float:
        """Share that the events need, however long the cycles are."""
        return (self.rest + rate * self.event) / self.cores

    def shortest(self, rate: float) -> float:
        """Seconds of the shortest cycle for which time is left; infinite if none is."""
        left = 1 - self.needed(rate)
        return self.cycle / (self.cores * left) if left > 0 else math.inf

    def busy(self, rate: float, cycle: float) -> float:
        """Share that events and cycles use."""
        return self.needed(rate) + self.cycle / (self.cores * cycle)


@dataclass(frozen=True)
class Use:
    """A resource at the mean and at the peak: share in use, and share that events need."""

    name: str
    mean: float
    peak: float
    needed: float
    advice: str = ""


@dataclass(frozen=True)
class Forecast:
    """What is to be expected; times in seconds, infinite where a backlog only grows."""

    uses: Sequence[Use]
    first: Use
    direct: int
    over_branches: int
    lag: float
    lag_at_peak: float
    peak_is_worked_off: float
    disk: float
    disk_after_outage: float
    backlog: float
    drain: float
    drain_rate: float
    daemons: int
    memory: float
    processor: float
    processor_at_peak: float


def forecast(fleet: Fleet, costs: Costs) -> Forecast:
    """Simulates a fleet."""
    found = resources(fleet, costs)
    mean, peak = fleet.rate, fleet.rate_of_peak
    cycles = [cycle(fleet, found, rate) for rate in (mean, peak)]
    event = (fleet.event_bytes + costs.overhead) * fleet.queues_of_server
    disk = event * mean * fleet.rotation_hours * HOUR * fleet.event_tables / GB
    after = disk + event * mean * fleet.outage_hours * HOUR / GB
    uses = [
        Use(one.name, one.busy(mean, cycles[0]), one.busy(peak, cycles[1]), one.needed(peak))
        for one in found.values()
    ]
    uses += _space(fleet, costs, after)
    uses = [replace(use, advice=advice(fleet, costs, use)) for use in uses]
    lag_at_peak, worked_off = _after_peak(
        fleet,
        max(one.needed(peak) for one in found.values()),
        lag(fleet, costs, found, peak),
    )
    spare = max(0.0, _spare(found.values(), mean))
    backlog = mean * fleet.outage_hours * HOUR
    # Without the provider: the cycle that workers can reach, for which it has to have time.
    names = [name for name in found if name.endswith("worker")]
    every = cycle(fleet, {name: found[name] for name in names}, peak)
    direct = carried(fleet, costs, found["provider"], fleet.direct, every)
    below = carried(fleet, costs, _branch(fleet, costs, fleet.below), fleet.below, every)
    machine = found["worker machine"]
    cores = machine.cores * fleet.worker_machines
    return Forecast(
        uses=uses,
        first=max(uses, key=lambda use: (use.needed, use.peak)),
        direct=direct,
        over_branches=direct * below,
        lag=lag(fleet, costs, found, mean),
        lag_at_peak=lag_at_peak,
        peak_is_worked_off=worked_off,
        disk=disk,
        disk_after_outage=after,
        backlog=backlog * fleet.queues_of_server,
        drain=costs.start + (backlog / spare if spare else math.inf),
        drain_rate=(mean + spare) * fleet.queues_of_server,
        daemons=fleet.workers + tickers(fleet),
        memory=(fleet.workers * costs.worker_mb + tickers(fleet) * costs.ticker_mb) / 1000,
        processor=machine.busy(mean, cycles[0]) * cores,
        processor_at_peak=machine.busy(peak, cycles[1]) * cores,
    )


def tickers(fleet: Fleet) -> int:
    """Ticker processes: one for each server with queues."""
    return fleet.provider_servers * (1 + fleet.branches)


def resources(fleet: Fleet, costs: Costs) -> dict[str, Resource]:
    """All that can be short of time, by name."""
    queues = fleet.queues_of_server
    us, ms = 1e-6, 1e-3
    found = {
        "provider": Resource(
            "processor of a provider",
            fleet.provider_cores,
            queues * (costs.capture + fleet.direct * costs.read) * us,
            queues * (costs.tick_source + fleet.direct * costs.batch_source) * ms,
            0.0 if fleet.branches else queues * costs.read * us,
        )
    }
    if fleet.branches:
        found["branch"] = _branch(fleet, costs, fleet.below)
    found["subscriber"] = Resource(
        "processor of a subscriber",
        fleet.subscriber_cores,
        queues * costs.apply * us,
        queues * costs.batch_target * ms,
        queues * costs.apply * us,
    )
    workers = fleet.workers / fleet.worker_machines
    ticks = fleet.databases * fleet.queues / fleet.worker_machines
    found["worker machine"] = Resource(
        "processor of a worker machine",
        fleet.worker_cores,
        workers * costs.program * us,
        (workers * costs.batch_program + ticks * costs.tick_program) * ms,
        queues / fleet.worker_machines * costs.program * us,
        workers * costs.worker_rest / 100,
    )
    event = costs.overlap * (costs.read + costs.program + costs.apply) * us
    each = _batch(fleet, costs)
    found["worker"] = Resource(
        "worker of a subscriber",
        1,
        event + each / fleet.batch_events,
        each,
        event + each / fleet.batch_events,
    )
    if fleet.branches:
        found["branch worker"] = Resource(
            "worker of a branch", 1, event + costs.overlap * costs.forward * us, each, 0.0
        )
    return found


def _branch(fleet: Fleet, costs: Costs, readers: int) -> Resource:
    queues = fleet.queues_of_server
    return Resource(
        "processor of a branch",
        fleet.branch_cores,
        queues * (costs.apply + costs.forward + readers * costs.read) * 1e-6,
        queues * (costs.batch_target + readers * costs.batch_source) * 1e-3,
        queues * costs.read * 1e-6,
    )


def _batch(fleet: Fleet, costs: Costs) -> float:
    """Seconds of a batch besides its events: two round trips, a commit, the statements."""
    statements = costs.batch_source + costs.batch_program + costs.batch_target
    return (2 * fleet.round_trip_ms + fleet.fsync_ms + costs.overlap * statements) / 1000


def tick_wait(fleet: Fleet, rate: float) -> float:
    """Seconds within which an event gets its tick."""
    return min(fleet.tick_seconds, fleet.tick_events / rate)


def cycle(fleet: Fleet, found: dict[str, Resource], rate: float) -> float:
    """Seconds from one batch of a queue to the next: of the ticks, or of the slowest resource."""
    ticks = max(tick_wait(fleet, rate), 1 / rate)
    return max(ticks, *(one.shortest(rate) for one in found.values()))


def lag(fleet: Fleet, costs: Costs, found: dict[str, Resource], rate: float) -> float:
    """Mean seconds from the commit until the change is visible on a subscriber."""
    every = cycle(fleet, found, rate)
    if math.isinf(every):
        return math.inf
    wait = tick_wait(fleet, rate)
    tick = (fleet.fsync_ms + costs.tick_source + costs.tick_program) / 1000
    # With several cores work waits only when all of them are in use.
    slower = 1 / (1 - max(one.needed(rate) ** one.cores for one in found.values()))
    events = max(1.0, rate * every)
    hops = [found["worker"]] + ([found["branch worker"]] if fleet.branches else [])
    late = max(0.0, every - max(wait, 1 / rate)) / 2
    batches = sum(late + slower * (hop.cycle + events * hop.event) for hop in hops)
    return float(wait / 2 + tick + batches)


def _after_peak(fleet: Fleet, slowest: float, lag_of_peak: float) -> tuple[float, float]:
    """Lag at the end of the peak, and seconds after it until the backlog is processed."""
    if slowest < 1:
        return lag_of_peak, 0.0
    processed = fleet.rate_of_peak / slowest
    backlog = (fleet.rate_of_peak - processed) * fleet.peak_hours * HOUR
    left = processed - fleet.rate_besides
    rest = (24 - fleet.peak_hours) * HOUR
    worked_off = backlog / left if left > 0 else math.inf
    # What is left when the next peak begins is there for good.
    return backlog / processed, worked_off if worked_off <= rest else math.inf


def _spare(found: Iterable[Resource], rate: float) -> float:
    """Events a second, above ``rate``, that all resources allow for one subscriber's queues."""
    return min((1 - one.needed(rate)) * one.cores / one.drain for one in found if one.drain)


def carried(fleet: Fleet, costs: Costs, server: Resource, readers: int, every: float) -> int:
    """Nodes that can read each queue of a server at the peak, with headroom.

    server -- with the cost of this number of readers.
    every -- seconds of a cycle.
    """
    queues = fleet.queues_of_server
    read, batch = queues * costs.read * 1e-6, queues * costs.batch_source * 1e-3
    each = fleet.rate_of_peak * read + batch / every
    own = server.busy(fleet.rate_of_peak, every) * server.cores - readers * each
    return max(0, math.floor((HEADROOM * server.cores - own) / each)) if each else 0


def _space(fleet: Fleet, costs: Costs, disk: float) -> list[Use]:
    """Memory of the workers, and disk for the events of the outage if its size is given."""
    workers = fleet.workers / fleet.worker_machines / 1000 / fleet.worker_memory_gb
    full = workers * costs.worker_mb
    found = [Use("memory of a worker machine", workers * costs.worker_rest_mb, full, full)]
    if fleet.event_disk_gb:
        share = disk / fleet.event_disk_gb
        found.append(Use("disk of event tables after the outage", share, share, share))
    return found


def advice(fleet: Fleet, costs: Costs, use: Use) -> str:
    """What to change about a resource; empty if it has headroom."""
    if use.needed <= HEADROOM:
        # Only batches use it, and they yield.
        longer = (
            f"ticker_max_lag above {fleet.tick_seconds:g} s: events alone need {use.needed:.0%}"
        )
        return longer if use.peak > HEADROOM and use.name.startswith("processor") else ""
    times = math.ceil(use.needed / HEADROOM)
    match use.name:
        case "processor of a provider":
            if fleet.direct * costs.read > costs.capture and fleet.direct > 2:
                return f"branches, from which the {fleet.direct} subscribers read"
            return f"spread the databases over {fleet.provider_servers * times} servers"
        case "processor of a branch":
            if fleet.below * costs.read > costs.apply + costs.forward:
                return f"{fleet.branches * times} branches"
            return f"spread the databases over {fleet.provider_servers * times} servers"
        case "processor of a subscriber":
            return f"spread the databases over {fleet.provider_servers * times} servers"
        case "worker of a subscriber" | "worker of a branch":
            return (
                f"split each queue into {times}, tables with foreign keys between them together;"
                " parallel apply for large batches"
            )
        case "disk of event tables after the outage":
            return f"{fleet.event_disk_gb * use.needed / HEADROOM:.0f} GB, or a shorter outage"
    return f"{fleet.worker_machines * times} worker machines"
