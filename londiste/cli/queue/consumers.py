"""``queue consumers``: lists consumers and their positions."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.queue.common import opened
from londiste.monitor import consumers as monitor
from londiste.pgq import admin, counting, queues

CONSUMERS = Rows("consumers", monitor.Listed)


@click.command()
@click.argument("queue_name", required=False, metavar="[QUEUE]")
@click.argument("name", required=False, metavar="[CONSUMER]")
@options.database
@options.json_output(CONSUMERS)
@options.pass_context
def consumers(
    ctx: options.Context, queue_name: str | None, name: str | None, db: str | None, as_json: bool
) -> None:
    """List consumers and their positions: of all queues, of one, or one consumer.

    pending_events is the number of events between the position and the newest tick; above 10,000 it
    is an upper limit. Spark queries that write into a queue or into tables are listed as kind sink,
    with their last epoch.
    """
    with opened(ctx, db) as conn:
        sinks = monitor.writing(conn)
        if queue_name in (None, "*"):
            found = [
                one for one in queues.get_consumer_info(conn) if name in (None, one.consumer_name)
            ]
        elif name is None:
            admin.find_queue(conn, str(queue_name))
            sinks = [one for one in sinks if one.queue == queue_name]
            found = queues.get_consumer_info(conn, queue_name)
        else:
            is_sink = any(one.consumer == name for one in sinks)
            found = [] if is_sink else [admin.find_consumer(conn, str(queue_name), name)]
        shown = monitor.consumers(conn, counting.pending(conn, found))
        shown += [one for one in sinks if name in (None, one.consumer)]
    output.show(
        CONSUMERS,
        shown,
        json_wanted=as_json,
        empty="no consumer: londiste queue register QUEUE CONSUMER",
    )
