"""Large batches of unchanged events: tasks pipe them into the target's staging table.

A task decodes nothing: the text of COPY goes from one server to the other.  The target then inserts
the events from the staging table into the queues, slice after slice in order, in the transaction of
the position.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from psycopg import sql

from londiste.consumer import Batch, Context, Events
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.copy import copy_in, pipe
from londiste.db.names import TableName
from londiste.errors import EventError, UnknownQueue
from londiste.pgq import batches, producer
from londiste.replication.parallel import sqlapi as attempts
from londiste.replication.parallel.slices import Slice
from londiste.replication.parallel.tasks import FallBackToSerial, stage_slice
from londiste.tools.parallel_batches import Common, JobConsumer, JobTask, refused

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

    queue -- as the events name it; '' when they name none.
    first -- id of the first of them.
    """

    queue: str
    first: int


def stage_events(task: JobTask) -> int:
    """Stages the events of one slice; its number.  As ``stage_slice``."""
    common, part = task.common, task.slice

    def fill(source: Connection, target: Connection) -> str:
        # Without a filter it is known how many there are, and on which pages.
        pages = part.pages if not common.where else None
        if pages is not None:
            events = batches.batch_page_sql(source, common.batch.id, pages)
        else:
            events = str(call.value(source, "pgq.batch_event_sql", common.batch.id))
        names = ", ".join(f"ev.{name}" for name in _COLUMNS)
        where = common.condition(part)
        # The line breaks keep a comment at the end of a condition from swallowing the rest.
        text = [f"copy (select {part.number:d}, {names} from (", events, ") as ev"]  # noqa: S608
        text += [f"where {where}"] if where else []
        out = sql.Composed([sql.SQL("\n".join([*text, "order by ev.ev_id) to stdout"]))])
        into = copy_in(_table(common.attempt), ("slice", *_COLUMNS))
        rows = pipe(source, out, target, into).rows
        if not common.where and rows != part.events:
            return json.dumps(
                {
                    "refused": f"found {rows} events, {part.events} were counted: an event table"
                    " may have been rewritten"
                }
            )
        return json.dumps({"events": rows})

    return stage_slice(
        common.key,
        common.attempt,
        part.number,
        source=common.source,
        target=common.target,
        fill=fill,
    )


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

    def merge(common: Common, part: Slice, result: str) -> int:
        refused(json.loads(result))
        staged = _table(common.attempt).sql
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
            except (EventError, UnknownQueue) as error:
                raise FallBackToSerial(error.message) from error
            ctx.stats[name] += moved
            count += moved
        return count

    return consumer.jobs.carry(
        batch,
        events,
        ctx,
        where=consumer.condition(),
        task=stage_events,
        item=JobTask,
        merge=merge,
        prepare=_prepare,
    )


def _prepare(conn: Connection, common: Common) -> None:
    attempts.apply_stage_events(conn, common.key, common.attempt)


def _table(attempt: int) -> TableName:
    return TableName("londiste", f"staged_events_{attempt}")
