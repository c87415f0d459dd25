"""What queries and jobs have written here from outside, epoch by epoch.

One function per SQL function of the schema ``pgq_ext``, and the decision what to do with an epoch
that comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from londiste.db import call
from londiste.db.connection import Connection
from londiste.errors import NodeBusy, StateError


@dataclass(frozen=True)
class Written:
    """What a sink has written last; all but ``target`` None when nothing.

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
    """Whether an epoch has to be written; False: it is in already.

    Raises NodeBusy for the epoch of another query, StateError for one that cannot come now, or
    that comes again with another number of rows.
    """
    if known.target != target:
        raise StateError(
            f"sink {sink} writes to {known.target}, not to {target}",
            hint="give this one a name of its own: .option('sinkId', …), or 'writeId' of a job",
        )
    if known.epoch is None or known.query is None or known.rows is None:
        return True
    if known.query != query:
        raise NodeBusy(
            f"sink {sink} belongs to another query",
            detail=f"epoch {known.epoch} is of query {known.query}, this one is {query}: another"
            " checkpoint",
            hint="give this one a name of its own: .option('sinkId', …); or, when the other one"
            f" will never run again: select pgq_ext.forget_sink('{sink}')",
        )
    if epoch > known.epoch:
        return True
    if epoch < known.epoch:
        raise StateError(
            f"epoch {epoch} of sink {sink} comes after its epoch {known.epoch}",
            detail="its checkpoint is older than what it has written, as if it was restored",
            hint="begin with another checkpoint, at the point to which the target has everything",
        )
    if rows != known.rows:
        raise StateError(
            f"epoch {epoch} of sink {sink} has {rows} rows, and was written with {known.rows}",
            detail="either the checkpoint was restored and this is another epoch of the same"
            " number, or the rows of the query differ from run to run",
            hint="in the first case begin with another checkpoint; in the second the epoch is in:"
            " go on with option onOtherRows=skip",
        )
    return False


def lock_sink(conn: Connection, sink: str, target: str) -> Written:
    """What a sink has written last; nobody else writes until the open transaction ends."""
    row = call.row(conn, "pgq_ext.lock_sink", sink, target)
    return Written(row["query_id"], row["epoch"], row["row_count"], row["target"])


def set_sink_epoch(conn: Connection, sink: str, query: str, epoch: int, rows: int) -> None:
    """Notes that this transaction writes an epoch of the sink, which it has locked."""
    call.value(conn, "pgq_ext.set_sink_epoch", sink, query, epoch, rows)


def is_sink_done(conn: Connection, sink: str) -> bool:
    """Whether a sink has written an epoch; a job has only one."""
    return bool(call.value(conn, "pgq_ext.is_sink_done", sink))


def make_sink_stage(conn: Connection, sink: str, attempt: UUID) -> int:
    """The number of the table in which an attempt stages rows; made when it is not there.

    ``conn`` in autocommit mode: other tasks wait for the end of the transaction.
    """
    return int(call.value(conn, "pgq_ext.make_sink_stage", sink, attempt))


def sink_stages(conn: Connection, sink: str) -> list[int]:
    """Numbers of the tables of staged rows that nobody needs once an epoch of the sink is in."""
    return call.records(conn, int, "pgq_ext.sink_stages", sink)


def drop_sink_stage(conn: Connection, stage: int) -> None:
    """Drops a table of staged rows.  Raises LockTimeout while a task writes into it."""
    call.value(conn, "pgq_ext.drop_sink_stage", stage)


def get_sinks(conn: Connection) -> list[Sink]:
    """The sinks that have written something."""
    return call.records(conn, Sink, "pgq_ext.get_sinks")


def forget_sink(conn: Connection, sink: str) -> bool:
    """Forgets a sink, so that another query may take its name; False when there is none."""
    return bool(call.value(conn, "pgq_ext.forget_sink", sink))
