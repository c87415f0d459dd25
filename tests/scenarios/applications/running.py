"""An application that is there, and its users."""

from __future__ import annotations

import re
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from psycopg import conninfo

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.scenarios.applications import sums
from tests.scenarios.applications.kinds import Kind
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Process

_ROUND = re.compile(r"^round (\d+)$", re.MULTILINE)


@dataclass
class Application:
    """An installed application, with a database in its first state on the old server."""

    kind: Kind
    python: Path
    old: Cluster
    new: Cluster
    password: str

    @property
    def _made(self) -> str:
        return f"{self.kind.name}_made"

    def login(self, dsn: str) -> str:
        """A connection string of the application, who owns its database and is no superuser."""
        return conninfo.make_conninfo(dsn, user=self.kind.name, password=self.password)

    def make(self) -> None:
        """Makes the database of the application with its own commands: migrations and all."""
        self._make_database(self.old, self._made)
        # The application knows its database by one name.
        dsn = self.login(self.old.dsn(self._made))
        for arguments in self.kind.setup:
            self.run(dsn, *(a.replace("{database}", self._made) for a in arguments))

    def run(self, dsn: str, *arguments: str) -> str:
        """A command of the application; what it prints."""
        done = subprocess.run(
            [self.python, *arguments],
            env={**self.old.environment(), **self.kind.environment(dsn)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def structures(self, database: Database) -> tuple[Counter[str], Counter[str]]:
        """The structure of a database on the old server, and what it is on the new one.

        The later release writes some expressions in another way and names more constraints: a
        dump that is restored there shows how.
        """
        here = sums.structure(database, self.new)
        twin = f"{self.kind.name}_twin"
        self._make_database(self.new, twin)
        try:
            sums.restore("\n".join(here), Database(self.new, twin), self.new)
            return here, sums.structure(Database(self.new, twin), self.new)
        finally:
            self.new.drop_database(twin)

    def databases(self) -> Iterator[tuple[Database, Database]]:
        """A copy of it on the old server, an empty database on the new one, of one name."""
        name = self.kind.name
        self.old.create_database(name, template=self._made)
        self._administer(self.old, f'alter database "{name}" owner to "{name}"')
        self._make_database(self.new, name)
        yield Database(self.old, name), Database(self.new, name)
        for server in (self.old, self.new):
            server.drop_database(name)

    def assert_structures(
        self,
        databases: tuple[Database, Database],
        structures: tuple[Counter[str], Counter[str]],
    ) -> None:
        """Both have these structures, and nothing else."""
        for database, structure in zip(databases, structures, strict=True):
            sums.assert_same_structure(structure, sums.structure(database, self.new))

    def start_writer(self, cascade: Cascade, dsn: str) -> Writer:
        """Its users, from now on."""
        argv = [str(self.python), str(self.kind.writer)]
        process = cascade.processes.start(
            "application", argv, self.kind.environment(self.login(dsn))
        )
        return Writer(cascade, process)

    def _make_database(self, server: Cluster, name: str) -> None:
        server.create_database(name)
        role = self.kind.name
        roles = Database(server, name).value(
            "select count(*) from pg_roles where rolname = %s", role
        )
        if not roles:
            self._administer(server, f"create role \"{role}\" login password '{self.password}'")
        self._administer(server, f'alter database "{name}" owner to "{role}"')

    @staticmethod
    def _administer(server: Cluster, statement: str) -> None:
        Database(server, "postgres").execute(statement)


@dataclass
class Writer:
    """The process that writes."""

    cascade: Cascade
    process: Process

    def rounds(self) -> int:
        """How many rounds are confirmed."""
        assert self.process.running(), self.process.said()
        return self._said()

    def wait(self, count: int, seconds: float = 120.0) -> None:
        """Until so many more are."""
        target = self.rounds() + count
        self.cascade.wait(lambda: self.rounds() >= target, f"round {target}", seconds)

    def stop(self) -> int:
        """Ends it behind a round; how many are confirmed."""
        assert self.process.stop(90) == 0, self.process.said()
        return self._said()

    def _said(self) -> int:
        numbers = _ROUND.findall(self.process.said())
        return int(numbers[-1]) if numbers else 0


def new_password() -> str:
    """Of the application, on both servers."""
    return secrets.token_hex(12)
