"""The nodes of one life, and the processes that serve them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.support.lines import Line
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.processes import Processes, stat
from tests.support.servers.pooler import Pooler
from tests.support.servers.small_disk import SmallDisk

QUEUE = "nemesis"
#: Its ticks; those of the application's queue have the same numbers.
TICKS = (
    "(select t.* from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue"
    f" where q.queue_name = '{QUEUE}')"
)
#: In every connection string of a settings file; no output may contain it.
SECRET = "hush7secret"
_PROGRAM = "tests.nemesis.program"


@dataclass
class Place:
    """The database of a node, and the processes that serve it.

    dsn -- of programs and applications; the database's own is that of a superuser.
    """

    name: str
    database: Database
    dsn: str
    location: str
    pooler: Pooler | None = None
    queue: str = QUEUE
    config: Path = field(default_factory=Path)
    worker: Fork | None = None
    env: dict[str, str] = field(default_factory=dict)


class Cast:
    """The nodes and processes of one life."""

    def __init__(
        self,
        directory: Path,
        servers: dict[str, Cluster],
        places: dict[str, Place],
        line: Line | None,
        more: dict[str, Any],
    ) -> None:
        self.directory, self.servers, self.places = directory, servers, places
        self.line, self.more = line, more
        self.processes = Processes(directory)
        self.forks = Forks(self.processes)
        self.ticker: Fork | None = None
        #: Of a migration: the command that stays, with daemons of its own, and its words.
        self.mover: Fork | None = None
        self.moving: list[str] = []
        self.migrates = False
        #: Daemons end by themselves now.
        self.ending = False
        self.defect = more.get("defect", "")
        self.commands: list[Fork] = []
        self.closed = False
        self.disk: SmallDisk | None = None
        #: Of the life: all of them, replicated or not.
        self.tables: list[Any] = []
        #: Workers that another one has replaced.
        self.doubles: list[Fork] = []

    def write_settings(self) -> None:
        both: dict[str, Any] = {}
        for place in self.places.values():
            place.env = {}
            place.config = self.directory / f"{place.name}.toml"
            keys = {
                "db": conninfo.make_conninfo(place.dsn, password=SECRET),
                "queue_name": place.queue,
                "job_name": self.job(place.name),
                "engine": "local",
                "poll_interval": 0.1,
                "max_retry_delay": 0.3,
                "local_wm_publish_period": 1,
                "global_wm_publish_period": 1,
                "response_timeout": 2,
                **self.more.get("settings", {}),
            }
            _write(place.config, "londiste", keys)
            if self.migrates:
                dsn = conninfo.make_conninfo(place.location, connect_timeout=3, password=SECRET)
                both["from_db" if place.name == "old" else "to_db"] = dsn
                both = {**keys, **both}
        if self.migrates:
            del both["db"], both["job_name"]
            _write(self.directory / "move.toml", "migrate", both)
        given = dict.fromkeys(p.dsn for p in self.places.values())
        dsns = [conninfo.make_conninfo(dsn, password=SECRET) for dsn in given]
        keys = {
            "databases": dsns,
            "ticker_period": self.more.get("tick", 0.1),
            "max_retry_delay": 0.3,
            **({"maint_period": 0.5} if self.more.get("rotate") else {}),
        }
        _write(self.directory / "ticker.toml", "ticker", keys)
        if self.more.get("rotate") and not self.migrates:
            self.rotate()

    def rotate(self) -> None:
        """Events are removed soon after all nodes have them."""
        for place in self.places.values():
            place.database.execute("update pgq.queue set queue_rotation_period = '2 seconds'")

    def job(self, node: str) -> str:
        """Name of the worker of a node."""
        return f"migrate_{node}" if self.migrates else f"{node}_worker"

    # -- processes -------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        return {"NEMESIS_DEFECT": self.defect} if self.defect else {}

    def start_ticker(self) -> None:
        self.ticker = self.forks.start(
            self.directory / "ticker.toml", "ticker", program=_PROGRAM, **self.environment()
        )

    def start_worker(self, name: str, **env: str) -> None:
        place = self.places[name]
        place.worker = self.forks.start(
            place.config, "worker", program=_PROGRAM, **self.environment(), **env
        )

    def stay(self, *words: str, **env: str) -> Fork:
        """Starts a command of a migration that stays; it is revived with these words."""
        self.moving = list(words)
        self.mover = self.command("old", "migrate", *words, **env)
        return self.mover

    def start_all(self) -> None:
        self.start_ticker()
        for name in self.places:
            self.start_worker(name)

    def daemons(self) -> dict[str, Fork]:
        found = {p.name: p.worker for p in self.places.values() if p.worker is not None}
        found |= {"ticker": self.ticker} if self.ticker is not None else {}
        return {**found, **({"mover": self.mover} if self.mover is not None else {})}

    def workers(self, node: str) -> list[int]:
        """The worker of a node; those of both if a command of a migration has started them."""
        worker = self.places[node].worker
        if worker is not None:
            return [worker.pid] if worker.code() is None else []
        return self._children("worker") if self.mover is not None else []

    def tickers(self) -> list[int]:
        """The ticker, also that of a command."""
        if self.ticker is not None:
            return [self.ticker.pid] if self.ticker.code() is None else []
        return self._children("ticker") if self.mover is not None else []

    def _children(self, word: str) -> list[int]:
        found = self.processes.find(word)
        # Not the process that forks the copies of a worker.
        return [pid for pid in found if int(stat(pid)[1]) not in found]

    def revive(self) -> list[str]:
        """Starts the daemons that a signal has ended; what those that ended otherwise said."""
        wrong: list[str] = []
        if self.ending:
            return wrong
        for name, fork in self.daemons().items():
            code = fork.code()
            if code is None:
                continue
            if self.doubles and _met_another(fork):
                # ``end_doubles`` starts it.
                continue
            if name == "mover":
                # One that is begun while a database is away ends; it is given again.
                if code == 0 and "changes are not replicated" not in fork.out + fork.err:
                    wrong.append(f"{fork} ended by itself")
                self.stay(*self.moving)
                continue
            if code >= 0:
                wrong.append(f"{name} ended by itself with {code}: {fork.err[-1500:]}")
            self.start_ticker() if name == "ticker" else self.start_worker(name)
        return wrong

    def end_doubles(self) -> None:
        """A worker that was replaced has to end by itself, or to wait; or it was quicker."""
        for fork in self.doubles:
            fork.send(9)
            fork.wait(30)
        if self.doubles:
            for name, fork in self.daemons().items():
                if _met_another(fork):
                    self.start_worker(name)
        self.doubles.clear()

    def command(self, node: str, *argv: str, **env: str) -> Fork:
        """Starts a command."""
        migrates = "migrate" in argv
        config = self.directory / "move.toml" if migrates else self.places[node].config
        fork = self.forks.start(config, *argv, program=_PROGRAM, **self.environment(), **env)
        self.commands.append(fork)
        return fork

    def copies(self) -> list[int]:
        """Processes that copy."""
        return self.processes.find("copy")

    def close_database(self, node: str) -> None:
        """Nobody can connect to the database of a node, and nobody is connected."""
        database = self.places[node].database
        with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f"alter database {database.name} allow_connections false".encode())
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                [database.name],
            )

    def open_database(self, node: str) -> None:
        """It answers again."""
        database = self.places[node].database
        with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f"alter database {database.name} allow_connections true".encode())

    def close(self) -> list[str]:
        """Ends all processes; what was left of them."""
        if self.closed:
            return []
        self.closed = True
        for fork in self.daemons().values():
            fork.send(9)
        self.end_doubles()
        self.forks.close()
        return self.processes.close()

    def value(self, node: str, statement: str, *parameters: Any) -> Any:
        return self.places[node].database.value(statement, *parameters)

    def rows(self, node: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.places[node].database.execute(statement, *parameters)

    def connect(self, node: str, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.places[node].database.dsn, autocommit=True, connect_timeout=5, **more
        )


def _met_another(fork: Fork) -> bool:
    """Whether a worker ended because another one works for its node."""
    return fork.code() == 3 and "another worker runs" in fork.err


def _write(path: Path, section: str, keys: dict[str, Any]) -> None:
    lines = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in keys.items()]
    path.write_text(f"[{section}]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o600)
