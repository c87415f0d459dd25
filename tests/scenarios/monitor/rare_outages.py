"""More outages: of servers, of their limits, and of programs beside the replication."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.line import QUEUE
from tests.scenarios.monitor.conftest import Watched
from tests.scenarios.monitor.outages import CONSUMER, Outage, outage
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


@contextlib.contextmanager
def reader(watched: Watched, program: str = CONSUMER) -> Iterator[Process]:
    """A consumer that works."""
    dsn = watched.root.database.dsn
    process = watched.line.processes.start("reader", [sys.executable, "-c", program, dsn])
    reports = "select count(*) from pgq.daemon where dm_name = 'reader'"
    watched.line.wait(lambda: watched.root.database.value(reports) == 1, "the consumer's report")
    yield process
    process.go_on() if process.running() and stat(process.pid)[0] == "T" else None
    process.kill()
    watched.root.database.execute("select pgq.unregister_consumer(%s, 'reader')", QUEUE)
