"""Checks of the engine of copies on this host: Java and Spark."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.doctor.situation import Situation, found
from londiste.monitor.queues.model import Finding, Severity

FINDINGS = {
    "java": "no Java that Spark can use",
    "spark": "Spark that is missing or does not start",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about this host, for the engine that is set."""
    if pair.program.engine != "spark":
        return
    large = any(table.bytes >= pair.limits.spark_bytes for table in pair.wanted)
    for kind, missing in (("java", pair.program.java), ("spark", pair.program.spark)):
        if missing is not None:
            what, hint = missing
            yield found(
                Severity.CRITICAL if large else Severity.WARNING,
                kind,
                what,
                "engine is spark: copies of large tables, and large batches, need it",
                f"{hint}; or set engine=local" if hint else "set engine=local",
            )
