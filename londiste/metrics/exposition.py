"""Exposition: samples as text for Prometheus, by prometheus-client (extra ``web``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from londiste.daemon.logline import escaped
from londiste.errors import BadOption
from londiste.metrics.catalog import METRICS, Histogram, Kind, Metric, Sample

#: Characters of a label's value.
_LONGEST = 200


def require() -> None:
    """Raises BadOption if prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise BadOption(
            "metrics: the package prometheus-client is not installed",
            hint='pip install "londiste4[web]"',
        ) from None


def render(samples: Iterable[Sample]) -> bytes:
    """The samples in the text format, in the order of the catalog."""
    from prometheus_client import CollectorRegistry, generate_latest

    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)

    class Collected:
        def collect(self) -> Iterator[Any]:
            for metric in METRICS:
                if metric.name in by_name:
                    yield _family(metric, by_name[metric.name])

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return bytes(generate_latest(registry))


def content_type() -> str:
    """The media type of ``render``."""
    from prometheus_client import CONTENT_TYPE_LATEST

    return str(CONTENT_TYPE_LATEST)


def _family(metric: Metric, samples: list[Sample]) -> Any:
    from prometheus_client import core

    kinds: dict[Kind, Any] = {
        Kind.GAUGE: core.GaugeMetricFamily,
        Kind.COUNTER: core.CounterMetricFamily,
        Kind.HISTOGRAM: core.HistogramMetricFamily,
    }
    family = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
    for sample in samples:
        labels = [_label(sample.labels[name]) for name in metric.labels]
        if isinstance(sample.value, Histogram):
            family.add_metric(labels, _buckets(sample.value), sum_value=sample.value.sum)
        else:
            family.add_metric(labels, sample.value)
    return family


def _label(text: str) -> str:
    """Pure: the value, short and without control characters but newlines, which the format escapes.

    One that is changed ends in a digest: two series of the same labels are refused.
    """
    shown = "\n".join(escaped(line) for line in text.split("\n"))
    if shown == text and len(shown) <= _LONGEST:
        return shown
    mark = f"~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return shown[: _LONGEST - len(mark)] + mark


def _buckets(value: Histogram) -> list[tuple[str, int]]:
    total, found = 0, []
    for limit, count in zip((*map(str, value.limits), "+Inf"), value.counts, strict=True):
        total += count
        found.append((limit, total))
    return found
