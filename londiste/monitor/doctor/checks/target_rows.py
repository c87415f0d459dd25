"""Checks of tables of the target that have rows already."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db.names import TableName
from londiste.monitor.doctor.situation import Situation, critical
from londiste.monitor.queues.model import Finding
from londiste.wording import shortened

FINDINGS = {"rows": "rows in tables of the target"}


def check(pair: Situation) -> Iterator[Finding]:
    """One finding for all tables: the copy would replace their rows."""
    if not pair.held:
        return
    side = pair.names[1]
    quoted = ", ".join(TableName.parse(name).quoted for name in pair.held)
    yield critical(
        "rows",
        f"tables of the {side} database are not empty: {shortened(pair.held)}",
        "the copy would replace their rows",
        "truncate the tables, or choose another database",
        side=side,
        object=", ".join(pair.held),
        sql=[f"truncate {quoted}"],
    )
