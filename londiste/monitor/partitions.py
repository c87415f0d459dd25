"""Partitions whose rows changed without an event, as found by the ticker's maintenance."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import TableName, argument
from londiste.monitor.queues.model import Finding, Severity


@dataclass(frozen=True)
class Changed:
    """A partition of a captured table, and its change."""

    table: TableName
    partition: str
    wrong: str

    @property
    def message(self) -> str:
        """The change in one line."""
        return f"table {self.table}: partition {self.partition} {self.wrong}"


def find(conn: Connection, queue: str) -> tuple[Changed, ...]:
    """Those of the node of ``conn`` that are not settled.  Raises InstallError on older SQL."""
    return tuple(
        Changed(TableName.parse(row["table_name"]), row["partition"], row["wrong"])
        for row in call.rows(conn, "londiste.partition_changes", queue)
    )


def remedy(table: TableName, queue: str) -> str:
    """The commands that settle them."""
    return (
        "on the nodes below, with partitions there for all these rows: londiste resync"
        f" {argument(table)} (or change the rows there,"
        f" and londiste compare); then on this node:"
        f" select londiste.settle_partitions({literal(queue)}, {literal(str(table))})"
    )


def findings(found: tuple[Changed, ...], queue: str) -> list[Finding]:
    """The findings of ``londiste check`` about them."""
    return [
        Finding(
            Severity.CRITICAL,
            "partition",
            one.message,
            "there is no event about it: subscribers may have other rows",
            remedy(one.table, queue),
            queue,
        )
        for one in found
    ]
