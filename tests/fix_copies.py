"""A root and a leaf, and the copy process of the leaf in a thread of the test.

The test is in the place of the main worker and the ticker.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from londiste.copy.process import CopyProcess
from londiste.copy.sessions import Job
from londiste.daemon.signals import Signals
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.local.engine import LocalEngine
from londiste.errors import LondisteError
from tests.fix_cluster import Database
from tests.fix_nodes import ret
from tests.waiting import wait_for

A, B = TableName("public", "a"), TableName("public", "b")
ROWS = "select id, v from public.{} order by id"


@dataclass
class Nodes:
    """A root and a leaf, and the copy process of the leaf in a thread."""

    root: Database
    leaf: Database
    engine: Engine
    signals: Signals = field(default_factory=lambda: Signals(stop_timeout=30))
    thread: threading.Thread | None = None
    failure: LondisteError | None = None
    parallel: int = 2
    resumable_from: int = 1 << 40

    def add(self, *names: TableName) -> None:
        """The tables are registered, and shall be copied."""
        for name in names:
            captured = ret(self.root, "londiste.local_add_table", "q", str(name), ["tgflags=C"])
            assert captured[0] < 400
            for function in ("global_add_table", "local_add_table"):
                assert ret(self.leaf, f"londiste.{function}", "q", str(name))[0] < 400
            self.set_state(name, "in-copy")

    def set_state(self, name: TableName, state: str) -> None:
        """What the main worker would store."""
        self.leaf.execute(
            "update londiste.table_info set merge_state = %s where table_name = %s",
            state,
            str(name),
        )

    def state(self, name: TableName) -> str | None:
        """The state now; one round of the ticker and the main worker's part come first."""
        self.root.execute("select pgq.ticker('q')")
        self.leaf.execute(
            "update londiste.table_info set merge_state = replace(merge_state, 'wanna', 'do')"
            " where merge_state like 'wanna-sync:%%' and queue_name = %s",
            "q",
        )
        state = self.leaf.value(
            "select merge_state from londiste.table_info where table_name = %s", str(name)
        )
        assert state is None or isinstance(state, str)
        return state

    def process(self, *wanted: TableName) -> CopyProcess:
        """A copy process with small chunks, short pauses."""
        job = Job(
            db=self.leaf.dsn,
            queue="q",
            consumer="w2",
            engine=self.engine,
            chunk_bytes=64 * 1024,
            lock_timeout_ms=5000,
            delay=0.1,
            resumable_from=self.resumable_from,
        )
        return CopyProcess(job, wanted=wanted, parallel=self.parallel, longest_pause=0.3)

    def start(self, *wanted: TableName) -> None:
        """Runs one in the background."""
        self.start_work(self.process(*wanted))

    def start_work(self, work: CopyProcess) -> None:
        """Runs this one in the background."""

        def run() -> None:
            try:
                work.run(self.signals)
            except LondisteError as error:
                self.failure = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def wait_end(self) -> None:
        """Waits until the process has ended by itself."""
        assert self.thread is not None
        wait_for(
            lambda: (self.state(A), not self.thread or not self.thread.is_alive())[1],
            what="the end of the copy process",
        )
        self.thread.join()
        self.thread = None

    def stop(self) -> None:
        """Stops it as a signal would."""
        self.signals.stop()
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def consumers(self) -> list[str]:
        """Consumers of copies, on both sides."""
        return [
            name
            for db, query in (
                (self.root, "select consumer_name from pgq.get_consumer_info('q')"),
                (self.leaf, "select consumer_name from pgq_node.get_consumer_info('q')"),
            )
            for (name,) in db.execute(query)
            if ".copy." in name
        ]

    def error(self, name: TableName) -> str:
        """Why the copy of a table does not go on."""
        return str(
            self.leaf.value(
                "select cur_error from pgq_node.local_state where consumer_name = %s",
                f"w2.copy.{name}",
            )
            or ""
        )


@pytest.fixture(scope="module")
def copy_engine() -> Iterator[Engine]:
    made = LocalEngine()
    yield made
    made.close()


@pytest.fixture
def nodes(new_database: Callable[..., Database], copy_engine: Engine) -> Iterator[Nodes]:
    root, leaf = new_database(pgq=True), new_database(pgq=True)
    ret(root, "pgq_node.register_location", "q", "n1", root.dsn, False)
    ret(root, "pgq_node.create_node", "q", "root", "n1", "w1", None, None, None)
    for name, db in (("n1", root), ("n2", leaf)):
        ret(leaf, "pgq_node.register_location", "q", name, db.dsn, False)
    ret(leaf, "pgq_node.create_node", "q", "leaf", "n2", "w2", "n1", 1, None)
    for db in (root, leaf):
        for table in ("a", "b"):
            db.execute(f"create table public.{table} (id int8 primary key, v text)")
    made = Nodes(root, leaf, copy_engine)
    yield made
    made.stop()


def fill(nodes: Nodes, name: TableName, rows: int = 3000) -> None:
    nodes.root.execute(
        f"insert into {name.quoted} select i, repeat('x', 100) from generate_series(1, {rows}) i"
    )


def same(nodes: Nodes, name: TableName) -> bool:
    return nodes.leaf.execute(ROWS.format(name.name)) == nodes.root.execute(ROWS.format(name.name))


@contextlib.contextmanager
def held(nodes: Nodes) -> Iterator[None]:
    """Tasks that copy into table a wait inside their transaction for the end of the block."""
    nodes.leaf.execute(
        "create function public.gate() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock_shared(42); return null; end';"
        " create trigger gate before insert on public.a execute function public.gate();"
        " alter table public.a enable always trigger gate"
    )
    with nodes.leaf.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        yield
