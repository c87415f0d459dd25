"""Queue and consumer administration: checked changes of queues, consumers and settings.

Commands use these functions instead of the SQL functions.  An unknown name is answered with the
closest existing name, and a change that destroys data reports first what is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from londiste.db.connection import Connection, whereabouts
from londiste.db.names import argument, word
from londiste.db.queries import first
from londiste.errors import (
    BadOption,
    LondisteError,
    StateError,
    UnknownConsumer,
    UnknownQueue,
)
from londiste.pgq import batches, coop, counting, dead_letters, delayed, queues, spark_epochs
from londiste.pgq.types import ConsumerInfo, QueueInfo
from londiste.wording import did_you_mean


def find_queue(conn: Connection, name: str) -> QueueInfo:
    """A queue by name.  UnknownQueue suggests the closest existing name."""
    found = queues.get_queue_info(conn, name)
    if found:
        return found[0]
    known = [queue.queue_name for queue in queues.get_queue_info(conn)]
    raise UnknownQueue(
        f"no queue {name}",
        detail=f"in {whereabouts(conn)}",
        hint=did_you_mean(name, known, "londiste queue list"),
    )


def find_queues(conn: Connection, names: Sequence[str], *, every: bool = False) -> list[str]:
    """The queues of these names without duplicates; all queues for ``*`` or ``every``."""
    if every or "*" in names:
        return [queue.queue_name for queue in queues.get_queue_info(conn)]
    return [find_queue(conn, name).queue_name for name in dict.fromkeys(names)]


def find_consumer(conn: Connection, queue: str, name: str) -> ConsumerInfo:
    """A consumer of a queue.  UnknownQueue and UnknownConsumer suggest the closest name."""
    find_queue(conn, queue)
    found = queues.get_consumer_info(conn, queue, name)
    if found:
        return found[0]
    known = [consumer.consumer_name for consumer in queues.get_consumer_info(conn, queue)]
    raise UnknownConsumer(
        f"no consumer {name} on queue {queue}",
        detail=f"in {whereabouts(conn)}",
        hint=did_you_mean(name, known, f"londiste queue consumers {word(queue)}"),
    )


def new_name(what: str, name: str) -> str:
    """A name for a new queue or consumer.  BadOption for an empty or unprintable one."""
    if not name.strip():
        raise BadOption(
            f"a {what} needs a name", hint="a name must contain at least one letter or digit"
        )
    if any(not character.isprintable() for character in name):
        raise BadOption(
            f"control characters in the name of a {what}",
            hint="use letters, digits and the characters _ . -",
        )
    return name


# -- changes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueueChange:
    """One checked change: its description, and the function that makes it."""

    text: str
    act: Callable[[Connection], object]

    def describe(self) -> str:
        return self.text


def creating(
    conn: Connection,
    name: str,
    values: Mapping[str, str | None] | None = None,
    consumers: Sequence[str] = (),
) -> list[QueueChange]:
    """Creates a queue with these parameters and consumers; an existing queue only gets those."""
    if queues.get_queue_info(conn, name):
        settings = configuring(conn, name, values or {})
        found = [one for consumer in consumers for one in registering(conn, name, consumer)]
        return [*settings, *found]
    new_name("queue", name)
    create = QueueChange(f"create queue {name}", functools.partial(queues.create_queue, queue=name))
    register = [_register(name, new_name("consumer", one), None) for one in consumers]
    return [create, *_settings(name, values or {}), *register]


def dropping(
    conn: Connection, names: Sequence[str], *, force: bool
) -> tuple[list[QueueChange], list[str]]:
    """Drops queues; the changes, and what is lost with them, one sentence each.

    StateError for the queue of a node, and if consumers or data would be lost and ``force`` is not
    given.
    """
    found = [find_queue(conn, name).queue_name for name in dict.fromkeys(names)]
    for name in found:
        _refuse_node(conn, name)
    lost = [line for name in found for line in _losses(conn, name)]
    if lost and not force:
        raise StateError(
            f"cannot drop {', '.join(found)}: consumers or data would be lost",
            detail="; ".join(lost),
            hint=f"londiste queue drop --drop-consumers {' '.join(map(word, found))}",
        )
    changes = [
        QueueChange(
            f"drop queue {name} with {event_bytes(conn, name)} bytes of events",
            functools.partial(queues.drop_queue, queue=name, force=force),
        )
        for name in found
    ] + [
        QueueChange(
            f"remove the record of sink {sink.sink}, which wrote into queue {name}",
            functools.partial(spark_epochs.forget_sink, sink=sink.sink),
        )
        for name in found
        for sink in spark_epochs.sinks_of(conn, name)
    ]
    return changes, lost


def configuring(
    conn: Connection, queue: str, values: Mapping[str, str | None]
) -> list[QueueChange]:
    """Sets parameters of a queue; ``config.value`` has checked them.

    Raises StateError for those that would open a queue which the cascade has closed.
    """
    opened = [key for key in ("external_ticker", "disable_insert") if values.get(key) == "false"]
    if opened:
        _require_open(conn, queue, opened[0])
    return _settings(queue, values)


def _settings(queue: str, values: Mapping[str, str | None]) -> list[QueueChange]:
    return [
        QueueChange(
            f"set {key} of queue {queue} to {'null' if text is None else text}",
            functools.partial(queues.set_queue_config, queue=queue, param=key, value=text),
        )
        for key, text in values.items()
    ]


def registering(
    conn: Connection,
    queue: str,
    consumer: str,
    *,
    at: int | None = None,
    copy: str | None = None,
) -> list[QueueChange]:
    """Registers a consumer, or moves a registered one; no change if it may stay where it is.

    at -- after this tick of the queue; copy -- at the position of this consumer; default: after the
        newest tick. Moving drops an open batch; the description reports the events that are
        skipped.
    """
    find_queue(conn, queue)
    if at is not None and copy is not None:
        raise BadOption("at and copy exclude each other", hint="give only one of them")
    tick = find_consumer(conn, queue, copy).last_tick if copy is not None else at
    if copy is not None and tick is None:
        raise BadOption(
            f"consumer {copy} has no position of its own",
            detail="it is a cooperative consumer without a batch",
            hint="copy its main consumer",
        )
    if tick is not None:
        _require_tick(conn, queue, tick)
    found = queues.get_consumer_info(conn, queue, new_name("consumer", consumer))
    before = found[0] if found else None
    if before is not None and tick is None:
        return []
    text = ""
    if before is not None:
        where = _where(tick)
        text = f"move consumer {consumer} of queue {queue} from tick {before.last_tick} to {where}"
        if before.current_batch is not None:
            text += f", dropping its open batch {before.current_batch}"
        most = _ids_between(conn, queue, before.last_tick, tick)
        skipped = counting.between(conn, queue, before.last_tick, tick, most)
        if skipped:
            text += f", skipping {counting.words(skipped)}"
    return [_register(queue, consumer, tick, text)]


def _where(tick: int | None) -> str:
    return "the end of the queue" if tick is None else f"tick {tick}"


def _register(queue: str, consumer: str, tick: int | None, text: str = "") -> QueueChange:
    text = text or f"register consumer {consumer} on queue {queue} at {_where(tick)}"
    register = functools.partial(
        batches.register_consumer_at, queue=queue, consumer=consumer, tick=tick
    )
    return QueueChange(text, register)


def unregistering(
    conn: Connection,
    queue: str,
    names: Sequence[str],
    *,
    every: bool = False,
    close_batch: bool = False,
) -> list[QueueChange]:
    """Unregisters consumers, or all consumers of the queue with ``every``.

    close_batch -- also with dead letters or events to retry, which are deleted; else StateError. Of
        a cooperative consumer: see unregistering_worker.
    """
    find_queue(conn, queue)
    if every:
        found = queues.get_consumer_info(conn, queue)
    else:
        found = [find_consumer(conn, queue, name) for name in dict.fromkeys(names)]
    shared = {one.consumer_name: coop.main_of(conn, queue, one.consumer_name) for one in found}
    if not close_batch:
        _require_nothing_waiting(conn, queue, [name for name, main in shared.items() if not main])
    workers = [
        (main, one.consumer_name[len(main) + 1 :], "")
        for one in found
        if (main := shared[one.consumer_name]) and main not in shared
    ]
    for name in (name for name, main in shared.items() if not main):
        again = f"{word(queue)} {'--all' if every else argument(name)}"
        workers += [(name, worker, again) for worker in coop.workers(conn, queue, name)]
    return [
        change
        for main, worker, again in workers
        for change in unregistering_worker(
            conn, queue, main, worker, close_batch=close_batch, again=again
        )
    ] + [
        QueueChange(
            f"unregister consumer {one.consumer_name} of queue {queue} at tick {one.last_tick}"
            + (f", dropping its open batch {one.current_batch}" if one.current_batch else "")
            + _lost_with(conn, queue, one.consumer_name),
            functools.partial(batches.unregister_consumer, queue=queue, consumer=one.consumer_name),
        )
        for one in found
        if not shared[one.consumer_name]
    ]


def _require_nothing_waiting(conn: Connection, queue: str, consumers: Sequence[str]) -> None:
    lost = {name: text for name in consumers if (text := dead_letters.in_words(conn, queue, name))}
    if not lost:
        return
    look = "; ".join(command for name in lost for command in dead_letters.lists(conn, queue, name))
    given = " ".join(argument(name) for name in consumers)
    raise StateError(
        f"cannot unregister {', '.join(lost)}: events would be lost",
        detail="; ".join(f"consumer {name} of queue {queue}{text}" for name, text in lost.items()),
        hint=f"{look}; or lose them: londiste queue unregister {word(queue)} {given} --close-batch",
    )


def _lost_with(conn: Connection, queue: str, consumer: str) -> str:
    waiting = dead_letters.in_words(conn, queue, consumer)
    return f"; lost with it{waiting.replace(',', ':', 1)}" if waiting else ""


def registering_worker(
    conn: Connection, queue: str, consumer: str, worker: str
) -> list[QueueChange]:
    """Registers a cooperative consumer; no change if it is registered."""
    find_queue(conn, queue)
    new_name("consumer", consumer)
    new_name("cooperative consumer", worker)
    if queues.get_consumer_info(conn, queue, f"{consumer}.{worker}"):
        return []
    return [
        QueueChange(
            f"register cooperative consumer {worker} of consumer {consumer} on queue {queue}",
            functools.partial(
                coop.register_subconsumer, queue=queue, consumer=consumer, subconsumer=worker
            ),
        )
    ]


def unregistering_worker(
    conn: Connection,
    queue: str,
    consumer: str,
    worker: str,
    *,
    close_batch: bool = False,
    again: str = "",
) -> list[QueueChange]:
    """Unregisters a cooperative consumer, or all of a consumer for ``*``.

    again -- as in ``coop.require_closed``.
    close_batch -- also with an open batch, whose events are then not delivered; else StateError.
    """
    find_consumer(conn, queue, consumer)
    names = coop.workers(conn, queue, consumer) if worker == "*" else [worker]
    changes = []
    for name in names:
        one = find_consumer(conn, queue, f"{consumer}.{name}")
        if not close_batch:
            given = again or f"{word(queue)} {argument(consumer)} --sub {argument(name)}"
            coop.require_closed(conn, queue, consumer, [name], again=given)
        changes.append(
            QueueChange(
                f"unregister cooperative consumer {name} of consumer {consumer} of queue {queue}"
                + (f", closing its batch {one.current_batch}" if one.current_batch else ""),
                functools.partial(
                    coop.unregister_subconsumer,
                    queue=queue,
                    consumer=consumer,
                    subconsumer=name,
                    drop_batch=close_batch,
                ),
            )
        )
    return changes


# -- looking --------------------------------------------------------------------------------------


def _losses(conn: Connection, queue: str) -> list[str]:
    """What is lost when a queue is dropped, one sentence each; empty if nothing is."""
    lost: list[str] = []
    # Whatever the ids say, at least one is looked for.
    unticked = max([1, *(one.ev_new or 0 for one in queues.get_queue_info(conn, queue))])
    new = counting.since_tick(conn, queue, unticked)
    for consumer in counting.consumers(conn, queue):
        # A cooperative consumer has no position of its own: its main consumer gets them.
        pending = (consumer.pending_events or 0) + (0 if consumer.last_tick is None else new)
        lost.append(
            f"consumer {consumer.consumer_name} is registered, with"
            f" {counting.words(pending)} pending"
            + dead_letters.in_words(conn, queue, consumer.consumer_name)
        )
    writers = queues.queue_writers(conn, queue)
    if writers:
        lost.append(
            f"triggers write changes of {len(writers)} tables into queue {queue}"
            f" ({', '.join(writers[:5])}{', …' if len(writers) > 5 else ''}):"
            " writes to these tables fail after that"
        )
    for sink in spark_epochs.sinks_of(conn, queue):
        lost.append(
            f"sink {sink.sink} of Spark writes into queue {queue}, up to epoch {sink.epoch}"
        )
    for late in delayed.get_delayed_info(conn, queue):
        if late.delayed_events:
            lost.append(
                f"{late.delayed_events} delayed events are in queue {queue} and not delivered yet"
            )
    return lost


def event_bytes(conn: Connection, queue: str) -> int:
    """Bytes of the event tables of a queue."""
    return int(_one(conn, "queue_bytes", queue=queue)[0])


def _node(conn: Connection, queue: str) -> tuple[str, str] | None:
    there, readable = _one(conn, "relation_exists", relation="pgq_node.node_info")
    if not there or not readable:
        return None
    row = first(conn, "queue_node", queue=queue)
    return None if row is None else (str(row[0]), str(row[1]))


def _refuse_node(conn: Connection, queue: str) -> None:
    """Raises StateError for the queue of a node, as ``pgq.drop_queue`` does at the end."""
    node = _node(conn, queue)
    if node is not None and node[1] != "leaf":
        raise StateError(
            f"queue {queue} belongs to {node[1]} {node[0]} of a cascade",
            detail="without it writes to replicated tables fail, and nodes below get no events",
            hint=f"drop the node, and its queue with it: londiste drop-node {argument(node[0])}",
        )


def _require_open(conn: Connection, queue: str, parameter: str) -> None:
    """Raises StateError for the queue of a node that takes its events and ticks from another one,
    and of a root that was closed or replaced: a second root would take writes."""
    now = {one.name: one.value for one in queues.get_queue_config(conn, queue)}
    if (now["external_ticker"], now["disable_insert"]) != ("true", "true"):
        return
    node = _node(conn, queue)
    if node is None:
        return
    name, kind = node
    if kind == "root":
        raise StateError(
            f"queue {queue} of root {name} is closed: {parameter} stays",
            detail="a change of the cascade has closed it, or another node has replaced this root",
            hint="londiste status names the change to finish; a root that was replaced:"
            f" londiste resurrect --node {argument(name)}",
        )
    raise StateError(
        f"queue {queue} belongs to {kind} {name}: {parameter} stays",
        detail="its events and ticks come from its provider",
        hint=f"write on the root; or make this node the root: londiste switchover {argument(name)}",
    )


def _require_tick(conn: Connection, queue: str, tick: int) -> None:
    row = _one(conn, "tick_range", queue=queue, tick=tick)
    if not row[0]:
        raise BadOption(
            f"queue {queue} has no tick {tick}",
            detail=f"it has ticks {row[1]} to {row[2]}" if row[1] is not None else "it has no tick",
            hint=f"londiste queue ticks {word(queue)}",
        )


def _ids_between(conn: Connection, queue: str, start: int | None, end: int | None) -> int:
    row = first(conn, "tick_distance", queue=queue, first=start, last=end)
    return 0 if row is None or row[0] is None else max(0, int(row[0]))


def _one(conn: Connection, name: str, **parameters: object) -> tuple[Any, ...]:
    row = first(conn, name, **parameters)
    if row is None:
        raise LondisteError(f"query {name} returned no row", hint="this is a defect; report it")
    return row
