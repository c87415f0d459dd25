"""Notifier: looks at a cascade, decides what to report, stores that, and delivers it.

One unit of work is one look.  The state is stored before anything is sent, and after each
delivery: a process that is killed in between sends a message again, with the same id.  A full disk
stops no message.
"""

from __future__ import annotations

import json
import logging
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg

from londiste import __version__
from londiste.daemon.loop import Loop, Trouble, describe, pause, report
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection, connect, usable
from londiste.errors import LondisteError
from londiste.monitor import status as monitor
from londiste.monitor.place import Place, first_answer
from londiste.monitor.queues.model import Limits, Severity
from londiste.monitor.verdict import Allowed
from londiste.notify.channels import Channel, Refused, Undelivered
from londiste.notify.decide import TEST, Message, Rules, step
from londiste.notify.findings import Look, Observed, of_failure, of_status
from londiste.notify.store import Store, Stored, Waiting, added, without
from londiste.pgq.liveness import Beat
from londiste.wording import bounded

log = logging.getLogger(__name__)

#: Version of the message.
VERSION = 1
#: First delay in seconds after a failed delivery.
_FIRST_DELAY = 1.0
#: Characters of the only text of a message that was refused.
_BRIEF = 200


@dataclass(frozen=True)
class Task:
    """What a notifier does, as its settings say.

    places -- nodes that are asked for their cascade, the first that answers counts.
    only -- nodes that it reports about; empty: all.
    """

    places: tuple[Place, ...]
    channels: tuple[Channel, ...]
    rules: Rules
    allowed: Allowed
    severity: int = int(Severity.WARNING)
    period: float = 15.0
    longest_delay: float = 300.0
    only: frozenset[str] = frozenset()


def body(message: Message) -> str:
    """The message as JSON, in ASCII."""
    one = message.finding
    return json.dumps(
        {
            "version": VERSION,
            "id": message.id,
            "event": message.event,
            "time": _utc(message.moment),
            "since": _utc(message.since),
            "seconds": round(message.moment - message.since, 3),
            "host": socket.gethostname(),
            "londiste": __version__,
            "finding": {
                "key": one.key,
                "kind": one.kind,
                "severity": Severity(one.severity).word,
                "queue": one.queue,
                "node": one.node or None,
                "what": one.what,
                "why": one.why,
                "do": one.do,
            },
        }
    )


def brief(text: str) -> str:
    """Pure: a message as JSON without its long texts, for a receiver that has refused it."""
    message = json.loads(text)
    finding = message["finding"]
    finding |= {"what": bounded(finding["what"], _BRIEF), "why": "", "do": ""}
    return json.dumps(message)


def message_of_test(queue: str, now: float) -> Message:
    """What ``londiste notify --test`` sends."""
    one = Observed(
        "test", "test", int(Severity.OK), queue, "", "a test of the notifications", "", "nothing"
    )
    return Message(f"test-{now:.3f}", TEST, one, now, now)


def look(task: Task) -> Look:
    """One look at the cascade; a cascade that does not answer is a finding."""
    try:
        status = first_answer(
            task.places,
            lambda at: monitor.collect(
                at.dsn, at.queue, extra=at.extra, limits=Limits(), in_file=at.in_file
            ),
        )
    except LondisteError as error:
        return of_failure(error, task.places[0].queue)
    return of_status(status, task.allowed, task.severity, task.only)


@dataclass
class _ChannelState:
    """Failures of a channel in a row, and when it is tried again (monotonic)."""

    trouble: Trouble = field(default_factory=Trouble)
    next: float = 0.0


class Notifier:
    """The daemon.

    read -- gives the task; called at the start and after SIGHUP.
    name -- of its row among the daemons of the queue.
    """

    def __init__(
        self, read: Callable[[], Task], store: Store, signals: Signals, *, name: str = "notify"
    ) -> None:
        self._read = read
        self.task = read()
        self._store = store
        self._stored = store.read()
        self._signals = signals
        self._loop = Loop(self.unit, signals=signals, on_reload=self._reload)
        self._channels: dict[str, _ChannelState] = {}
        self._next_look = 0.0
        self._unstored = Trouble()
        self._dropped = 0
        self._home: Connection | None = None
        self._next_home = 0.0
        self._beat = Beat("notify", self.task.places[0].queue, name)

    def run(self) -> None:
        """Runs until a stop is requested."""
        for channel in self.task.channels:
            log.info("notifications go to %s %s", channel.name, channel.place)
        try:
            self._loop.run()
        finally:
            with suppress(LondisteError, psycopg.Error):
                self._beat.stop(self._home)
            if self._home is not None:
                self._home.close()

    def run_once(self) -> int:
        """One look, and one attempt of each delivery; the number of undelivered messages."""
        self._beat.enabled = False
        self._observe()
        self._deliver()
        return len(self._stored.waiting) + self._dropped

    def unit(self) -> bool:
        """One look if it is due, and the deliveries that are due."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + self.task.period
            self._observe()
        self._deliver()
        self._report()
        due = [self._next_look]
        waiting = {one.channel for one in self._stored.waiting}
        due += [state.next for name, state in self._channels.items() if name in waiting]
        self._loop.delay = min(max(0.1, min(due) - time.monotonic()), self.task.period)
        return False

    def _reload(self) -> None:
        self.task = self._read()
        self._next_look = 0.0
        self._channels.clear()

    # -- deciding --------------------------------------------------------------------------

    def _observe(self) -> None:
        found = look(self.task)
        state, messages = step(self._stored.state, found, time.time(), self.task.rules)
        for message in messages:
            log.info("finding %s: %s", message.event, _line(message.finding))
        new = [
            Waiting(message.id, channel.name, message.finding.key, message.event, body(message))
            for message in messages
            for channel in self.task.channels
        ]
        self._keep(Stored(state, added(self._stored.waiting, new)))

    def _keep(self, stored: Stored) -> None:
        """Stores the state.  If that fails, messages are sent anyway: better twice than never."""
        self._stored = stored
        try:
            self._store.write(stored)
            self._unstored = self._unstored.over()
        except LondisteError as error:
            if self._unstored.failed(error):
                report(error, self._unstored)

    # -- delivering ------------------------------------------------------------------------

    def _deliver(self) -> None:
        known = {channel.name: channel for channel in self.task.channels}
        dropped = [one for one in self._stored.waiting if one.channel not in known]
        if dropped:
            # The channel was removed from the settings.
            rest = tuple(one for one in self._stored.waiting if one.channel in known)
            self._keep(Stored(self._stored.state, rest))
        deadline = time.monotonic() + self.task.period
        for name, channel in known.items():
            state = self._channels.setdefault(name, _ChannelState())
            for one in [one for one in self._stored.waiting if one.channel == name]:
                now = time.monotonic()
                if now < state.next or now >= deadline or self._signals.stopping:
                    break
                try:
                    refused = _sent(channel, one)
                except Undelivered as error:
                    self._failed(state, error)
                    break
                if refused is None:
                    state.trouble = state.trouble.over()
                else:
                    self._dropped += 1
                    state.trouble.failed(refused)
                    log.error("message %s is not sent again: %s", one.id, describe(refused))
                self._keep(without(self._stored, one))

    def _failed(self, state: _ChannelState, error: Undelivered) -> None:
        if state.trouble.failed(error):
            log.error(
                "%s (%d messages wait)",
                describe(error),
                len(self._stored.waiting),
                extra={"error": error},
            )
        failures = state.trouble.failures
        # The first delay of ``pause`` is 0.1 seconds.
        doubled = pause(failures, longest=self.task.longest_delay / 10, chance=random.random())
        state.next = time.monotonic() + max(_FIRST_DELAY / 2, 10 * doubled)

    # -- signs of life ---------------------------------------------------------------------

    def _report(self) -> None:
        """Reports that it lives, and what it cannot deliver, in the first node's database."""
        troubles = [state.trouble for state in self._channels.values()]
        self._beat.error = "; ".join(
            one.message for one in (*troubles, self._unstored) if one.failures
        )
        now = time.monotonic()
        if (self._home is None or not usable(self._home)) and now >= self._next_home:
            self._next_home = now + self.task.period
            if self._home is not None:
                self._home.close()
            self._home = None
            with suppress(LondisteError):
                self._home = connect(
                    self.task.places[0].dsn,
                    name="londiste notify",
                    autocommit=True,
                    answer_seconds=8,
                )
        with suppress(LondisteError, psycopg.Error):
            self._beat.beat(self._home)


def deliver_test(channels: Sequence[Channel], queue: str) -> Mapping[str, str]:
    """Sends a test message to each channel; the error of each that did not take it, else ''."""
    message = message_of_test(queue, time.time())
    found: dict[str, str] = {}
    for channel in channels:
        try:
            channel.deliver(message.id, body(message))
            found[f"{channel.name} {channel.place}"] = ""
        except Undelivered as error:
            found[f"{channel.name} {channel.place}"] = error.message
    return found


def _sent(channel: Channel, one: Waiting) -> Refused | None:
    """Delivers a message, without its long texts if it is refused; the error if it is again.

    Raises Undelivered for a channel that may take it later.
    """
    try:
        channel.deliver(one.id, one.body)
    except Refused:
        try:
            channel.deliver(one.id, brief(one.body))
        except Refused as error:
            return error
    return None


def _line(one: Observed) -> str:
    node = f"node {one.node}: " if one.node else ""
    return f"{Severity(one.severity).word}, {node}{one.what}"


def _utc(moment: float) -> str:
    return (
        datetime.fromtimestamp(moment, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
