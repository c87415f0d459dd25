"""Partitions whose rows have changed without an event, as the ticker's maintenance has found."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.monitor.queues.model import Finding, Severity


@dataclass(frozen=True)
class Changed:
    """One partition of a captured table, and what has happened to it."""

    table: TableName
    partition: str
    wrong: str

    @property
    def message(self) -> str:
        """One line about it."""
        return f"table {self.table}: partition {self.partition} {self.wrong}"


def find(conn: Connection, queue: str) -> tuple[Changed, ...]:
    """Those of the node of ``conn`` that are not settled.  Raises InstallError on older SQL."""
    return tuple(
        Changed(TableName.parse(row["table_name"]), row["partition"], row["wrong"])
        for row in call.rows(conn, "londiste.partition_changes", queue)
    )


def remedy(table: TableName, queue: str) -> str:
    """What helps, to be typed."""
    return (
        f"on the nodes below: londiste resync {table} (or the same rows there by hand, and londiste"
        f" compare); then here: select londiste.settle_partitions('{queue}', '{table}')"
    )


def findings(found: tuple[Changed, ...], queue: str) -> list[Finding]:
    """What ``londiste check`` says of them."""
    return [
        Finding(
            Severity.CRITICAL,
            "partition",
            one.message,
            "no event tells of it: subscribers have other rows",
            remedy(one.table, queue),
            queue,
        )
        for one in found
    ]
