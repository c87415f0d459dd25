"""Tick creation for the queues of one database.

The connection has to be one whose commits are flushed (``connect(synchronous=True)``): a tick
says that everything its snapshot sees is there for good, and flushing its commit flushes the
commits before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from londiste.daemon import logcontext
from londiste.daemon.loop import Trouble, report
from londiste.db.connection import Connection
from londiste.errors import LondisteError, NodeUnreachable
from londiste.pgq import queues
from londiste.pgq.liveness import READ_ONLY

log = logging.getLogger(__name__)


def run_once(
    conn: Connection,
    troubles: dict[str, Trouble],
    only: Collection[str] | None = None,
    tell_due: Callable[[float | None], None] | None = None,
) -> int:
    """Creates a tick for every queue that needs one; their number.

    The database decides which need one.  One call serves all queues; if it fails, each queue
    gets its own call, so that a failing queue does not stop the others.

    troubles -- failures in a row by queue, kept by the caller from round to round.
    only -- the queues that may tick; None: all.
    tell_due -- takes the result of ``queues.seconds_until_due``, asked in the same round trip; not
        called when each queue gets its own call.

    Raises LondisteError when the database cannot be asked at all.
    """
    if only is not None:
        return _each(conn, troubles, only)
    try:
        if tell_due is None:
            ticked = queues.ticker(conn) or 0
        else:
            ticked, seconds = queues.ticker_and_due(conn)
            tell_due(seconds)
        troubles.clear()
        return ticked
    except NodeUnreachable:
        raise
    except LondisteError as error:
        log.debug("ticking each queue separately: %s", error)
        return _each(conn, troubles, _ticking(conn))


def _each(conn: Connection, troubles: dict[str, Trouble], names: Iterable[str]) -> int:
    ticked = 0
    for name in names:
        trouble = troubles.setdefault(name, Trouble())
        try:
            ticked += queues.ticker(conn, name) is not None
            troubles[name] = trouble.over()
        except NodeUnreachable:
            raise
        except LondisteError as error:
            if error.sqlstate == READ_ONLY:
                # No other queue either: the next session may be another.
                raise
            if name not in _ticking(conn):
                # Since the names were asked for it ticks elsewhere, is paused or dropped.
                continue
            if trouble.failed(error):
                with logcontext.bound(queue=name):
                    report(error, trouble)
    return ticked


def _ticking(conn: Connection) -> Iterator[str]:
    for queue in queues.get_queue_info(conn):
        if not queue.queue_external_ticker and not queue.queue_ticker_paused:
            yield queue.queue_name
