"""Checks of large objects, which no trigger captures."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.doctor.situation import Situation, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {"large-objects": "large objects, which are not replicated"}


def check(pair: Situation) -> Iterator[Finding]:
    """A finding if the source has any."""
    if pair.source.large_objects:
        yield warning(
            "large-objects",
            f"{pair.source.large_objects} large objects",
            "large objects are not replicated",
            "move them into columns of type bytea; or copy them during a pause of writes:"
            " lo_export and lo_import",
            side=pair.names[0],
        )
