"""The notifier keeps working when its own parts fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from londiste.daemon.signals import Signals
from londiste.errors import NodeUnreachable
from londiste.monitor.place import Place
from londiste.monitor.verdict import Allowed
from londiste.notify.channels import Channel, Webhook
from londiste.notify.decide import Message, Rules
from londiste.notify.findings import Observed, of_failure
from londiste.notify.notifier import Notifier, Task, body
from londiste.notify.store import Store, Stored, Waiting
from tests.support.http.receiver import Receiver, receiver

#: No server listens there.
NOWHERE = Place("host=127.0.0.1 port=1 dbname=none", "q")


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@pytest.fixture
def signals() -> Iterator[Signals]:
    with closing(Signals()) as found:
        yield found


def notifier(hook: Receiver, path: Path, signals: Signals) -> Notifier:
    channels: tuple[Channel, ...] = (Webhook(hook.url, b"", 5),)
    task = Task((NOWHERE,), channels, Rules(after=0), Allowed(), period=0.05, longest_delay=1)
    return Notifier(lambda: task, Store(path), signals)


def test_a_cascade_that_does_not_answer_is_reported_once(
    hook: Receiver, tmp_path: Path, signals: Signals
) -> None:
    path = tmp_path / "state"
    one = notifier(hook, path, signals)
    one.unit()
    one.unit()
    # Another process continues with what is stored.
    notifier(hook, path, signals).unit()
    assert hook.events() == [("begins", "unreachable", None)]
    assert json.loads(path.read_text())["waiting"] == []


def test_a_message_that_was_not_accepted_is_sent_by_the_next_process_with_its_id(
    hook: Receiver, tmp_path: Path, signals: Signals
) -> None:
    hook.status = 503
    one = notifier(hook, tmp_path / "state", signals)
    one.unit()
    assert "answers 503" in one._beat.error
    hook.status = 204
    another = notifier(hook, tmp_path / "state", signals)
    another.unit()
    assert [got.headers["londiste-id"] for got in hook.got] == [
        got.headers["londiste-id"] for got in hook.refused
    ]
    assert another._beat.error == ""


def test_a_failed_delivery_is_not_repeated_at_once(
    hook: Receiver, tmp_path: Path, signals: Signals
) -> None:
    hook.status = 503
    one = notifier(hook, tmp_path / "state", signals)
    started = time.monotonic()
    for _ in range(5):
        one.unit()
    if time.monotonic() - started < 0.5:
        assert len(hook.refused) == 1


def test_a_state_that_cannot_be_stored_stops_no_message(
    hook: Receiver, tmp_path: Path, signals: Signals
) -> None:
    one = notifier(hook, tmp_path / "missing" / "state", signals)
    one.unit()
    one.unit()
    assert hook.events() == [("begins", "unreachable", None)]
    assert "cannot be stored" in one._beat.error


@pytest.mark.parametrize("status", (400, 413, 422))
def test_a_message_that_the_receiver_never_takes_stops_no_later_one(
    hook: Receiver, tmp_path: Path, signals: Signals, status: int
) -> None:
    hook.status = status
    store = Store(tmp_path / "state")
    one = notifier(hook, tmp_path / "state", signals)
    one.unit()
    # Once as it is, and once without its long texts.
    whole, brief = (got.message for got in hook.refused)
    assert (whole["id"], whole["finding"]["key"]) == (brief["id"], brief["finding"]["key"])
    assert whole["finding"]["why"] and not brief["finding"]["why"] + brief["finding"]["do"]
    assert store.read().waiting == ()
    assert f"answers {status}" in one._beat.error
    one.unit()
    assert len(hook.refused) == 2
    hook.status = 204
    fresh = notifier(hook, tmp_path / "other", signals)
    assert fresh.run_once() == 0
    hook.status = status
    assert notifier(hook, tmp_path / "third", signals).run_once() == 1


def test_a_message_is_taken_without_its_long_texts(
    hook: Receiver, tmp_path: Path, signals: Signals
) -> None:
    hook.longest = 600
    one = notifier(hook, tmp_path / "state", signals)
    one._stored = Stored(one._stored.state, (_waiting("x" * 2_000),))
    one._next_look = time.monotonic() + 60
    one.unit()
    assert [len(got.message["finding"]["what"]) for got in hook.got] == [223]
    assert one._stored.waiting == () and one._beat.error == ""


def _waiting(what: str) -> Waiting:
    finding = Observed("k", "worker", 2, "q", "n", what, "why", "do")
    message = Message("id", "begins", finding, 0.0, 1.0)
    return Waiting("id", "webhook", "k", "begins", body(message))


def test_texts_and_key_of_a_finding_are_bounded() -> None:
    name = "n" * 100_000
    keys = set()
    for number in range(2):
        error = NodeUnreachable("m" * 1_000_000, hint="h" * 1_000_000)
        (one,) = of_failure(error, f"{name}{number}").found
        assert max(map(len, (one.key, one.queue, one.what, one.why, one.do))) < 3_000
        keys.add(one.key)
    assert len(keys) == 2
