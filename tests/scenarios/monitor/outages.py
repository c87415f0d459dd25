"""Outages of a cascade: what is broken for real, and what monitoring must report about it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.fixtures.line import QUEUE
from tests.scenarios.monitor.conftest import Watched
from tests.support.scenarios.processes import Process

#: Alert rules of kinds of findings; of all others LondisteFinding.
RULES = {
    "unreachable": "LondisteNodeDown",
    "halted": "LondisteHalted",
    "worker": "LondisteDaemonDown",
    "ticker": "LondisteDaemonDown",
    "lag": "LondisteLag",
    "no-root": "LondisteNoRoot",
    "drift": "LondisteDrift",
}


@dataclass(frozen=True)
class Outage:
    """An outage: what breaks, and what is found.

    run -- breaks it, and repairs it at the end.  code -- exit code of ``status --check``.
    kind, words -- of the finding.  at -- the node whose settings the commands have.
    silent -- who cannot report it: the broken program itself.
    moved -- time by which its limit was moved on, instead of waiting for it.
    shown -- the words of ``status``, if they are others.  paged -- those of the console, which
        masks texts of the server.
    """

    name: str
    run: Callable[[Watched], AbstractContextManager[None]]
    code: int
    kind: str
    words: str
    at: str = "root"
    silent: tuple[str, ...] = ()
    moved: str = ""
    shown: str = ""
    paged: str = ""

    @property
    def rule(self) -> str:
        """The alert rule that fires."""
        return RULES.get(self.kind, "LondisteFinding")


OUTAGES: dict[str, Outage] = {}


def outage(
    code: int, kind: str, words: str, *, into: dict[str, Outage] = OUTAGES, **more: Any
) -> Callable[[Any], Any]:
    """Registers an outage."""

    def register(function: Any) -> Any:
        name = function.__name__
        into[name] = Outage(name, contextmanager(function), code, kind, words, **more)
        return function

    return register


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
    watched.shorten_periods(watched.leaf)
    yield
    worker.send(signal.SIGCONT)


@outage(1, "paused", "the worker is paused", shown="PAUSED")
def worker_is_paused(watched: Watched) -> Iterator[None]:
    pause = "select pgq_node.set_consumer_paused(%s, 'leaf_worker', %s)"
    watched.leaf.database.execute(pause, QUEUE, True)
    yield
    watched.leaf.database.execute(pause, QUEUE, False)


@outage(1, "copies-paused", "copies are paused; tables not in sync: 1", shown="COPIES PAUSED")
def copies_are_paused(watched: Watched) -> Iterator[None]:
    for words in (("copy", "pause"), ("resync", "other")):
        done = watched.line.run(watched.leaf, *words)
        assert done.code == 0, str(done)
    yield
    done = watched.line.run(watched.leaf, "copy", "resume")
    assert done.code == 0, str(done)
    state = "select merge_state = 'ok' from londiste.table_info where table_name = 'public.other'"
    watched.line.wait(lambda: watched.leaf.database.value(state), "the copy", 60)


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


def reported(watched: Watched, process: Process) -> None:
    """Waits until a daemon of the root's database has reported; others have left reports there."""
    reports = f"select count(*) from pgq.daemon where dm_pid = {process.pid}"
    watched.line.wait(lambda: watched.root.database.value(reports) == 1, "its report")


@outage(1, "consumer-ended", "consumer: NOT RUNNING since")
def consumer_is_killed(watched: Watched) -> Iterator[None]:
    dsn = watched.root.database.dsn
    reader = watched.line.processes.start("reader", [sys.executable, "-c", CONSUMER, dsn])
    reported(watched, reader)
    reader.kill()
    watched.age_reports(watched.root, name="reader")
    yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'reader')", QUEUE)


@outage(1, "worker", "node root: worker: NOT RUNNING since", shown="worker: NOT RUNNING since")
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


QUIET = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name like 'londiste ticker%'
      and (state = 'active' or state_change > clock_timestamp() - interval '0.3 seconds')
"""


@outage(2, "ticker-stopped", "no tick for", moved="1 h")
def ticker_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    watched.ticker.send(signal.SIGSTOP)
    # A tick that it had asked for may still come; ticks are aged when its sessions are quiet.
    watched.line.wait(lambda: not watched.root.database.value(QUIET), "its last statement ends")
    with watched.aged_ticks():
        yield
    watched.ticker.send(signal.SIGCONT)


@outage(2, "unreachable", "node leaf: does not answer", shown="ERR:")
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


@outage(2, "copy", "late_check", paged="leaf_worker.copy.public.late")
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


@outage(1, "held", "events are kept since", moved="1 h", shown="Events kept since")
def consumer_never_ran(watched: Watched) -> Iterator[None]:
    watched.root.database.execute("select pgq.register_consumer(%s, 'report')", QUEUE)
    watched.root.database.execute("insert into t values (200, 'x')")
    watched.synced()
    with watched.aged_ticks():
        yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'report')", QUEUE)


@outage(1, "held", "the slowest node of the cascade", moved="1 h")
def watermark_is_held(watched: Watched) -> Iterator[None]:
    def lowest(tick: int) -> None:
        watched.root.database.execute(
            "select pgq.register_consumer_at(%s, '.global_watermark', %s)", QUEUE, tick
        )

    watched.synced()
    first = int(watched.root.database.value("select min(tick_id) from pgq.tick"))
    newest = int(watched.root.database.value("select max(tick_id) from pgq.tick"))
    # The leaf reports its own once in five minutes: it may be at the first tick, too.
    watched.root.database.execute(
        "select pgq_node.set_subscriber_watermark(%s, 'leaf', %s)", QUEUE, newest
    )
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


@outage(2, "rotation-held", "not rotated for", moved="2 days")
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
