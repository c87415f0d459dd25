"""Actions of the console: each prepares the steps that a command would take, then takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import pause as pausing
from londiste.cascade.switching import operation_log, switchover, switchover_records
from londiste.cascade.switching.cluster_lock import lock
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.steps.notes import one_at_a_time
from londiste.console import repairing
from londiste.copy.sqlapi import control
from londiste.db.connection import Connection
from londiste.db.names import argument, escaped, word
from londiste.errors import BadOption, StateError
from londiste.monitor import apply_errors
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.pgq import admin, dead_letters
from londiste.replication.apply import errors
from londiste.replication.commands import resync as resyncing
from londiste.replication.failover import readiness
from londiste.replication.failover.switchover_sequences import carry
from londiste.wording import bounded

#: Seconds for which the answer of a worker, and each wait of a switchover, is waited for.
_ANSWER_SECONDS, _WAIT_SECONDS, _BLOCK_SECONDS = 15.0, 60.0, 10.0
#: The largest limits of copies, as the command has them.
MOST_TASKS, MOST_MEGABYTES = 2**31 - 1, 2**62 // 1_000_000


@dataclass(frozen=True)
class Place:
    """The node of an action."""

    sites: Connections = field(repr=False)
    scene: ClusterState = field(repr=False)
    node: str

    @property
    def queue(self) -> str:
        return self.scene.queue

    @property
    def dsn(self) -> str:
        return self.scene.place(self.node).dsn

    @property
    def conn(self) -> Connection:
        return self.sites.at(self.dsn)


@dataclass(frozen=True)
class Ready:
    """A prepared action: its steps in words; run -- takes them, and gives a message."""

    steps: Sequence[str]
    run: Callable[[], str]


@dataclass(frozen=True)
class Input:
    """A field that the operator fills in."""

    name: str
    label: str
    kind: str = "text"


@dataclass(frozen=True)
class Action:
    """An action.

    words -- names of the fields that say what it is about, given by the page.
    command -- the command that does the same, to be pasted into a shell.
    """

    name: str
    title: str
    words: tuple[str, ...]
    command: Callable[[Mapping[str, str]], str]
    prepare: Callable[[Place, Mapping[str, str]], Ready]
    inputs: tuple[Input, ...] = ()


REASON = Input("reason", "Reason")


def _pause(place: Place, values: Mapping[str, str]) -> Ready:
    worker = nodes.get_node_info(place.conn, place.queue).worker

    def run() -> str:
        changed = pausing.set_paused(place.conn, place.queue, worker, True, timeout=_ANSWER_SECONDS)
        return f"{worker} of node {place.node} is {'' if changed else 'already '}paused"

    return Ready([f"{place.node}: pause {worker} after its current batch"], run)


def _resume(place: Place, values: Mapping[str, str]) -> Ready:
    worker = nodes.get_node_info(place.conn, place.queue).worker
    operation_log.refuse_resume(place.conn, place.queue, place.node)

    def run() -> str:
        operation_log.refuse_resume(place.conn, place.queue, place.node)
        changed = pausing.set_paused(
            place.conn, place.queue, worker, False, timeout=_ANSWER_SECONDS
        )
        return f"{worker} of node {place.node} is {'' if changed else 'already '}resumed"

    return Ready([f"{place.node}: resume {worker}"], run)


def _retry(place: Place, values: Mapping[str, str]) -> Ready:
    return Ready(
        [f"{place.node}: retry the failed events now"],
        lambda: errors.retry_apply_errors(place.conn, place.queue),
    )


def _skip(place: Place, values: Mapping[str, str]) -> Ready:
    known = {one.address: one for one in errors.get_apply_errors(place.conn, place.queue)}
    event = apply_errors.known(values["event"], known)

    def run() -> str:
        return errors.skip_apply_error(
            place.conn,
            place.queue,
            event.event_id,
            event.row,
            values["operator"],
            values.get("reason", ""),
        )

    about = f" of {event.dest}" if event.dest else ""
    return Ready([f"{place.node}: skip event {event.address}{about}, on this node only"], run)


def _resync(place: Place, values: Mapping[str, str]) -> Ready:
    steps = resyncing.plan(place.sites, place.dsn, place.queue, [escaped(values["table"])]).steps

    def run() -> str:
        count = plan.execute(steps, place.sites)
        return "the worker copies the table again" if count else "the table waits for its copy"

    return Ready([step.describe() for step in plan.remaining(steps, place.sites)], run)


def _repair(place: Place, values: Mapping[str, str]) -> Ready:
    steps, run = repairing.prepare(
        place.conn, place.dsn, place.queue, place.sites.extra, values["table"]
    )
    return Ready([f"{place.node}: {step}" for step in steps], run)


def _copy_pause(place: Place, values: Mapping[str, str]) -> Ready:
    def run() -> str:
        paused = control.copy_pause(place.conn, place.queue)
        return "copies paused" if paused else "copies are already paused"

    return Ready([f"{place.node}: start no new chunks; running chunks are finished"], run)


def _copy_resume(place: Place, values: Mapping[str, str]) -> Ready:
    def run() -> str:
        resumed = control.copy_resume(place.conn, place.queue)
        return "copies resumed" if resumed else "copies are not paused"

    return Ready([f"{place.node}: resume copies"], run)


def number_of(name: str, text: str, least: int, most: int) -> int | None:
    """Pure: the number in a field of a form; None for an empty one.  Raises BadOption."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
        raise BadOption(
            f"{name}: {bounded(text, 20)!r} is not a number from {least} to {most}", hint="write 10"
        )
    return int(text)


def _throttle(place: Place, values: Mapping[str, str]) -> Ready:
    megabytes = number_of("megabytes", values.get("megabytes", "").strip(), 1, MOST_MEGABYTES)
    rate = None if megabytes is None else megabytes * 1_000_000
    tasks = number_of("tasks", values.get("tasks", "").strip(), 1, MOST_TASKS)
    limits = [
        "no limit of the rate" if rate is None else f"at most {rate:,} bytes per second",
        "no limit of tasks" if tasks is None else f"at most {tasks} chunks in parallel",
    ]

    def run() -> str:
        control.copy_throttle(place.conn, place.queue, rate, tasks)
        return f"copies of node {place.node}: {', '.join(limits)}"

    return Ready([f"{place.node}: {text}" for text in limits], run)


def _dead_retry(place: Place, values: Mapping[str, str]) -> Ready:
    queue, consumer = values["queue"], values["consumer"]
    admin.find_consumer(place.conn, queue, consumer)
    total = dead_letters.failed_event_count(place.conn, queue, consumer)
    if not total:
        raise StateError(f"consumer {consumer} of queue {queue} has no dead letter")

    def run() -> str:
        count = dead_letters.failed_event_retry_all(place.conn, queue, consumer)
        return f"{count} events are delivered to consumer {consumer} again"

    return Ready([f"deliver {total} events to consumer {consumer} again"], run)


def _prepared(
    sites: Connections, scene: ClusterState, node: str, warn: Callable[[str], None]
) -> switchover.Switchover | None:
    away = switchover_records.begun_away_from(scene, node)
    if away is not None:
        raise StateError(
            f"{away.describe()} is not finished",
            hint=f"londiste switchover --to {argument(away.new)} --rollback",
        )
    switch = switchover.prepare(
        sites,
        scene,
        node,
        move_all=False,
        carry=lambda old, target: carry(scene.queue, old, target),
        timeout=_WAIT_SECONDS,
        block=_BLOCK_SECONDS,
        warn=warn,
    )
    if switch is not None and switch.closing:
        readiness.check(sites, scene, node, switch.old, force=False, warn=warn)
    return switch


def _switchover(place: Place, values: Mapping[str, str]) -> Ready:
    sites, node = place.sites, place.node
    warnings: list[str] = []
    switch = _prepared(sites, place.scene, node, warnings.append)
    if switch is None:
        return Ready([], lambda: f"node {node} is already the root, nothing to do")

    def run() -> str:
        now = _prepared(sites, lock(sites, place.scene, sites.extra), node, warnings.append)
        if now is not None:
            one_at_a_time(sites, now.steps())
            switchover.execute(now, sites, lambda step: None)
        return f"node {node} is the root"

    words = [step.describe() for step in plan.remaining(switch.steps(), sites)]
    return Ready([*(f"warning: {text}" for text in warnings), *words], run)


def _with_node(values: Mapping[str, str], command: str, *names: str) -> str:
    """A command with the settings of a node; names -- fields that are its arguments."""
    return " ".join(
        ["londiste --node", word(values["node"]), command, *(word(values[name]) for name in names)]
    )


def _limits(values: Mapping[str, str]) -> str:
    rate, tasks = values.get("megabytes", "").strip(), values.get("tasks", "").strip()
    limits = f" --bytes-per-second {word(f'{rate}M')}" if rate else ""
    limits += f" --tasks {word(tasks)}" if tasks else ""
    return _with_node(values, "copy throttle") + (limits or " --off")


ACTIONS = {
    one.name: one
    for one in (
        Action(
            "pause",
            "Pause the worker",
            ("node",),
            lambda values: f"londiste pause --node {word(values['node'])}",
            _pause,
            (REASON,),
        ),
        Action(
            "resume",
            "Resume the worker",
            ("node",),
            lambda values: f"londiste resume --node {word(values['node'])}",
            _resume,
            (REASON,),
        ),
        Action(
            "retry",
            "Retry failed events",
            ("node",),
            lambda values: _with_node(values, "events retry"),
            _retry,
        ),
        Action(
            "skip",
            "Skip an event",
            ("node", "event"),
            lambda values: _with_node(values, "events skip", "event"),
            _skip,
            (REASON,),
        ),
        Action(
            "resync",
            "Copy a table again",
            ("node", "table"),
            lambda values: f"{_with_node(values, 'resync')} {argument(values['table'])}",
            _resync,
            (REASON,),
        ),
        Action(
            "repair",
            "Repair a table",
            ("node", "table"),
            lambda values: f"{_with_node(values, 'repair --apply')} {argument(values['table'])}",
            _repair,
            (REASON,),
        ),
        Action(
            "copy-pause",
            "Pause copies",
            ("node",),
            lambda values: _with_node(values, "copy pause"),
            _copy_pause,
        ),
        Action(
            "copy-resume",
            "Resume copies",
            ("node",),
            lambda values: _with_node(values, "copy resume"),
            _copy_resume,
        ),
        Action(
            "throttle",
            "Limit copies",
            ("node",),
            _limits,
            _throttle,
            (
                Input("megabytes", "Megabytes per second (empty: no limit)", "number"),
                Input("tasks", "Parallel chunks (empty: no limit)", "number"),
            ),
        ),
        Action(
            "dead-retry",
            "Retry dead letters",
            ("node", "queue", "consumer"),
            lambda values: _with_node(values, "queue dead retry --all", "queue", "consumer"),
            _dead_retry,
        ),
        Action(
            "switchover",
            "Make a node the root",
            ("node",),
            lambda values: f"londiste switchover --to {word(values['node'])}",
            _switchover,
            (REASON,),
        ),
    )
}
