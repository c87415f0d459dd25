"""A cascade in the test's own process, where the test decides every step.

Commands are the program's own, from the command line on.  Workers do a unit when they are told
to, ticks are made by hand.  Where a command waits it does not sleep: the workers work meanwhile,
and the clock that it looks at goes on by as much as it would have slept.  Before and after each
step, and at each wait, the test is asked (``Stage.between``): it may look, write, or end the
command there.

Databases, sessions and the processes that copy tables are real.
"""

from __future__ import annotations

import contextlib
import io
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from londiste.cascade.switching.steps import roots, waits
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.daemon import crash, waiting
from londiste.daemon.loop import as_londiste
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError, Superseded
from londiste.replication.tablesync import wait
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.cascade import Answer
from tests.fixtures.cluster import Database, Server, create_database
from tests.support.hints import plain
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.harness import QUEUE, quoted
from tests.support.scenarios.processes import Processes

#: Modules in which a command waits.
_WAITING = (waiting, waits, roots, wait)
#: What a wait adds to the clock at least: so few rounds of all workers make a timeout.
_ROUND = 0.1


class Killed(BaseException):
    """A process ends here: nothing of its own cleans up but what closes its sessions."""


class Clock:
    """Stands for the module ``time`` where a command waits."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self._slept = 0.0

    def monotonic(self) -> float:
        """Seconds, with those that nobody has slept."""
        return time.monotonic() + self._slept

    def sleep(self, seconds: float) -> None:
        """Others work meanwhile."""
        self._slept += max(seconds, _ROUND)
        self._meanwhile()


class ForkedCopies:
    """The copy process of a worker: a fork that is there in milliseconds."""

    def __init__(self, forks: Forks, config: Path) -> None:
        self._forks, self._config = forks, config
        self._fork: Fork | None = None
        self.failures = 0

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._fork is not None and self._fork.code() is None

    def look_after(self, wanted: bool) -> None:
        """Starts it when it is wanted and does not run."""
        if wanted and not self.alive:
            self._fork = self._forks.start(self._config, "copy")

    def stop(self) -> None:
        """kill -9."""
        if self._fork is not None:
            self._fork.kill()
            self._fork = None


@dataclass
class Place:
    """A database that is or may become a node.

    name -- of the node that it is, by what was asked for last; empty for none.
    cut -- nobody reaches it but the test itself.
    born -- the tick at which it was made.
    """

    slot: int
    database: Database
    config: Path
    name: str = ""
    cut: bool = False
    born: int = 1
    worker: Worker | None = None
    error: str = ""
    _session: psycopg.Connection[Any] | None = None

    @property
    def job(self) -> str:
        """Its worker's name."""
        return f"w{self.slot}"

    def session(self) -> psycopg.Connection[Any]:
        """The session of the test, and of the applications that write there."""
        if self._session is None or self._session.closed:
            self._session = psycopg.connect(self.database.dsn, autocommit=True)
            self._session.execute("set lock_timeout = '5s'; set statement_timeout = '60s'")
        return self._session

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What a statement gives, in that session."""
        cursor = self.session().execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *parameters: Any) -> Any:
        """The first column of its first row, or None."""
        rows = self.rows(statement, *parameters)
        return rows[0][0] if rows else None

    def leave(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None


@dataclass
class Stage:
    """All databases, and what goes on in them.

    between -- called before and after each step of a command, and where it waits.
    """

    directory: Path
    server: Server
    places: list[Place] = field(default_factory=list)
    between: Callable[[str], None] = lambda where: None
    dies_at: tuple[str, int] | None = None

    def __post_init__(self) -> None:
        self.processes = Processes(self.directory, {"LONDISTE_TRACEBACK": "1"})
        self.forks = Forks(self.processes)
        self.signals = Signals()
        self.random = random.Random(0)
        self._saved = False

    # -- databases -------------------------------------------------------------------------

    def place(self, schema: str) -> Place:
        """One more database, with the user's tables."""
        database = create_database(self.server, pgq=True)
        database.execute(schema)
        slot = len(self.places)
        config = self.directory / f"place{slot}.toml"
        keys = {
            "db": quoted(database.dsn),
            "queue_name": quoted(QUEUE),
            "job_name": quoted(f"w{slot}"),
            "engine": quoted("local"),
            "poll_interval": "0.05",
            "max_retry_delay": "0.1",
            "lock_timeout": "2",
            "local_wm_publish_period": "0.01",
            "global_wm_publish_period": "0.01",
        }
        lines = [f"{key} = {value}" for key, value in keys.items()]
        config.write_text("[londiste]\n" + "\n".join(lines) + "\n", encoding="utf-8")
        config.chmod(0o600)
        place = Place(slot, database, config)
        self.places.append(place)
        return place

    def save(self) -> None:
        """Remembers the databases and names as they are."""
        self.rest()
        for place in self.places:
            place.database.clone(_saved(place))
        self._names = [place.name for place in self.places]
        self._saved = True

    def restore(self) -> None:
        """Sets all databases back."""
        self.rest()
        for place, name in zip(self.places, self._names, strict=True):
            if place.cut:
                self._allow(place, True)
            self.server.drop_database(place.database.name)
            self.server.create_database(place.database.name, template=_saved(place))
            place.name, place.cut, place.error, place.born = name, False, "", 1

    def rest(self) -> None:
        """Ends all workers and sessions."""
        for place in self.places:
            self.stop_worker(place)
            place.leave()

    def close(self) -> None:
        """Ends everything."""
        self.rest()
        self.forks.close()
        self.signals.close()
        left = self.processes.close()
        for place in self.places:
            if place.cut:
                self._allow(place, True)
            place.database.drop()
            if self._saved:
                self.server.drop_database(_saved(place))
        assert not left, f"processes left behind: {left}"

    # -- the network -----------------------------------------------------------------------

    def cut(self, place: Place) -> None:
        """From now on nobody reaches a database; applications that have a session keep it."""
        mine = place.session().info.backend_pid
        self._allow(place, False)
        place.rows(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and pid <> %s",
            mine,
        )
        self.stop_worker(place)
        place.cut = True

    def mend(self, place: Place) -> None:
        """It can be reached again."""
        self._allow(place, True)
        place.cut = False

    def _allow(self, place: Place, allowed: bool) -> None:
        statement = sql.SQL("alter database {} allow_connections {}").format(
            sql.Identifier(place.database.name), sql.Literal(allowed)
        )
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as conn:
            conn.execute(statement)

    # -- workers ---------------------------------------------------------------------------

    def unit(self, place: Place) -> bool:
        """One unit of the place's worker; whether there is more to do at once.

        Raises what is no error of ours.
        """
        if not place.name or place.cut:
            return False
        try:
            worker = place.worker
            if worker is None:
                settings = load(WorkerSettings, place.config)
                worker = Worker(lambda: settings, self.signals)
                worker.copies = ForkedCopies(self.forks, place.config)  # type: ignore[assignment]
                worker._start()
                place.worker = worker
            more = worker.unit()
            place.error = ""
            return more
        except (LondisteError, psycopg.Error) as error:
            ours = as_londiste(error)
            place.error = f"{ours.message}; {ours.detail}"
            if place.worker is not None:
                place.worker._recover(ours)
            if place.worker is None or isinstance(ours, Superseded):
                self.stop_worker(place)
            return False
        except Killed:
            self.stop_worker(place)
            return False

    def stop_worker(self, place: Place) -> None:
        """It ends; the next unit is of a new one."""
        if place.worker is not None:
            place.worker.close()
            place.worker = None

    def meanwhile(self) -> None:
        """A unit of every worker, in any order."""
        places = [p for p in self.places if p.name and not p.cut]
        self.random.shuffle(places)
        for place in places:
            self.unit(place)

    # -- commands --------------------------------------------------------------------------

    def command(self, place: Place, *argv: str) -> Answer:
        """A command, with the settings of a place.  Raises Killed when the test ends it."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(cli, ["-c", str(place.config), *argv])
        return Answer(code, out.getvalue(), plain(err.getvalue()))

    def point(self, name: str) -> None:
        """Takes the place of ``crash.point``."""
        if name.startswith("plan."):
            self.between(name)
        elif self.dies_at is not None and self.dies_at[0] == name:
            left = self.dies_at[1] - 1
            self.dies_at = (name, left) if left else None
            if not left:
                raise Killed

    def _waited(self) -> None:
        self.between("wait")
        self.meanwhile()


def _saved(place: Place) -> str:
    return f"{place.database.name}_saved"


@contextlib.contextmanager
def patched(stage: Stage) -> Iterator[Stage]:
    """The commands of this process wait and step as the stage says, for as long as it is open."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(stage._waited)
        for module in _WAITING:
            patch.setattr(module, "time", clock)
        patch.setattr(crash, "point", stage.point)
        try:
            yield stage
        finally:
            stage.close()


def words(argv: Sequence[str]) -> str:
    """A command as it is typed."""
    return "londiste " + " ".join(argv)
