"""More outages: of servers, of their limits, and of programs beside the replication."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.line import QUEUE
from tests.scenarios.monitor.conftest import Watched
from tests.scenarios.monitor.outages import CONSUMER, Outage, outage, reported
from tests.support.scenarios.processes import Process, stat

RARE: dict[str, Outage] = {}
rare: Any = partial(outage, into=RARE)
UNREACHABLE = "unreachable"


def root_server(watched: Watched) -> Cluster:
    assert watched.root_server is not None
    return watched.root_server


@contextlib.contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    """A server whose processes stand still: the kernel accepts connections, nothing answers."""
    assert cluster.pid is not None
    children = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and stat(int(entry.name))[1] == str(cluster.pid)
    ]
    for pid in (cluster.pid, *children):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in (cluster.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@rare(2, UNREACHABLE, "node root: does not answer", at="leaf", shown="ERR:")
def source_is_down(watched: Watched) -> Iterator[None]:
    root_server(watched).stop("immediate")
    yield
    root_server(watched).up()


@rare(2, UNREACHABLE, "node root: does not answer", at="leaf", shown="ERR:")
def source_hangs(watched: Watched) -> Iterator[None]:
    with stopped(root_server(watched)):
        yield


@rare(2, UNREACHABLE, "node leaf: does not answer", shown="ERR:")
def target_hangs(watched: Watched) -> Iterator[None]:
    with stopped(watched.leaf_server):
        yield


@rare(2, "error", "No space left on device")
def disk_is_full(watched: Watched) -> Iterator[None]:
    leaf = watched.leaf.database
    with tempfile.TemporaryDirectory(prefix="ld") as name:
        Path(name).chmod(0o755)
        disk = Path(name) / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk]).returncode:
            pytest.skip("this account may not mount a file system")
        try:
            space = disk / "space"
            space.mkdir()
            watched.leaf_server._account.own(space, 0o700)
            leaf.execute(f"create tablespace small location '{space}'")
            leaf.execute("alter table other set tablespace small")
            watched.root.database.execute(
                "insert into other select g, md5(g::text) from generate_series(1, 20000) as g"
            )
            yield
            leaf.execute("alter table other set tablespace pg_default")
            watched.line.wait(lambda: watched.line.error(watched.leaf) is None, "the batch", 60)
            leaf.execute("drop tablespace small")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


@rare(2, UNREACHABLE, "no password supplied")
def login_needs_another_password(watched: Watched) -> Iterator[None]:
    server = watched.leaf_server
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    assert server.pid is not None
    rules.write_text("local all all scram-sha-256\n" + before)
    os.kill(server.pid, signal.SIGHUP)
    yield
    rules.write_text(before)
    os.kill(server.pid, signal.SIGHUP)


@rare(2, UNREACHABLE, "too many clients already")
def connections_are_used_up(watched: Watched) -> Iterator[None]:
    taken: list[psycopg.Connection[Any]] = []
    ended = threading.Event()

    def take() -> None:
        # Again and again: a session of another program that ends leaves its place.
        while not ended.is_set():
            try:
                taken.append(psycopg.connect(watched.leaf.database.dsn, autocommit=True))
            except psycopg.OperationalError:
                ended.wait(0.01)

    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield
    finally:
        ended.set()
        taker.join()
        for conn in taken:
            conn.close()


@rare(2, "rotation-held", "not rotated for", moved="2 days")
def transaction_stays_prepared(watched: Watched) -> Iterator[None]:
    database = watched.root.database
    with database.connect(autocommit=False) as conn:
        conn.execute("select pg_current_xact_id()")
        conn.execute("prepare transaction 'forgotten'")
        conn.commit()
    database.execute(
        "update pgq.queue set queue_switch_time = now() - interval '2 days',"
        " queue_switch_step2 = pg_current_xact_id()::text::int8"
    )
    yield
    database.execute("rollback prepared 'forgotten'")
    database.execute("update pgq.queue set queue_switch_time = now()")


@rare(1, "xid-age", "an event table has a transaction-id age of")
def transaction_ids_run_out(watched: Watched) -> Iterator[None]:
    """autovacuum_freeze_max_age of the root is 100,000; an old snapshot keeps it from freezing."""
    database = watched.root.database
    burn = (
        "do $$ begin for i in 1..120000 loop begin insert into burnt values (1);"
        " exception when others then null; end; end loop; end $$"
    )
    with database.connect(autocommit=False) as holder, database.connect() as conn:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1 from pgq.queue")
        conn.execute("create temp table burnt (i int)")
        conn.execute(burn)
        conn.execute(burn)
        yield
        holder.rollback()
    tables = database.execute(
        "select c.oid::regclass::text from pgq.queue q join pg_class c"
        " on c.relname like '%' || q.queue_data_pfx || '%' or c.oid = 'pgq.queue'::regclass"
        " where c.relkind = 'r' and c.relnamespace = 'pgq'::regnamespace"
    )
    with database.connect() as conn:
        for (table,) in tables:
            conn.execute(f"vacuum (freeze) {table}".encode())


@rare(2, "capture", "table public.other has its capture trigger disabled")
def capture_trigger_is_disabled(watched: Watched) -> Iterator[None]:
    database = watched.root.database
    triggers = "select quote_ident(tgname) from pg_trigger where tgrelid = 'other'::regclass"
    enabled = database.execute(f"{triggers} and not tgisinternal and tgenabled = 'O'")
    database.execute("alter table other disable trigger user")
    yield
    for (name,) in enabled:
        database.execute(f"alter table other enable trigger {name}")


@rare(2, "halted", "insert of public.other by id: londiste events show")
def column_is_missing(watched: Watched) -> Iterator[None]:
    watched.leaf.database.execute("alter table other drop column v")
    watched.root.database.execute("insert into other values (100001, 'x')")
    yield
    watched.leaf.database.execute("alter table other add column v text")
    watched.line.wait(lambda: watched.line.error(watched.leaf) is None, "the event is applied")


@contextlib.contextmanager
def reader(watched: Watched, program: str = CONSUMER) -> Iterator[Process]:
    """A consumer that works."""
    dsn = watched.root.database.dsn
    process = watched.line.processes.start("reader", [sys.executable, "-c", program, dsn])
    reported(watched, process)
    yield process
    process.go_on() if process.running() and stat(process.pid)[0] == "T" else None
    process.kill()
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'reader')", QUEUE)


@rare(1, "held", "events are kept since", moved="1 h", shown="Events kept since")
def consumer_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    with reader(watched) as process:
        process.send(signal.SIGSTOP)
        watched.root.database.execute("insert into t values (300, 'x')")
        watched.synced()
        with watched.aged_ticks():
            yield


@rare(1, "dead-letters", "gave up")
def consumer_gives_events_up(watched: Watched) -> Iterator[None]:
    failing = CONSUMER.replace("pass", "raise londiste.Dead('refused')")
    with reader(watched, failing):
        watched.root.database.execute("insert into t values (400, 'x')")
        yield


@rare(1, "consumer-ended", "dispatch: NOT RUNNING since")
def dispatcher_is_killed(watched: Watched) -> Iterator[None]:
    dsn = watched.root.database.dsn
    watched.root.database.execute("create schema idle; create table idle.t (id int primary key)")
    argv = [sys.executable, "-m", "londiste", "dispatch", "--db", dsn, "--queue", QUEUE]
    argv += ["--consumer", "spread", "--target-db", dsn, "--set", "table_filter=idle.t"]
    done = watched.line.processes.run([*argv, "--register"])
    assert done.code == 0, str(done)
    process = watched.line.processes.start("dispatch", argv)
    reported(watched, process)
    process.kill()
    watched.age_reports(watched.root, name="spread")
    yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'spread')", QUEUE)


@rare(1, "consumer-ended", "lake: NOT RUNNING since")
def lake_is_killed(watched: Watched) -> Iterator[None]:
    dsn = watched.root.database.dsn
    given = {"db": dsn, "queue_name": QUEUE, "job_name": "archive", "lake_tables": "public.t"}
    # Begins where the queue is, and has no epoch while the test lasts.
    given |= {"lake_mode": "append", "lake_start": "latest", "lake_period": "1"}
    given["lake_path"] = str(watched.line.directory / "lake")
    options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    argv = [sys.executable, "-m", "londiste", *options, "lake", "run"]
    process = watched.line.processes.start("lake", argv)
    reported(watched, process)
    process.kill()
    watched.age_reports(watched.root, name="archive%")
    yield
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'archive.public.t')", QUEUE)


@rare(1, "copy", "copy: HUNG, connected but silent")
def copy_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    leaf = watched.leaf.database
    # An earlier outage may have added it.
    watched.line.run(watched.leaf, "remove-table", "late")
    watched.root.database.execute("insert into late select g, 'x' from generate_series(2, 9) as g")
    worker = watched.leaf.worker
    assert worker is not None
    assert worker.stop() == 0
    watched.line.add(watched.leaf, "late", expect_sync=False)
    with leaf.connect(autocommit=False) as lock:
        lock.execute("lock table public.late in access exclusive mode")
        watched.line.start(watched.leaf)
        pids = "select dm_pid from pgq.daemon where dm_kind = 'copy' and dm_stopped is null"
        pid = watched.line.wait(lambda: leaf.value(pids), "the copy", 60)
        os.kill(pid, signal.SIGSTOP)
        lock.rollback()
    watched.shorten_periods(watched.leaf)
    yield
    os.kill(pid, signal.SIGCONT)
    state = "select merge_state = 'ok' from londiste.table_info where table_name like '%late'"
    watched.line.wait(lambda: leaf.value(state), "the end of the copy", 60)
    watched.line.run(watched.leaf, "remove-table", "late")


@rare(1, "notify", "notify: NOT RUNNING since", silent=("webhook",))
def notifier_is_killed(watched: Watched) -> Iterator[None]:
    watched.notifier.kill()
    yield


@rare(1, "notify", "notify: HUNG, connected but silent", silent=("webhook",))
def notifier_is_stopped_by_a_signal(watched: Watched) -> Iterator[None]:
    watched.notifier.send(signal.SIGSTOP)
    yield
    watched.notifier.kill()


@rare(2, "worker", "worker: NOT RUNNING since")
def run_is_killed(watched: Watched) -> Iterator[None]:
    """All daemons of the cascade are children of one process, and end with it."""
    line = watched.line
    for process in (watched.root.worker, watched.leaf.worker, watched.ticker):
        assert process is not None
        assert process.stop() == 0
    file = line.directory / "run.toml"
    nodes = "".join(
        f'[nodes.{node.name}]\nworker = "{node.name}_worker"\ndb = "{node.database.dsn}"\n{role}\n'
        for node, role in (
            (watched.root, 'role = "root"'),
            (watched.leaf, 'role = "leaf"\nprovider = "root"'),
        )
    )
    file.write_text(f'[queue]\nname = "{QUEUE}"\n{nodes}')
    file.chmod(0o600)
    run = line.processes.start("run", [sys.executable, "-m", "londiste", "-c", str(file), "run"])
    living = "select count(*) from pgq.daemon where dm_kind = 'worker' and dm_stopped is null"
    line.wait(lambda: watched.leaf.database.value(living) == 1, "the worker of run")
    line.wait(lambda: "ticker started" in run.said(), "the ticker of run")
    line.wait(watched.healthy, "health under run", 60)
    run.kill()
    yield
    line.start(watched.root)
    line.start(watched.leaf)
    watched.start_ticker()
