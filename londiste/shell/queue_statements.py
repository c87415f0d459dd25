"""Statements about queues and consumers: one function each, with its form and line of the help."""

from __future__ import annotations

from dataclasses import astuple, fields

from londiste.cascade.own_consumers import refuse_move, refuse_unregister
from londiste.errors import BadOption, StateError
from londiste.pgq import admin, batches, config, counting, queues
from londiste.shell.language import Forms
from londiste.shell.session import Result, Session

FORMS = Forms()


@FORMS.statement("create queue <new:queue>", "create a queue")
def create_queue(session: Session, queue: str) -> Result:
    return session.change(admin.creating(session.conn, queue))


@FORMS.statement("drop queue <queue:queue> [force]", "drop a queue with its events")
def drop_queue(session: Session, queue: str, force: bool = False) -> Result:
    changes, _ = admin.dropping(session.conn, [queue], force=force)
    return session.change(changes)


@FORMS.statement(
    "alter queue <queue*:queue> set <settings:settings>", "set parameters of one queue or all"
)
def alter_queue(session: Session, queue: str, settings: dict[str, str]) -> Result:
    values: dict[str, str | None] = {}
    for name, text in settings.items():
        key = config.parameter(name)
        values[key] = config.value(key, text)
    conn = session.conn
    names = admin.find_queues(conn, [queue])
    return session.change([one for name in names for one in admin.configuring(conn, name, values)])


@FORMS.statement("show queue [<queue*:queue>]", "list queues, or show the parameters of one")
def show_queue(session: Session, queue: str = "*") -> Result:
    if queue == "*":
        names = [field.name for field in fields(queues.ListedQueue)]
        return Result(names, [astuple(one) for one in queues.listed(session.conn)])
    found = admin.find_queue(session.conn, queue)
    state = {
        "last_tick": found.last_tick_id,
        "ticker_lag": found.ticker_lag,
        "ev_per_sec": found.ev_per_sec,
        "ev_new": found.ev_new,
        **config.read(session.conn, queue)[queue],
    }
    return Result(("parameter", "value"), [[name, value] for name, value in state.items()])


@FORMS.statement("show consumer [<consumer*:consumer>] [on <queue:queue>]", "positions")
def show_consumer(session: Session, consumer: str = "*", queue: str | None = None) -> Result:
    queue = queue or session.queue
    if queue is not None:
        admin.find_queue(session.conn, queue)
    if queue is not None and consumer != "*":
        found = [admin.find_consumer(session.conn, queue, consumer)]
    else:
        found = [
            one
            for one in queues.get_consumer_info(session.conn, queue)
            if consumer in ("*", one.consumer_name)
        ]
    return Result(
        ("queue", "consumer", "lag", "last_seen", "last_tick", "batch", "pending_events"),
        [
            [
                one.queue_name,
                one.consumer_name,
                one.lag,
                one.last_seen,
                one.last_tick,
                one.current_batch,
                one.pending_events,
            ]
            for one in counting.pending(session.conn, found)
        ],
    )


@FORMS.statement("show batch <batch:batch>", "show a batch, by number or consumer")
def show_batch(session: Session, batch: str) -> Result:
    if batch.isdigit():
        number = int(batch)
    else:
        state = admin.find_consumer(session.conn, session.chosen(), batch)
        if state.current_batch is None:
            raise StateError(f"consumer {batch} has no batch open", hint=f"show consumer {batch}")
        number = state.current_batch
    found = batches.get_batch_info(session.conn, number)
    if found is None:
        raise StateError(f"no batch {number} is open", hint="show consumer *")
    shown = {
        "batch": found.id,
        "queue": found.queue,
        "consumer": found.consumer,
        "prev_tick": found.prev_tick_id,
        "tick": found.tick_id,
        "from": found.prev_tick_time,
        "to": found.tick_time,
        "events": found.size_estimate,
    }
    return Result(list(shown), [list(shown.values())])


@FORMS.statement(
    "register consumer <new:consumer> [on <queue:queue>] [at <tick:tick>] [copy <consumer:copy>]",
    "register or move a consumer",
)
def register_consumer(
    session: Session,
    consumer: str,
    queue: str | None = None,
    tick: str | None = None,
    copy: str | None = None,
) -> Result:
    if tick is not None and not tick.isdigit():
        raise BadOption(f"not a tick: {tick}", hint="a tick is a number")
    at = None if tick is None else int(tick)
    chosen = session.chosen(queue)
    refuse_move(session.conn, chosen, [consumer], at=at, copy=copy)
    return session.change(admin.registering(session.conn, chosen, consumer, at=at, copy=copy))


@FORMS.statement(
    "unregister consumer <consumer*:consumer> [from <queue:queue>]",
    "unregister a consumer and delete its position",
)
def unregister_consumer(session: Session, consumer: str, queue: str | None = None) -> Result:
    every = consumer == "*"
    names = [] if every else [consumer]
    chosen = session.chosen(queue)
    changes = admin.unregistering(session.conn, chosen, names, every=every)
    refuse_unregister(session.conn, chosen, names)
    return session.change(changes)


@FORMS.statement(
    "register subconsumer <new:subconsumer> for <consumer:consumer> [on <queue:queue>]",
    "register a cooperative consumer",
)
def register_subconsumer(
    session: Session, subconsumer: str, consumer: str, queue: str | None = None
) -> Result:
    chosen = session.chosen(queue)
    return session.change(admin.registering_worker(session.conn, chosen, consumer, subconsumer))


@FORMS.statement(
    "unregister subconsumer <subconsumer*:subconsumer> for <consumer:consumer> [from <queue:queue>]"
    " [close [batch]]",
    "unregister a cooperative consumer, with its open batch",
)
def unregister_subconsumer(
    session: Session,
    subconsumer: str,
    consumer: str,
    queue: str | None = None,
    close: bool = False,
) -> Result:
    return session.change(
        admin.unregistering_worker(
            session.conn, session.chosen(queue), consumer, subconsumer, close_batch=close
        )
    )
