"""Facts about the queues of a database, for ``rules.findings``."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cascade import daemons
from londiste.cascade.daemons import Life
from londiste.cascade.own_consumers import find_subscribers, own_consumer
from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import fetch, records
from londiste.dsn import db_option
from londiste.errors import LondisteError
from londiste.install import default_rights
from londiste.monitor.queues.model import ConsumerFacts, HorizonHolder, MonitorFacts, QueueFacts
from londiste.orchestration.lock_retry import LockHolder
from londiste.pgq import admin, counting, dead_letters, delayed, event_indexes, ticks
from londiste.pgq.consumers import get_paused_consumers
from londiste.pgq.liveness import Daemon
from londiste.ticker.maintenance import blocked_rotations


def collect(conn: Connection, queue: str | None = None) -> MonitorFacts:
    """Collects one queue or all; needs no more rights than to connect.

    What this user may not see is listed in ``unseen``.  Raises UnknownQueue.
    """
    if queue is not None:
        admin.find_queue(conn, queue)
    (server,) = fetch(conn, "ticker_sessions")
    unseen: list[str] = []
    holders: list[HorizonHolder] = []
    for row in fetch(conn, "queue_holders"):
        if row.pop("kind") == "hidden":
            unseen.append("transactions of other users")
            break
        holders.append(HorizonHolder(**row))
    waiting: dict[tuple[str, str], tuple[int, int, float]] = {}
    try:
        for one in dead_letters.get_waiting_info(conn, queue):
            overdue = 0.0 if one.next_retry is None else server["now"] - one.next_retry.timestamp()
            waiting[one.queue, one.consumer] = (
                one.dead,
                one.retries,
                overdue,
            )
    except LondisteError:
        unseen.append("dead letters and events to be retried: run londiste install")
    paused: dict[tuple[str, str], str] = {}
    try:
        for one_paused in get_paused_consumers(conn, queue):
            paused[one_paused.queue, one_paused.consumer] = one_paused.reason or ""
    except LondisteError:
        unseen.append("paused consumers: run londiste install")
    reported = daemons.find(conn, queue) or ()
    ended = _ended(reported)
    queues = fetch(conn, "queue_facts", queue=queue)
    unindexed = event_indexes.find(conn, queue)
    newest = {row["name"]: row["tick"] for row in queues}
    below = {name: find_subscribers(conn, name) for name in newest}
    consumers = []
    for row in fetch(conn, "queue_consumer_facts", queue=queue):
        dead, retries, overdue = waiting.get((row["queue"], row["name"]), (0, 0, 0.0))
        readers = below.get(row["queue"])
        if row["lag"] is not None:
            row["lag"] = ticks.age(conn, row["queue"], row["last_tick"], row["lag"])
        if row["pending"] and row["queue"] in newest:
            name, first = row["queue"], row["last_tick"]
            row["pending"] = counting.between(conn, name, first, newest[name], row["pending"])
        consumers.append(
            ConsumerFacts(
                **row,
                paused=paused.get((row["queue"], row["name"])),
                dead_letters=dead,
                retries=retries,
                retry_overdue=overdue,
                ended=ended.get((row["queue"], row["name"]), ""),
                own=None if readers is None else own_consumer(row["name"], readers),
            )
        )
    late: dict[str, tuple[int, float]] = {}
    try:
        for held in delayed.get_delayed_info(conn, queue):
            since = 0.0
            if held.overdue_events and held.next_send is not None:
                since = server["now"] - held.next_send.timestamp()
            late[held.queue_name] = (held.delayed_events, since)
    except LondisteError:
        unseen.append("delayed events: run londiste install")
    applied: dict[str, list[float]] = {}
    for daemon in reported:
        if daemon.kind == "worker" and daemon.worked_age is not None:
            applied.setdefault(daemon.queue, []).append(daemon.worked_age)
    blocked = {one.queue: one for one in blocked_rotations(conn)}
    found = []
    for row in queues:
        if row["new_events"]:
            row["new_events"] = counting.since_tick(conn, row["name"], row["new_events"])
        number, since = late.get(row["name"], (0, 0.0))
        found.append(
            QueueFacts(
                **row,
                create_indexes=tuple(
                    statement
                    for one in unindexed
                    if one.queue == row["name"]
                    for statement in one.statements
                ),
                worked_age=min(applied.get(row["name"], ()), default=None),
                delayed=number,
                delayed_overdue=since,
                blocker=blocked.get(row["name"]),
            )
        )
    return MonitorFacts(
        database=whereabouts(conn),
        queues=tuple(found),
        consumers=tuple(consumers),
        holders=tuple(holders),
        ticker_sessions=int(server["tickers"]),
        ticker_errors=tuple(
            one.error
            for one in reported
            if one.kind == "ticker" and one.error and daemons.judge(one).runs
        ),
        queue_locks=tuple(
            records(
                conn,
                LockHolder,
                "table_lock_holders",
                schema="pgq",
                name="queue",
                writers=True,
                prepared=False,
            )
        ),
        commit_waits=server["commit_waits"],
        excess=default_rights.find(conn),
        unseen=tuple(unseen),
        place=db_option(conn.info.dsn),
    )


#: Kinds of daemons that are consumers.
_KINDS = ("consumer", "dispatch", "mover", "splitter", "lake", "stream")


def _ended(found: Sequence[Daemon]) -> dict[tuple[str, str], str]:
    """Consumers whose process has ended without a word, or hangs."""
    result = {}
    for place in {(one.queue, one.name) for one in found if one.kind in _KINDS}:
        lines = [
            daemons.running(
                [one for one in found if (one.queue, one.name) == place],
                kind,
                start="its program",
                patience=daemons.CONSUMER_BATCH,
            )
            for kind in _KINDS
        ]
        known = [line for line in lines if line.life is not Life.NEVER]
        if known and all(line.life in (Life.GONE, Life.HUNG) for line in known):
            result[place] = known[0].text
    return result
