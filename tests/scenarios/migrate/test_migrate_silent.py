"""Migration while one database does not answer: each command ends, and can be repeated."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.lines import Line
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.harness import quoted
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for

SCHEMA = "create table public.written (n bigint primary key, v text)"
PATIENCE = {"LONDISTE_LOCK_TIMEOUT": "1", "LONDISTE_RESPONSE_TIMEOUT": "1"}
#: Seconds in which a command has ended, whatever is wrong: generous, for a busy machine.
LIMIT = 90.0


@dataclass
class Silent:
    """A move between two databases, and the lines to them."""

    directory: Path
    old: Database
    new: Database
    lines: dict[str, Line] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.processes = Processes(self.directory, {"LONDISTE_TRACEBACK": "1"})
        self.forks = Forks(self.processes)
        self.lines = {"old": Line(self.old.dsn), "new": Line(self.new.dsn)}
        keys = {
            "from_db": quoted(self._place("old")),
            "to_db": quoted(self._place("new")),
            "poll_interval": "0.1",
            "max_retry_delay": "0.3",
        }
        self.config = self.directory / "move.toml"
        self.config.write_text(
            "[migrate]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        )
        self.config.chmod(0o600)

    def _place(self, side: str) -> str:
        return psycopg.conninfo.make_conninfo(self.lines[side].dsn, connect_timeout=2)

    def begin(self, *args: str, **env: str) -> Fork:
        """``londiste migrate ARGS``; returns at once."""
        return self.forks.start(self.config, "migrate", *args, **env)

    def do(self, *args: str) -> Fork:
        """The same to its good end."""
        fork = self.begin(*args)
        assert fork.wait(LIMIT) == 0, str(fork)
        return fork

    def falls_silent(self, side: str, step: int, *args: str) -> Fork:
        """A command, before whose so-and-so-manieth step a database falls silent; its end."""
        mark = self.directory / "crashed"
        mark.unlink(missing_ok=True)
        fork = self.begin(
            *args,
            LONDISTE_CRASH=f"plan.before-step:{step}",
            LONDISTE_CRASH_MARK=str(mark),
            LONDISTE_CRASH_SIGNAL="STOP",
            **PATIENCE,
        )
        wait_for(
            lambda: mark.exists() or fork.code() is not None,
            timeout=LIMIT,
            what=f"step {step}\n{fork.err}",
        )
        assert mark.exists(), str(fork)
        self.lines[side].cut()
        began = time.monotonic()
        fork.go_on()
        assert fork.wait(LIMIT) == 6, str(fork)
        print(f"CASE {args} {side} silent at {step}: {time.monotonic() - began:.1f} s\n{fork.err}")
        _said(fork)
        return fork

    def close(self) -> None:
        for line in self.lines.values():
            line.mend()
        self.forks.close()
        self.processes.close()
        for line in self.lines.values():
            line.close()


@pytest.fixture
def silent(tmp_path: Path, new_database: Callable[..., Database]) -> Iterator[Silent]:
    old, new = new_database(), new_database()
    old.execute(SCHEMA)
    made = Silent(tmp_path, old, new)
    yield made
    made.close()


def _said(fork: Fork) -> None:
    lines = fork.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1, str(fork)
    assert sum(line.startswith("hint: ") for line in lines) == 1, str(fork)
    assert "Traceback" not in fork.err, str(fork)


@pytest.mark.slow
def test_a_beginning_that_finds_a_database_silent_ends_and_goes_on(silent: Silent) -> None:
    old, line = silent.old, silent.lines["new"]
    fork = silent.falls_silent("new", 3, "start", "--no-daemons")
    assert "new" in fork.err
    old.execute("insert into public.written values (1, 'while the new one is silent')")
    line.mend()
    silent.do("start", "--no-daemons")
    assert "already" in silent.do("start", "--no-daemons").err


@pytest.mark.slow
def test_a_move_ends_in_time_when_a_database_falls_silent_and_goes_on(silent: Silent) -> None:
    old, new, lines = silent.old, silent.new, silent.lines
    daemon = silent.begin("start")
    ok = "select merge_state = 'ok' from londiste.table_info where local"

    def in_step() -> bool:
        try:
            return bool(new.value(ok))
        except psycopg.Error:
            return False

    wait_for(in_step, timeout=2 * LIMIT, what=f"the table in step\n{daemon.err}")
    # Every command, while one of the two is silent from before.
    for side in ("old", "new"):
        lines[side].cut()
        began = time.monotonic()
        forks = [
            silent.begin(*argv, **PATIENCE)
            for argv in (
                ("status",),
                ("check",),
                ("verify",),
                ("start", "--no-daemons"),
                ("switch",),
                ("back",),
                ("switch", "--rollback"),
                ("finish",),
                ("finish", "--abandon"),
            )
        ]
        for fork in forks:
            assert fork.wait(LIMIT) == 6, str(fork)
            print(f"CASE {fork.argv[2:]} {side} silent: {time.monotonic() - began:.1f} s")
            assert side in fork.err or getattr(silent, side).name in fork.err, str(fork)
            _said(fork)
        lines[side].mend()
    old.execute("insert into public.written values (1, 'old')")
    # In the middle: nothing is changed, or the same command goes on.
    silent.falls_silent("new", 5, "switch", "--block", "20")
    lines["new"].mend()
    old.execute("insert into public.written values (2, 'old')")
    silent.do("switch", "--block", "60")
    with pytest.raises(psycopg.Error, match="disallowed"):
        old.execute("insert into public.written values (0, 'old')")
    new.execute("insert into public.written values (3, 'new')")
    silent.falls_silent("old", 5, "back", "--block", "20")
    lines["old"].mend()
    silent.do("back", "--block", "60")
    with pytest.raises(psycopg.Error, match="disallowed"):
        new.execute("insert into public.written values (0, 'new')")
    old.execute("insert into public.written values (4, 'old')")
    silent.do("switch", "--block", "60")
    rows = "select n from public.written order by n"
    assert new.execute(rows) == [(1,), (2,), (3,), (4,)]
    silent.falls_silent("old", 2, "finish")
    lines["old"].mend()
    silent.do("finish")
    assert daemon.wait(LIMIT) == 0, str(daemon)
    assert old.execute(rows) == new.execute(rows)
    old.execute("insert into public.written values (5, 'nothing refuses any more')")


@contextlib.contextmanager
def _closed(database: Database) -> Iterator[None]:
    """Nobody gets into the database, as if its server were down."""

    def let(words: str) -> None:
        with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f'alter database "{database.name}" with allow_connections {words}')
            conn.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                [database.name],
            )

    let("false")
    try:
        yield
    finally:
        let("true")


@contextlib.contextmanager
def _open_transaction(database: Database, n: int) -> Iterator[None]:
    """Somebody has written, and does not commit."""
    with psycopg.connect(database.dsn) as conn:
        conn.execute("insert into public.written values (%s, 'open')", [n])
        yield


def _given_up(silent: Silent, *args: str) -> Fork:
    """A command that ends in time, and says why and what to type."""
    fork = silent.begin(*args, **PATIENCE)
    assert fork.wait(LIMIT) == 6, str(fork)
    print(f"CASE {args}\n{fork.err}")
    _said(fork)
    return fork


@pytest.mark.slow
def test_a_move_ends_in_time_when_a_database_is_down_or_locked_and_goes_on(silent: Silent) -> None:
    old, new = silent.old, silent.new
    with _open_transaction(old, 1):
        _given_up(silent, "start", "--no-daemons")
    daemon = silent.begin("start")
    ok = "select merge_state = 'ok' from londiste.table_info where local"

    def in_step() -> bool:
        try:
            return bool(new.value(ok))
        except psycopg.Error:
            return False

    wait_for(in_step, timeout=2 * LIMIT, what=f"the table in step\n{daemon.err}")
    for side, database in (("old", old), ("new", new)):
        with _closed(database):
            for argv in (
                ("status",),
                ("check",),
                ("start", "--no-daemons"),
                ("switch",),
                ("back",),
            ):
                err = _given_up(silent, *argv).err
                assert side in err or database.name in err, f"{argv}\n{err}"
    with _open_transaction(old, 2):
        _given_up(silent, "switch", "--block", "20")
        old.execute("insert into public.written values (3, 'writes go on')")
    silent.do("switch", "--block", "60")
    with _open_transaction(new, 4):
        _given_up(silent, "back", "--block", "20")
        new.execute("insert into public.written values (5, 'writes go on')")
    silent.do("back", "--block", "60")
    old.execute("insert into public.written values (6, 'old')")
    rows = "select n from public.written order by n"
    # A transaction that is left open is not lost: it was committed at its end.
    assert old.execute(rows) == [(1,), (2,), (3,), (4,), (5,), (6,)]
    wait_for(
        lambda: new.execute(rows) == old.execute(rows), timeout=LIMIT, what=f"rows\n{daemon.err}"
    )
    silent.do("finish", "--abandon")
    assert daemon.wait(LIMIT) == 0, str(daemon)
