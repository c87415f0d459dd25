"""Sessions and settings of the copies of a node: source, target, index builds, waits.

That is the provider, unless the table was added with another one
(``replication/tablesync/copy_source.py``).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import WorkerState
from londiste.db.connection import Connection, connect, describe_dsn, session
from londiste.db.connstr.locations import reach
from londiste.db.names import TableName, argument
from londiste.engine.base import Engine
from londiste.engine.session_pool import SessionPool
from londiste.errors import StateError
from londiste.pgq import batches
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import copy_source
from londiste.standby import server

log = logging.getLogger(__name__)

_NAME_BYTES = 63

#: The least that the server takes for building an index.
_LEAST_MEMORY = 1024 * 1024


class Builds:
    """Limits of index builds of all tables of the process: number at a time, and memory of each.

    jobs -- builds at a time; memory -- bytes for one, so that together they have the budget.
    """

    def __init__(self, jobs: int = 2, budget: int = 512 * 1024 * 1024) -> None:
        self.jobs = jobs
        self.memory = max(_LEAST_MEMORY, budget // jobs)
        self._places = threading.BoundedSemaphore(jobs)

    @contextlib.contextmanager
    def place(self, stopping: Callable[[], bool]) -> Iterator[bool]:
        """Waits for its turn; yields False when the process is stopping."""
        while not self._places.acquire(timeout=0.2):
            if stopping():
                yield False
                return
        try:
            yield True
        finally:
            self._places.release()


class Changes:
    """Wakes the copies of the process when table states have changed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def count(self) -> int:
        """To be read before the check whose outcome is waited for."""
        return self._count

    def tell(self) -> None:
        """Wakes all waits."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, since: int, seconds: float) -> None:
        """Waits for a change since ``count`` was ``since``, at most ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != since, seconds)


class CopyStandby:
    """The standby that copies read; the copies of a process share it.

    dsn -- connection string of the standby.
    wait -- seconds to wait for its replay.
    """

    def __init__(self, dsn: str, wait: float) -> None:
        self.dsn = dsn
        self.place = describe_dsn(dsn)
        self.wait = wait
        self._failed: set[str] = set()
        self._lock = threading.Lock()

    def may_read(self, consumer: str) -> bool:
        """Whether the copy of this consumer has not failed there."""
        with self._lock:
            return consumer not in self._failed

    def fail(self, consumer: str, error: Exception) -> None:
        """After a failure: this copy reads the provider from now on."""
        text, hint = server.reason(error, self.place)
        with self._lock:
            self._failed.add(consumer)
        log.warning("standby %s: %s; copying from the provider%s", self.place, text, hint)


@dataclass(frozen=True)
class CopyJob:
    """What all tables of a copy process have in common.

    db -- connection string of this node.
    consumer -- the main worker's consumer; the copies' names begin with it.
    remote_extra -- added to the provider's location.
    parallel -- chunks of one table at a time.
    chunk_bytes -- see ``split``.
    builds -- for the indexes of all tables.
    resumable_from -- bytes from which on a table is copied resumably.
    spare -- sessions for the next table.
    changes -- wakes copies that wait for the worker.
    standby -- of the provider: rows are read there, as far as it is usable.
    answer_seconds -- a server that sends nothing for this time and does not work is lost.
    """

    db: str
    queue: str
    consumer: str
    engine: Engine
    remote_extra: str = ""
    parallel: int = 2
    chunk_bytes: int = 128 * 1024 * 1024
    lock_timeout_ms: int = 10_000
    delay: float = 1.0
    builds: Builds = field(default_factory=Builds)
    resumable_from: int = 10 * 1024 * 1024 * 1024
    spare: SessionPool = field(default_factory=SessionPool)
    changes: Changes = field(default_factory=Changes)
    standby: CopyStandby | None = None
    answer_seconds: float | None = None

    @property
    def copy_prefix(self) -> str:
        """Prefix of the names of the copies' consumers."""
        return f"{self.consumer}.copy."

    def copy_consumer(self, table: TableName) -> str:
        """The consumer that replays one table after its copy."""
        return f"{self.copy_prefix}{table}"


class Stopping(StateError):
    """The process is stopping; the copy continues in the next one."""


class CopySessions:
    """Source and target sessions of one copy, opened when they are needed.

    stopping -- whether the process is stopping.
    consumer -- when it is not the table's own: of a group, which ``name`` only labels.
    """

    def __init__(
        self,
        job: CopyJob,
        name: TableName,
        stopping: Callable[[], bool],
        *,
        consumer: str | None = None,
    ) -> None:
        self.job = job
        self.queue = job.queue
        self.name = name
        self.consumer = consumer or job.copy_consumer(name)
        self.stopping = stopping
        self._here: Connection | None = None
        self._provider: Connection | None = None
        self._location = ""
        self._node = ""

    @property
    def here(self) -> Connection:
        """A session on this node, in autocommit mode, with the replica role."""
        if self._here is None or self._here.closed:
            self._here = self.job.spare.take(self.job.db, self.session_name, target=True)
        if self._here is None:
            self._here = connect(
                self.job.db,
                name=self.session_name,
                autocommit=True,
                replica=True,
                synchronous=True,
                lock_timeout_ms=self.job.lock_timeout_ms,
                silent_seconds=self.job.answer_seconds,
            )
            # The server cancels the work of a killed process, where it can notice.
            with contextlib.suppress(psycopg.Error):
                self._here.execute("set client_connection_check_interval = '1s'")
        return self._here

    @property
    def provider(self) -> Connection:
        """A session on the node that is copied from (usually the provider), in autocommit mode."""
        if self._provider is None or self._provider.closed:
            location = self._locate()
            self._provider = self.job.spare.take(location, self.session_name, target=False)
        if self._provider is None:
            self._provider = connect(
                location,
                name=self.session_name,
                autocommit=True,
                lock_timeout_ms=self.job.lock_timeout_ms,
                silent_seconds=self.job.answer_seconds,
            )
        return self._provider

    @property
    def location(self) -> str:
        """Connection string of the node that is copied from, as ``provider`` has used it."""
        return self._location or self._locate()

    @property
    def source_node(self) -> str:
        """The name of the node that is copied from."""
        if not self._location:
            self._locate()
        return self._node

    @property
    def session_name(self) -> str:
        """application_name of these sessions."""
        return f"londiste copy {self.name}".encode()[:_NAME_BYTES].decode("utf-8", "ignore")

    @property
    def resync_name(self) -> str:
        """The table's name in the command that copies it again."""
        if self.consumer != self.job.copy_consumer(self.name):
            return "TABLE"
        return argument(self.name)

    def close(self) -> None:
        """Closes the sessions; the next use opens new ones."""
        for conn in (self._here, self._provider):
            if conn is not None:
                conn.close()
        self._here = self._provider = None

    def give_back(self) -> None:
        """Keeps the sessions for another table, after a copy without an error."""
        if self._here is not None:
            self.job.spare.keep(
                self.job.db,
                self._here,
                target=True,
                name=self.session_name,
                most=self.job.parallel,
            )
        if self._provider is not None:
            self.job.spare.keep(
                self._location,
                self._provider,
                target=False,
                name=self.session_name,
                most=self.job.parallel,
            )
        self._here = self._provider = None

    def table(self) -> ReplicatedTable | None:
        """The table as it is registered now; None when it is not kept here."""
        found = tables.get_table(self.here, self.queue, self.name)
        return found if found is not None and found.local else None

    def state(self) -> str | None:
        """Its state now."""
        table = self.table()
        return None if table is None else table.state

    def pause(self, seconds: float) -> None:
        """Sleeps, until the process is stopping at most."""
        deadline = time.monotonic() + seconds
        while not self.stopping() and time.monotonic() < deadline:
            time.sleep(min(0.1, seconds))

    def registered_at(self) -> str | None:
        """The node where the copy's consumer is registered, as this node knows it, or None."""
        known = nodes.get_consumer_info(self.here, self.queue)
        return next((c.provider for c in known if c.name == self.consumer), None)

    def left(self) -> str | None:
        """The node where the copy's consumer is registered, if the provider is another one now."""
        before = self.registered_at()
        self.relocate()
        return before if before not in (None, self._node) else None

    def relocate(self) -> None:
        """Switches to the current provider."""
        before = self._location
        if self._locate() != before and self._provider is not None:
            self._provider.close()

    def unregister_at(self, node: str) -> None:
        """Unregisters the consumer at a node that may not be the current source.

        A node that was dropped has nothing to unregister.
        """
        if node == self.source_node:
            batches.unregister_consumer(self.provider, self.queue, self.consumer)
            return
        for member in nodes.get_queue_locations(self.here, self.queue):
            if member.name == node and not member.dead:
                location = self._reach(member.location, member.name)
                with session(
                    location,
                    name=self.session_name,
                    autocommit=True,
                    silent_seconds=self.job.answer_seconds,
                ) as conn:
                    batches.unregister_consumer(conn, self.queue, self.consumer)

    def _locate(self) -> str:
        state = nodes.get_worker_state(self.here, self.queue)
        self._node, location = state.provider, self._reach(state.provider_location, state.provider)
        table = self.table() if self.consumer == self.job.copy_consumer(self.name) else None
        wanted = "" if table is None else table.attrs.get(copy_source.ATTR, "")
        # A copy that has started keeps its source, while that has the rows.
        before = self.registered_at() if wanted == copy_source.ANY else None
        if before is not None:
            try:
                self._node, location = self._find(before, state)
            except StateError:
                before = None
        if before is None and wanted and wanted != state.provider:
            self._node, location = self._find(wanted, state)
        self._location = location
        return location

    def _find(self, wanted: str, state: WorkerState) -> tuple[str, str]:
        """The name and connection string of the node that is copied from.  Raises StateError."""
        with contextlib.ExitStack() as stack:

            def at(dsn: str) -> Connection:
                return stack.enter_context(
                    session(
                        dsn,
                        name=self.session_name,
                        autocommit=True,
                        silent_seconds=self.job.answer_seconds,
                    )
                )

            found = copy_source.find(
                at, self._reach, state.provider_location, self.queue, self.name, wanted
            )
        return found.node, found.dsn

    def _reach(self, location: str, node: str = "") -> str:
        return reach(location, self.job.remote_extra, node=node)
