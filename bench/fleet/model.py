"""Description of a fleet, and what one event, tick, batch and daemon costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Model(BaseModel):
    """Known keys with values of their type only, and none that is infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Fleet(_Model):
    """Databases with equal queues; all queues have their peak at the same time."""

    databases: int = Field(1, gt=0, description="databases that are replicated")
    queues: int = Field(1, gt=0, description="queues of a database")
    subscribers: int = Field(
        1, gt=0, description="subscribers of a queue, each on a server of its own"
    )
    branches: int = Field(0, ge=0, description="branches between provider and subscribers; 0: none")
    workload: Literal["rows", "packed", "hot"] = Field(
        "rows", description="changes: rows, packed (bulk statements) or hot (one hot table)"
    )
    rate: float = Field(100, gt=0, description="changed rows a second in a queue, mean of a day")
    peak: float = Field(4, ge=1, description="rate of the daily peak, as a multiple of the mean")
    peak_hours: float = Field(2, ge=0, le=24, description="hours of the daily peak")
    event_bytes: float = Field(
        190, ge=0, description="bytes of all texts of an event, for each changed row"
    )
    tick_seconds: float = Field(0.005, gt=0, description="ticker_max_lag of the queues, seconds")
    tick_events: float = Field(500, gt=0, description="ticker_max_count of the queues")
    batch_events: float = Field(
        40_000, gt=0, description="events that a leaf that lags takes in one batch"
    )
    rotation_hours: float = Field(2, ge=0, description="rotation_period of the queues, hours")
    event_tables: int = Field(3, ge=2, description="ntables of the queues")
    provider_servers: int = Field(1, gt=0, description="servers that the databases are spread over")
    provider_cores: int = Field(8, gt=0, description="cores of a server of the provider")
    branch_cores: int = Field(8, gt=0, description="cores of a server of branches")
    subscriber_cores: int = Field(8, gt=0, description="cores of a server of subscribers")
    worker_machines: int = Field(1, gt=0, description="machines with the workers")
    worker_cores: int = Field(8, gt=0, description="cores of a machine with workers")
    worker_memory_gb: float = Field(32, gt=0, description="memory of a machine with workers, GB")
    event_disk_gb: float = Field(
        0, ge=0, description="disk for event tables of a server, GB; 0: not given"
    )
    round_trip_ms: float = Field(
        0.5, ge=0, description="round trip between worker and provider, ms"
    )
    fsync_ms: float = Field(2.5, ge=0, description="time in which a commit reaches the disk, ms")
    outage_hours: float = Field(
        62, ge=0, description="hours for which one subscriber is off; a weekend is 62"
    )

    @model_validator(mode="after")
    def _peak_is_part_of_the_day(self) -> Fleet:
        if self.rate_besides < 0:
            raise ValueError(
                f"peak {self.peak:g} for {self.peak_hours:g} hours is more than the changes of a"
                " day: lower peak or peak_hours"
            )
        return self

    @property
    def direct(self) -> int:
        """Nodes that read a queue of a provider."""
        return self.branches or self.subscribers

    @property
    def below(self) -> int:
        """Subscribers that read a queue of one branch."""
        return -(-self.subscribers // self.branches) if self.branches else 0

    @property
    def queues_of_server(self) -> float:
        """Queues that a server of the provider, of branches or of subscribers has."""
        return self.databases * self.queues / self.provider_servers

    @property
    def workers(self) -> int:
        """Worker processes of the fleet."""
        return self.databases * self.queues * (self.branches + self.subscribers)

    @property
    def rate_of_peak(self) -> float:
        """Changed rows a second in a queue during the peak."""
        return self.rate * self.peak

    @property
    def rate_besides(self) -> float:
        """Changed rows a second in a queue outside the peak."""
        left = self.rate * 24 - self.rate_of_peak * self.peak_hours
        return self.rate if self.peak == 1 else left / max(24 - self.peak_hours, 1e-9)


REPLAY = "docs/benchmarks.md, Replay"
CAPTURE = "docs/benchmarks.md, Capture"
PACED = "docs/design/scale.md, A plan for a fleet: 20 transactions a second"


def cost(default: float, unit: str, source: str) -> Any:
    """A measured figure: its unit and its source."""
    return Field(default, ge=0, title=unit, description=source)


class Costs(_Model):
    """Measured figures, with the workload ``rows`` as default."""

    capture: float = cost(16, "µs/row", f"{CAPTURE}: row form, UPDATE")
    read: float = cost(2.3, "µs/row", f"{REPLAY}: rows, source")
    program: float = cost(3.6, "µs/row", f"{REPLAY}: rows, program")
    apply: float = cost(6.8, "µs/row", f"{REPLAY}: rows, target")
    forward: float = cost(
        3.7, "µs/row", "docs/benchmarks.md, The queue beside a job table: insert_events"
    )
    overlap: float = cost(0.73, "clock/processor", f"{REPLAY}: rows, 9.26 of 12.7 µs")
    tick_source: float = cost(0.8, "ms/tick", f"{PACED}, source; half of it")
    tick_program: float = cost(0.6, "ms/tick", f"{PACED}, ticker")
    batch_source: float = cost(0.8, "ms/batch", f"{PACED}, source; half of it")
    batch_program: float = cost(1.8, "ms/batch", f"{PACED}, worker")
    batch_target: float = cost(1.5, "ms/batch", f"{PACED}, target")
    overhead: float = cost(
        80,
        "bytes/row",
        "event table: pointer 4, header 32, id, time and transaction 24, 4 lengths, index 16",
    )
    worker_mb: float = cost(92, "MB", f"{REPLAY}: rows, MB")
    worker_rest_mb: float = cost(57, "MB", "docs/benchmarks.md, Idle: worker")
    worker_rest: float = cost(0.13, "per cent of a core", "docs/benchmarks.md, Idle: worker")
    ticker_mb: float = cost(54, "MB", "docs/benchmarks.md, Idle: ticker")
    start: float = cost(0.4, "s", "docs/design/scale.md: worker: start, first batch")


#: Workload -> its figures where they are not those of ``rows``, and their sources.
WORKLOADS: Mapping[str, Mapping[str, tuple[float, str]]] = {
    "rows": {},
    "packed": {
        "capture": (2.61, f"{CAPTURE}: statement form, row of a bulk UPDATE"),
        "read": (0.6, f"{REPLAY}: packed, source"),
        "program": (2.0, f"{REPLAY}: packed, program"),
        "apply": (5.3, f"{REPLAY}: packed, target"),
        "overlap": (0.80, f"{REPLAY}: packed, 6.36 of 8.0 µs"),
        "overhead": (0.16, "80 bytes for a pack of 500 rows"),
        "worker_mb": (118, f"{REPLAY}: packed, MB"),
    },
    "hot": {
        "read": (2.0, f"{REPLAY}: hot, source"),
        "program": (2.8, f"{REPLAY}: hot, program"),
        "apply": (2.2, f"{REPLAY}: hot, target"),
        "overlap": (0.85, f"{REPLAY}: hot, 6.04 of 7.1 µs"),
        "worker_mb": (82, f"{REPLAY}: hot, MB"),
    },
}


def sources(workload: str) -> dict[str, tuple[str, str]]:
    """Name of a figure -> its unit and its source."""
    own = WORKLOADS[workload]
    return {
        name: (field.title or "", own[name][1] if name in own else field.description or "")
        for name, field in Costs.model_fields.items()
    }


def read(document: Mapping[str, Any]) -> tuple[Fleet, Costs]:
    """A fleet and its costs from a parsed description.

    Raises ValidationError with the keys that are unknown or have no usable value.
    """
    fleet = Fleet(**{name: value for name, value in document.items() if name != "costs"})
    known = {name: value for name, (value, _) in WORKLOADS[fleet.workload].items()}
    return fleet, Costs(**{**known, **document.get("costs", {})})
