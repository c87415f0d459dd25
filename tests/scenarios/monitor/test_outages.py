"""Real outages: none is ok, each is notified once, and a healthy cascade raises no alarm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.fixtures.line import Command
from tests.scenarios.monitor.conftest import Watched
from tests.scenarios.monitor.outages import OUTAGES
from tests.support.http.receiver import Receiver, receiver
from tests.support.scenarios.processes import Process
from tests.support.suite.slow import only


def check(watched: Watched, command: Command) -> tuple[int, dict[str, list[str]]]:
    """Exit code of ``status --check``, and its findings by kind."""
    answer = command(watched.root, "status", "--check", "--json")
    found: dict[str, list[str]] = {}
    for one in json.loads(answer.out)["findings"]:
        found.setdefault(one["kind"], []).append(one["what"])
    return answer.code, found


#: The state of tables of the leaf during an outage of it.
STATES = {
    "worker_is_killed": "stale",
    "worker_is_stopped_by_a_signal": "stale",
    "worker_is_paused": "paused",
    "event_halts": "halted",
}


def agree(watched: Watched, command: Command, state: str) -> None:
    """What other commands report about the leaf."""
    shown = command(watched.leaf, "tables", "--json")
    (table,) = [one for one in shown.json["tables"] if one["table"] == "public.t"]
    assert (table["state"], table["sync_state"]) == (state, "ok")
    assert "warning: the tables are not current: " in shown.err
    waited = command(watched.leaf, "wait-sync", "--timeout", "0.1")
    assert waited.code != 0
    assert "the tables are not current after" in waited.err
    assert command(watched.leaf, "check").code == (1 if state == "paused" else 2)
    assert "(not current)" in command(watched.root, "status").out


def test_a_healthy_cascade_raises_no_alarm(watched: Watched, command: Command) -> None:
    watched.line.wait(lambda: check(watched, command) == (0, {}), "health")
    shown = command(watched.root, "status", "--check")
    assert shown.code == 0
    assert shown.out.startswith("LONDISTE OK - queue line, 2 nodes | nodes=2 unreachable=0 ")
    assert "lag_leaf=0.0s;60;600;0" in shown.out
    assert len(shown.out.splitlines()) == 1
    assert {one["state"] for one in command(watched.leaf, "tables", "--json").json["tables"]} == {
        "ok"
    }
    assert command(watched.leaf, "wait-sync", "--timeout", "5").code == 0
    assert command(watched.leaf, "check").code == 0


def observe(watched: Watched, command: Command, name: str) -> None:
    """What is reported during an outage."""
    outage = OUTAGES[name]
    code, kind, words = outage.code, outage.kind, outage.words

    def found() -> bool:
        seen_code, seen = check(watched, command)
        return seen_code == code and any(words in what for what in seen.get(kind, ()))

    try:
        watched.line.wait(found, name, 20)
    except AssertionError as error:
        raise AssertionError(f"{check(watched, command)}\n{error}") from None
    if name in STATES:
        agree(watched, command, STATES[name])
    line = command(watched.root, "status", "--check")
    assert line.code == code
    assert line.out.startswith(f"LONDISTE {['', 'WARNING', 'CRITICAL'][code]} - ")
    # Of a row that is refused no value is shown.
    assert "(1, bad)" not in line.out + command(watched.root, "status").out


@dataclass
class Notified:
    """A notifier of the cascade, and what its webhook got."""

    watched: Watched
    hook: Receiver
    process: Process = field(init=False)

    def start(self) -> None:
        file = self.watched.line.directory / "notify.toml"
        file.write_text(
            self.watched.root.config.read_text()
            + f'[notify]\nwebhook = "{self.hook.url}"\nafter = 0.3\ncheck_period = 0.3\n'
        )
        argv = [sys.executable, "-m", "londiste", "-c", str(file), "notify"]
        self.process = self.watched.line.processes.start("notify", argv)

    def events(self, kind: str) -> list[str]:
        """What the webhook got about this kind; a message sent again after a kill counts once."""
        messages = {one.message["id"]: one.message for one in self.hook.got}
        return [m["event"] for m in messages.values() if m["finding"]["kind"] == kind]


@pytest.fixture(scope="module")
def notified(watched: Watched) -> Iterator[Notified]:
    with receiver() as hook:
        found = Notified(watched, hook)
        found.start()
        yield found
        assert found.process.stop() == 0


#: Outages during which the notifier is killed and started again.
RESTARTED = {"event_halts", "server_is_down"}


#: The findings of the others have tests of their own in tests/integration.
QUICK = (
    "worker_is_killed",
    "ticker_is_killed",
    "consumer_is_killed",
    "server_is_down",
    "event_halts",
    "copy_fails",
)


@pytest.mark.parametrize("name", only(OUTAGES, *QUICK))
def test_an_outage_is_not_ok(
    watched: Watched, command: Command, notified: Notified, name: str
) -> None:
    failure = None
    kind = OUTAGES[name].kind
    before = len(notified.events(kind))
    with OUTAGES[name].run(watched):
        try:
            observe(watched, command, name)
            watched.line.wait(lambda: len(notified.events(kind)) > before, f"word of {name}", 20)
            if name in RESTARTED:
                notified.process.kill()
                notified.start()
        except AssertionError as error:
            # The outage ends first: other tests use the same cascade.
            failure = error
    if failure is not None:
        raise failure
    try:
        watched.line.wait(lambda: check(watched, command) == (0, {}), "health", 20)
    except AssertionError as error:
        raise AssertionError(f"{check(watched, command)}\n{error}") from None
    watched.line.wait(lambda: notified.events(kind)[-1] == "ends", f"the end of {name}", 20)
    told = [event for event in notified.events(kind)[before:] if event != "lasts"]
    assert told == ["begins", "ends"] * (len(told) // 2)
    # A message is sent twice only where the notifier was killed between delivery and note.
    ids = [one.message["id"] for one in notified.hook.got]
    assert len(ids) - len(set(ids)) <= len(RESTARTED)


def test_a_local_node_that_does_not_answer_is_unknown(watched: Watched, command: Command) -> None:
    for arguments in (["--check"], ["--check", "--json"]):
        answer = command(watched.leaf, "--set", "db=host=/nowhere", "status", *arguments)
        assert answer.code == 3
        assert "nknown" in answer.out or "UNKNOWN" in answer.out
