"""Checks of extensions of the source that the target lacks."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import quote
from londiste.monitor.doctor.situation import Situation, critical, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "extension": "extension that the target server does not offer",
    "extension-missing": "extension that is not created on the target",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about each extension that is not there."""
    if pair.target is None:
        return
    side = pair.names[1]
    there = {o.name for o in pair.target.objects if o.kind == "extension"}
    for one in pair.source.objects:
        name = one.name or ""
        if one.kind != "extension" or name in there:
            continue
        if name not in pair.target.extensions:
            yield critical(
                "extension",
                f"extension {name} is not available on the {side} server",
                "objects that use it cannot be created there",
                f"install its package on the {side} server",
                side=side,
                object=name,
            )
        elif not pair.whole:
            yield warning(
                "extension-missing",
                f"extension {name} is not created in the {side} database",
                "columns of its types, and indexes and defaults that use it, need it",
                side=side,
                object=name,
                admin_sql=[f"create extension {quote(name)}"],
            )
