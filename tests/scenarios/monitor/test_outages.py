"""Real outages: none is ok, each is notified once, and a healthy cascade raises no alarm."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from tests.fixtures.line import QUEUE, Command
from tests.scenarios.monitor.conftest import Watched
from tests.support.http.receiver import Receiver, receiver
from tests.support.scenarios.processes import Process

Outage: TypeAlias = Callable[[Watched], AbstractContextManager[None]]
OUTAGES: dict[str, tuple[Outage, int, str, str]] = {}


def outage(code: int, kind: str, words: str) -> Callable[[Any], Any]:
    """Registers an outage: exit code, kind of a finding, words of it."""

    def register(function: Any) -> Any:
        OUTAGES[function.__name__] = (contextmanager(function), code, kind, words)
        return function

    return register


def check(watched: Watched, command: Command) -> tuple[int, dict[str, list[str]]]:
    """Exit code of ``status --check``, and its findings by kind."""
    answer = command(watched.root, "status", "--check", "--json")
    found: dict[str, list[str]] = {}
    for one in json.loads(answer.out)["findings"]:
        found.setdefault(one["kind"], []).append(one["what"])
    return answer.code, found


@outage(2, "worker", "worker: NOT RUNNING since")
def worker_is_killed(watched: Watched) -> Iterator[None]:
    worker = watched.leaf.worker
    assert worker is not None
    worker.kill()
    watched.age_reports(watched.leaf)
    yield
    watched.line.start(watched.leaf)


@outage(2, "worker", "worker: HUNG, connected but silent")
def worker_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    worker = watched.leaf.worker
    assert worker is not None
    worker.send(signal.SIGSTOP)
    watched.age_reports(watched.leaf)
    # The limit is shortened, so that the test need not wait.
    watched.leaf.database.execute("update pgq.daemon set dm_period = 0.1")
    yield
    worker.send(signal.SIGCONT)


@outage(1, "paused", "the worker is paused")
def worker_is_paused(watched: Watched) -> Iterator[None]:
    pause = "select pgq_node.set_consumer_paused(%s, 'leaf_worker', %s)"
    watched.leaf.database.execute(pause, QUEUE, True)
    yield
    watched.leaf.database.execute(pause, QUEUE, False)


CONSUMER = """
import sys, londiste
class Reader(londiste.Consumer):
    queue, name = "line", "reader"
    def process_event(self, event, ctx):
        pass
reader = Reader(sys.argv[1], poll_interval=0.1)
reader.register()
reader.run()
"""


@outage(1, "consumer-ended", "consumer: NOT RUNNING since")
def consumer_is_killed(watched: Watched) -> Iterator[None]:
    dsn = watched.root.database.dsn
    reader = watched.line.processes.start("reader", [sys.executable, "-c", CONSUMER, dsn])
    reports = "select count(*) from pgq.daemon where dm_name = 'reader'"
    watched.line.wait(lambda: watched.root.database.value(reports) == 1, "the consumer's report")
    reader.kill()
    watched.root.database.execute(
        "update pgq.daemon set dm_seen = dm_seen - interval '1 h' where dm_name = 'reader'"
    )
    yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'reader')", QUEUE)


@outage(1, "worker", "node root: worker: NOT RUNNING since")
def worker_of_the_root_ends(watched: Watched) -> Iterator[None]:
    worker = watched.root.worker
    assert worker is not None
    assert worker.stop() == 0
    yield
    watched.line.start(watched.root)


@outage(2, "ticker", "ticker: NOT RUNNING since")
def ticker_is_killed(watched: Watched) -> Iterator[None]:
    watched.ticker.kill()
    watched.age_reports(watched.root)
    yield
    watched.start_ticker()


@outage(2, "ticker-stopped", "no tick for")
def ticker_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    watched.ticker.send(signal.SIGSTOP)
    with watched.aged_ticks():
        yield
    watched.ticker.send(signal.SIGCONT)


@outage(2, "unreachable", "node leaf: does not answer")
def server_is_down(watched: Watched) -> Iterator[None]:
    watched.leaf_server.stop("immediate")
    yield
    watched.leaf_server.up()


@outage(2, "halted", "insert of public.t by id: londiste events show")
def event_halts(watched: Watched) -> Iterator[None]:
    watched.leaf.database.execute(
        "set session_replication_role = replica; insert into t values (100, 'mine')"
    )
    watched.root.database.execute("insert into t values (100, 'theirs')")
    yield
    watched.leaf.database.execute(
        "set session_replication_role = replica; delete from t where id = 100"
    )
    watched.line.wait(lambda: watched.line.error(watched.leaf) is None, "the event is applied")


@outage(2, "copy", "late_check")
def copy_fails(watched: Watched) -> Iterator[None]:
    watched.root.database.execute("insert into late values (1, 'bad')")
    watched.leaf.database.execute(
        "alter table late add constraint late_check check (v <> 'bad') not valid"
    )
    watched.line.add(watched.leaf, "late", expect_sync=False)
    yield
    watched.leaf.database.execute("alter table late drop constraint late_check")

    def done() -> bool:
        return bool(
            watched.leaf.database.value(
                "select merge_state = 'ok' from londiste.table_info where table_name like '%late'"
            )
        )

    watched.line.wait(done, "the copy", 60)


@outage(1, "held", "events are kept since")
def consumer_never_ran(watched: Watched) -> Iterator[None]:
    watched.root.database.execute("select pgq.register_consumer(%s, 'report')", QUEUE)
    watched.root.database.execute("insert into t values (200, 'x')")
    watched.synced()
    with watched.aged_ticks():
        yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'report')", QUEUE)


@outage(1, "held", "the slowest node of the cascade")
def watermark_is_held(watched: Watched) -> Iterator[None]:
    def lowest(tick: int) -> None:
        watched.root.database.execute(
            "select pgq.register_consumer_at(%s, '.global_watermark', %s)", QUEUE, tick
        )

    first = int(watched.root.database.value("select min(tick_id) from pgq.tick"))
    newest = int(watched.root.database.value("select max(tick_id) from pgq.tick"))
    lowest(first)
    with watched.aged_ticks():
        yield
    lowest(newest)


@outage(2, "capture", "table public.other has lost its capture trigger")
def capture_trigger_is_lost(watched: Watched) -> Iterator[None]:
    with watched.root.database.connect() as conn:
        triggers = conn.execute(
            "select quote_ident(tgname), pg_get_triggerdef(oid) from pg_trigger"
            " where tgrelid = 'public.other'::regclass and not tgisinternal"
        ).fetchall()
        for name, _ in triggers:
            conn.execute(f"drop trigger {name} on public.other".encode())
    yield
    for _, definition in triggers:
        watched.root.database.execute(definition)


@outage(2, "rotation-held", "not rotated for")
def rotation_is_blocked(watched: Watched) -> Iterator[None]:
    with watched.root.database.connect() as conn:
        before = conn.execute("select queue_switch_time from pgq.queue").fetchone()
        conn.autocommit = False
        conn.execute("select pg_current_xact_id()")
        watched.root.database.execute(
            "update pgq.queue set queue_switch_time = now() - interval '2 days',"
            " queue_switch_step2 = pg_current_xact_id()::text::int8"
        )
        yield
        conn.rollback()
    assert before is not None
    watched.root.database.execute("update pgq.queue set queue_switch_time = now()")


@outage(2, "drift", "table public.t: 1 rows differ")
def audit_finds_drift(watched: Watched) -> Iterator[None]:
    change = "set session_replication_role = replica; update t set v = %s where id = 1"
    watched.leaf.database.execute(change.replace("%s", "'drifted'"))
    audit = ("compare", "t", "--continuous", "--once", "--share", "1")
    done = watched.line.run(watched.leaf, *audit)
    assert done.code == 3, str(done)
    yield
    watched.leaf.database.execute(change.replace("%s", "'a'"))
    done = watched.line.run(watched.leaf, *audit)
    assert done.code == 0, str(done)


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
    _, code, kind, words = OUTAGES[name]

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


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_is_not_ok(
    watched: Watched, command: Command, notified: Notified, name: str
) -> None:
    failure = None
    kind = OUTAGES[name][2]
    before = len(notified.events(kind))
    with OUTAGES[name][0](watched):
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
