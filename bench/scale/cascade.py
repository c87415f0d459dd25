"""Nodes of one queue for an axis: their databases, their settings files, their daemons."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from bench.scale.meter import Cost, Meter, settings, wait
from bench.support import common
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
#: A subscriber and its provider.
PAIR: Mapping[str, str | None] = {"root": None, "leaf": "root"}


class Cascade:
    """Nodes by name, in the order in which they are created; the first one is the root.

    Their databases have the names of the nodes, on the servers of the meter in turn.
    """

    def __init__(
        self, meter: Meter, providers: Mapping[str, str | None] = PAIR, subscribers: str = "leaf"
    ) -> None:
        """Creates databases and nodes.

        providers -- the provider of each node; None for the root.
        subscribers -- ``leaf`` or ``branch``.
        """
        self.meter = meter
        self.servers: dict[str, Cluster] = {}
        self.files: dict[str, str] = {}
        for number, (name, provider) in enumerate(providers.items()):
            server = self.servers[name] = meter.servers[number % len(meter.servers)]
            server.create_database(name)
            dsn = server.dsn(name)
            values = {"db": dsn, "queue_name": QUEUE, "job_name": name}
            file = self.files[name] = settings(meter.folder, name, "londiste", values)
            meter.command("install", "-c", file, "install")
            if provider is None:
                meter.command("create-root", "-c", file, "create-root", name, dsn)
            else:
                create = (f"create-{subscribers}", name, dsn)
                above = self.servers[provider].dsn(provider)
                meter.command(create[0], "-c", file, *create, "--provider", above)

    @property
    def root(self) -> str:
        """The name of the root."""
        return next(iter(self.files))

    def execute(self, node: str, *statements: str) -> None:
        """Executes statements in a database, each in a transaction of its own."""
        with common.connect(self.servers[node], node) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def value(self, node: str, query: str) -> int:
        """The number that a query finds in a database."""
        with common.connect(self.servers[node], node) as conn:
            row = conn.execute(query.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def wait(self, node: str, check: str) -> None:
        """Waits until an SQL expression is true in a database."""
        wait(f"select {check}", self.servers[node], node)

    def replicate(self, *tables: str) -> Iterator[Cost]:
        """Adds tables on all nodes, and copies them from node to node."""
        root, *others = self.files
        yield self.meter.command(
            "add-table on the root", "-c", self.files[root], "add-table", *tables
        )
        with self.ticking(), self.working(*others) as workers:
            with self.meter.watched(
                "add-table --create on the others, until in sync", *workers
            ) as found:
                for node in others:
                    add = ("add-table", *tables, "--create")
                    self.meter.command("add-table", "-c", self.files[node], *add)
                    self.wait(node, "every(merge_state = 'ok') from londiste.table_info")
            yield from found

    @contextlib.contextmanager
    def ticking(self) -> Iterator[int]:
        """Runs the ticker of the root in the with block; its process id."""
        db = self.servers[self.root].dsn(self.root)
        with self.meter.daemon(
            "-c", settings(self.meter.folder, "ticker", "ticker", {"db": db}), "ticker"
        ) as pid:
            yield pid

    @contextlib.contextmanager
    def working(self, *nodes: str) -> Iterator[list[int]]:
        """Runs the workers of nodes in the with block; their process ids."""
        with contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(self.meter.daemon("-c", self.files[node], "worker"))
                for node in nodes
            ]
