"""Catalog of all metrics: name, kind, labels and help; docs/reference/metrics.md is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

#: Consumers of a queue with series of their own; the others are summed up.
MOST_CONSUMERS = 100
#: Databases of a ticker with series of their own.
MOST_DATABASES = 50
#: Name of the consumers that are summed up.
OTHERS = "(others)"

_NODE = ("queue", "node")
_QUEUE = ("database", "queue")
_CONSUMER = ("database", "queue", "consumer")
#: The kind of the process; of a child of ``run`` its name.
_DAEMON = ("daemon",)


class Kind(StrEnum):
    """Kinds of metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Group(StrEnum):
    """Where metrics come from; the value is the heading in the reference."""

    PROCESS = "Every endpoint"
    CASCADE = "Cascade: `worker`, `run`, `londiste metrics --once`"
    QUEUES = "Queues: all of these, `ticker`; of a consumer, lake or dispatcher its own queue"
    TICKER = "Process of the ticker; of `run` those that it starts"
    WORKER = "Process of the worker; of `run` those that it starts"
    CONSUMER = "Process of a consumer, lake or dispatcher; of `run` those that it starts"
    RUN = "Process of `londiste run`"


@dataclass(frozen=True)
class Metric:
    """One metric; ``help`` is one line."""

    name: str
    group: Group
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE


@dataclass(frozen=True)
class Histogram:
    """A distribution: events up to each limit (not cumulated), the rest last, and their sum."""

    limits: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True)
class Sample:
    """A value of a metric."""

    name: str
    value: float | Histogram
    labels: dict[str, str] = field(default_factory=dict)


METRICS = (
    Metric("londiste_build_info", Group.PROCESS, "Version of Londiste; always 1.", ("version",)),
    Metric(
        "londiste_collect_success",
        Group.PROCESS,
        "1 if the databases answered, 0 if the values from them are missing or old.",
    ),
    Metric("londiste_collect_age_seconds", Group.PROCESS, "Age of the values from the databases."),
    Metric("londiste_collect_duration_seconds", Group.PROCESS, "Duration of the last collection."),
    Metric(
        "londiste_status",
        Group.CASCADE,
        "Verdict of status --check: 0 ok, 1 warning, 2 critical.",
        ("queue",),
    ),
    Metric(
        "londiste_findings",
        Group.CASCADE,
        "Findings of status --check, by kind and severity; about the cascade: node is empty.",
        (*_NODE, "kind", "severity"),
    ),
    Metric("londiste_node_up", Group.CASCADE, "1 if the node answers.", _NODE),
    Metric(
        "londiste_node_info",
        Group.CASCADE,
        "Role and provider of the node; always 1.",
        (*_NODE, "role", "provider"),
    ),
    Metric(
        "londiste_lag_seconds",
        Group.CASCADE,
        "Seconds by the root's clock since the first change that the node has not applied.",
        _NODE,
    ),
    Metric("londiste_lag_ticks", Group.CASCADE, "Ticks that the node has not applied.", _NODE),
    Metric(
        "londiste_lag_events",
        Group.CASCADE,
        "Events that the node has not applied, at most.",
        _NODE,
    ),
    Metric(
        "londiste_applied_events_total",
        Group.CASCADE,
        "Events of the queue up to the position of the node; on the root up to its newest tick.",
        _NODE,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_latency_seconds",
        Group.CASCADE,
        "Parts of the time from a commit until the change is visible: tick, fetch, apply.",
        (*_NODE, "part"),
    ),
    Metric(
        "londiste_tables",
        Group.CASCADE,
        "Tables of the node by state; copying: not yet in sync, ignored: not replicated there.",
        (*_NODE, "state"),
    ),
    Metric("londiste_halted", Group.CASCADE, "Events that stop a worker.", _NODE),
    Metric("londiste_paused", Group.CASCADE, "1 if the worker is paused.", _NODE),
    Metric(
        "londiste_daemon_up",
        Group.CASCADE,
        "1 if the daemon runs; only of daemons that have reported.",
        (*_NODE, "daemon"),
    ),
    Metric(
        "londiste_held_seconds",
        Group.CASCADE,
        "Age of the oldest tick that a consumer or a watermark keeps in the node's queue.",
        _NODE,
    ),
    Metric("londiste_copies", Group.CASCADE, "Tables whose rows are being copied.", _NODE),
    Metric(
        "londiste_copy_bytes_total",
        Group.CASCADE,
        "Bytes of tables copied since the start of this process; not with --once.",
        _NODE,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_copy_remaining_bytes",
        Group.CASCADE,
        "Bytes that running copies have still to move, estimated.",
        _NODE,
    ),
    Metric(
        "londiste_audit_verified_ratio",
        Group.CASCADE,
        "Share of rows that compare --continuous has verified in the last 24 hours, 0 to 1.",
        _NODE,
    ),
    Metric(
        "londiste_drift_rows",
        Group.CASCADE,
        "Rows that compare --continuous found to differ from the root's.",
        _NODE,
    ),
    Metric(
        "londiste_conflicts_total",
        Group.CASCADE,
        "Conflicts that the conflict resolutions of tables decided, by kind of conflict.",
        (*_NODE, "kind"),
        Kind.COUNTER,
    ),
    Metric(
        "londiste_large_batch_running",
        Group.CASCADE,
        "1 while an engine job (Spark) applies a large batch.",
        _NODE,
    ),
    Metric(
        "londiste_large_batch_seconds",
        Group.CASCADE,
        "Duration of the last engine job that applied a large batch.",
        _NODE,
    ),
    Metric(
        "londiste_queue_tick_age_seconds",
        Group.QUEUES,
        "Age of the newest tick.",
        _QUEUE,
    ),
    Metric(
        "londiste_queue_events_total",
        Group.QUEUES,
        "Events written to the queue; rolled back ones count.",
        _QUEUE,
        Kind.COUNTER,
    ),
    Metric("londiste_queue_bytes", Group.QUEUES, "Size of the event tables.", _QUEUE),
    Metric(
        "londiste_queue_rotation_age_seconds",
        Group.QUEUES,
        "Time since the last rotation of the event tables.",
        _QUEUE,
    ),
    Metric(
        "londiste_queue_delayed_events", Group.QUEUES, "Events that wait for their time.", _QUEUE
    ),
    Metric(
        "londiste_queue_events_pending",
        Group.QUEUES,
        "Events between the position of the consumer and the newest tick.",
        _CONSUMER,
    ),
    Metric(
        "londiste_queue_consumer_lag_seconds",
        Group.QUEUES,
        "Age of the tick that the consumer has finished.",
        _CONSUMER,
    ),
    Metric(
        "londiste_queue_retry_events",
        Group.QUEUES,
        "Events that are delivered to the consumer again.",
        _CONSUMER,
    ),
    Metric(
        "londiste_queue_dead_letters", Group.QUEUES, "Events that the consumer gave up.", _CONSUMER
    ),
    Metric(
        "londiste_queue_findings",
        Group.QUEUES,
        "Findings of queue status, by kind and severity; of a ticker only.",
        (*_QUEUE, "kind", "severity"),
    ),
    Metric(
        "londiste_ticks_total",
        Group.TICKER,
        "Ticks that this process created.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_tick_duration_seconds",
        Group.TICKER,
        "Duration of a round of ticks of one database.",
        _DAEMON,
        Kind.HISTOGRAM,
    ),
    Metric(
        "londiste_ticker_retries_total",
        Group.TICKER,
        "Events that this process moved back into their queue.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_ticker_maintenance_total",
        Group.TICKER,
        "Operations of maintenance of this process.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_ticker_databases",
        Group.TICKER,
        "Databases of this process by state: ok, or late (no round of ticks).",
        ("state",),
    ),
    Metric(
        "londiste_worker_batches_total",
        Group.WORKER,
        "Batches that this process applied.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_worker_events_total",
        Group.WORKER,
        "Events of these batches.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_worker_batch_duration_seconds",
        Group.WORKER,
        "Duration of a batch.",
        _DAEMON,
        Kind.HISTOGRAM,
    ),
    Metric(
        "londiste_consumer_batches_total",
        Group.CONSUMER,
        "Batches that this process finished; of a lake epochs of tables.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_consumer_events_total",
        Group.CONSUMER,
        "Events of these batches.",
        _DAEMON,
        Kind.COUNTER,
    ),
    Metric(
        "londiste_consumer_batch_duration_seconds",
        Group.CONSUMER,
        "Duration of a batch.",
        _DAEMON,
        Kind.HISTOGRAM,
    ),
    Metric(
        "londiste_run_daemon_up",
        Group.RUN,
        "1 if the process of the daemon runs.",
        ("daemon",),
    ),
    Metric(
        "londiste_run_failures_total",
        Group.RUN,
        "How often the daemon failed and was started again.",
        ("daemon",),
        Kind.COUNTER,
    ),
)
BY_NAME = {one.name: one for one in METRICS}
