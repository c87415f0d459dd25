"""Large batches of unchanged events: tasks pipe them into the target's staging table.

A task decodes nothing: the text of COPY goes from one server to the other.  The target then inserts
the events from the staging table into the queues, slice after slice in order, in the transaction of
the position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from psycopg import sql

from londiste.consumer import Batch, Context, Events
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.copy import copy_in, pipe
from londiste.db.names import TableName
from londiste.errors import EventError, UnknownQueue
from londiste.pgq import batches, producer, queues
from londiste.replication.parallel import sqlapi as attempts
from londiste.replication.parallel.slices import Slice, StagedSlice, StageSpec, StageTask
from londiste.replication.parallel.stage_task import require_all
from londiste.replication.parallel.tasks import FallBackToSerial, stage_slice
from londiste.tools.parallel_batches import JobConsumer

_COLUMNS = (
    "ev_id",
    "ev_time",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
)


class Group(NamedTuple):
    """Events of a slice that go into one queue.

    queue -- '' when the events name none and there is no default.
    first -- id of the first of them.
    """

    queue: str
    first: int


def stage_events(task: StageTask[StageSpec]) -> int:
    """Stages the events of one slice; its number.  As ``stage_slice``."""
    spec, part = task.spec, task.slice

    def fill(source: Connection, target: Connection) -> StagedSlice:
        pages = part.pages if not spec.where else None
        if pages is not None:
            events = batches.batch_page_sql(source, spec.batch.id, pages)
        else:
            events = str(call.value(source, "pgq.batch_event_sql", spec.batch.id))
        names = ", ".join(f"ev.{name}" for name in _COLUMNS)
        where = spec.condition(part)
        text = [f"copy (select {part.number:d}, {names} from (", events, ") as ev"]  # noqa: S608
        text += [f"where {where}"] if where else []
        out = sql.Composed([sql.SQL("\n".join([*text, "order by ev.ev_id) to stdout"]))])
        into = copy_in(_table(spec.attempt), ("slice", *_COLUMNS))
        rows = pipe(source, out, target, into).rows
        require_all(spec, part, rows)
        return StagedSlice(rows)

    return stage_slice(task, fill)


def move(
    consumer: JobConsumer,
    batch: Batch,
    events: Events,
    ctx: Context,
    *,
    queue: sql.Composable,
    check: Callable[[Group], str],
) -> bool:
    """Inserts a large batch into queues; False: it has to be processed serially.

    queue -- SQL over the columns of an event: its target queue.
    check -- checks the name of a group's queue.  After an EventError of it, or for a missing queue,
        the batch is processed serially, which names the event.
    """
    nodes: dict[str, bool] = {}

    def merge(spec: StageSpec, part: Slice, staged_slice: StagedSlice) -> int:
        staged = _table(spec.attempt).sql
        rows = ctx.db.execute(
            sql.SQL(
                "select coalesce({}, ''), min(ev_id) from {} where slice = %s group by 1 order by 2"
            ).format(queue, staged),
            [part.number],
        ).fetchall()
        count = 0
        for group in map(Group._make, rows):
            try:
                name = check(group)
                moved = producer.insert_selected(
                    ctx.db,
                    name,
                    sql.SQL(
                        "select ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,"
                        " ev_extra4 from {} where slice = %s and coalesce({}, '') = %s"
                        " order by slice, ev_id"
                    ).format(staged, queue),
                    [part.number, group.queue],
                )
                if name not in nodes:
                    nodes[name] = queues.is_node(ctx.db, name)
            except (EventError, UnknownQueue) as error:
                raise FallBackToSerial(error.message) from error
            if nodes[name]:
                # What a node refuses is decided event by event.
                raise FallBackToSerial(f"queue {name} is a node of a cascade")
            ctx.stats[name] += moved
            count += moved
        return count

    return consumer.jobs.carry(
        batch,
        events,
        ctx,
        where=consumer.condition(),
        task=stage_events,
        spec=StageSpec,
        result=StagedSlice,
        merge=merge,
        prepare=_prepare,
    )


def _prepare(conn: Connection, spec: StageSpec) -> None:
    attempts.apply_stage_events(conn, spec.queue, spec.attempt)


def _table(attempt: int) -> TableName:
    return TableName("londiste", f"staged_events_{attempt}")
