"""Epochs that Spark queries and jobs have written into this database.

One function per SQL function of the schema ``pgq_ext``, and the decision about an incoming epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import savepoint
from londiste.errors import AccessDenied, InstallError, NodeBusy, StateError


@dataclass(frozen=True)
class Written:
    """The last epoch of a sink; all but ``target`` None if it has none.

    query -- the query that wrote, known by its checkpoint; rows -- of its last epoch.
    """

    query: str | None
    epoch: int | None
    rows: int | None
    target: str


class Sink(NamedTuple):
    """A sink that has written something, and its last epoch."""

    sink: str
    target: str
    query: str
    epoch: int
    rows: int
    done_at: datetime

    @property
    def queue(self) -> str | None:
        """The queue that it writes to; None: tables."""
        word, _, name = self.target.partition(" ")
        return name if word == "queue" else None


def is_new(sink: str, known: Written, query: str, epoch: int, rows: int, target: str) -> bool:
    """Whether an epoch has to be written; False: it is written already.

    Raises NodeBusy for the epoch of another query, StateError for one that cannot come now, or
    that comes again with another number of rows.
    """
    if known.target != target:
        raise StateError(
            f"sink {sink} writes to {known.target}, not to {target}",
            hint="set a unique name: .option('sinkId', …), or 'writeId' of a job",
        )
    if known.epoch is None or known.query is None or known.rows is None:
        return True
    if known.query != query:
        raise NodeBusy(
            f"sink {sink} belongs to another query",
            detail=f"epoch {known.epoch} is of query {known.query}, this one is {query}: another"
            " checkpoint",
            hint=(
                "set a unique name: .option('sinkId', …); or, if the other query is retired:"
                f" select pgq_ext.forget_sink('{sink}')"
            ),
        )
    if epoch > known.epoch:
        return True
    if epoch < known.epoch:
        raise StateError(
            f"sink {sink}: epoch {epoch} arrived after its epoch {known.epoch}",
            detail="the checkpoint is older than the last epoch, as after a restore",
            hint="start with a new checkpoint, at the point up to which the target is complete",
        )
    if rows != known.rows:
        raise StateError(
            f"sink {sink}: epoch {epoch} has {rows} rows, but was written with {known.rows}",
            detail="either the checkpoint was restored and this is another epoch of the same"
            " number, or the rows of the query differ from run to run",
            hint=(
                "after a restore start with a new checkpoint; if rows differ, set option"
                " onOtherRows=skip: the epoch is written already"
            ),
        )
    return False


def lock_sink(conn: Connection, sink: str, target: str) -> Written:
    """The last epoch of a sink; locks it against other writers until the transaction ends."""
    row = call.row(conn, "pgq_ext.lock_sink", sink, target)
    return Written(row["query_id"], row["epoch"], row["row_count"], row["target"])


def set_sink_epoch(conn: Connection, sink: str, query: str, epoch: int, rows: int) -> None:
    """Records that this transaction writes an epoch of the sink, which it has locked."""
    call.value(conn, "pgq_ext.set_sink_epoch", sink, query, epoch, rows)


def is_sink_done(conn: Connection, sink: str) -> bool:
    """Whether a sink has written an epoch; a job has only one."""
    return bool(call.value(conn, "pgq_ext.is_sink_done", sink))


def make_sink_stage(conn: Connection, sink: str, attempt: UUID) -> int:
    """The number of the table in which an attempt stages rows; created if missing.

    ``conn`` in autocommit mode: other tasks wait for the end of the transaction.
    """
    return int(call.value(conn, "pgq_ext.make_sink_stage", sink, attempt))


def sink_stages(conn: Connection, sink: str) -> list[int]:
    """Numbers of the staging tables that are not needed once an epoch of the sink is written."""
    return call.records(conn, int, "pgq_ext.sink_stages", sink)


def drop_sink_stage(conn: Connection, stage: int) -> None:
    """Drops a staging table.  Raises LockTimeout while a task writes into it."""
    call.value(conn, "pgq_ext.drop_sink_stage", stage)


def get_sinks(conn: Connection) -> list[Sink]:
    """The sinks that have written at least one epoch."""
    return call.records(conn, Sink, "pgq_ext.get_sinks")


def sinks_of(conn: Connection, queue: str) -> list[Sink]:
    """Spark queries that write into a queue, as far as this user may read the records."""
    try:
        with savepoint(conn):
            known = get_sinks(conn)
        return [one for one in known if one.queue == queue and one.query]
    except (AccessDenied, InstallError):
        return []


def forget_sink(conn: Connection, sink: str) -> bool:
    """Deletes the record of a sink, so that another query may use its name; False if none."""
    return bool(call.value(conn, "pgq_ext.forget_sink", sink))
