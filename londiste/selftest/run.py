"""One self-test from its beginning to its end."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from londiste import __version__
from londiste.daemon.signals import Signals
from londiste.db.connection import describe_dsn, session
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import ticker_runs
from londiste.selftest import pair as databases
from londiste.selftest import report as results
from londiste.selftest.pair import BURST, NAME, SCHEMA, Pair
from londiste.selftest.programs import LOCK_SECONDS, Programs
from londiste.selftest.promises import PROMISES, Book, Breach
from londiste.selftest.report import (
    PromiseResult,
    Report,
    SelftestFigures,
    SelftestServer,
    StepResult,
)
from londiste.selftest.shapes import Table
from londiste.selftest.stage import Broken, NotPossible, Stage, Stopped
from londiste.selftest.steps import STEPS

#: Below this time the test takes fewer tables, and a smaller transaction.
_SHORT_MINUTES = 1.0
_SHORT_TABLES = 5

_SETTINGS = (
    "max_connections",
    "shared_buffers",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "wal_level",
    "server_encoding",
)
#: Called before nodes are created, with the names of the tables; raises what prevents replication.
Preflight = Callable[[Connections, Sequence[str]], None]


class SelfTest:
    """A test of a pair: ``live``, then ``clear``, then ``report``.

    say -- prints a line of progress.  alarm -- reports a broken promise.
    """

    def __init__(
        self,
        pair: Pair,
        *,
        minutes: float,
        seed: int,
        say: Callable[[str], None],
        alarm: Callable[[Breach], None],
    ) -> None:
        self.pair, self.minutes, self.seed, self._say = pair, minutes, seed, say
        self.book = Book(alarm)
        self.steps = {kind.name: StepResult(kind.name) for kind in STEPS}
        self.directory = Path(tempfile.mkdtemp(prefix="londiste-selftest-"))
        self.measured = SelftestFigures()
        self.stopped = False
        self.zoo = zoo(seed, minutes)
        self._notes = [results.NOT_MEASURED]
        self._servers: list[SelftestServer] = []
        self._started, self._began = datetime.now(UTC), time.monotonic()
        self._seconds = 0.0

    def live(self, signals: Signals, preflight: Preflight) -> None:
        """Creates everything, and disturbs and checks until the time is over."""
        with self.pair.sites() as sites:
            databases.be_alone(sites, self.pair)
            if databases.remove(sites, self.pair, self._say):
                self._say("removed what an earlier self-test had left")
            self._servers = [_server(side.dsn) for side in self.pair.both]
            databases.mark(sites, self.pair)
            databases.create_tables(sites, self.pair, self.zoo)
            preflight(sites, databases.keyed(self.zoo))
            databases.create_nodes(sites, self.pair, self.zoo, lambda step: None)
            self._say(f"created {len(self.zoo) + 4} tables in schema {SCHEMA}, and two nodes")
            own_ticker = not ticker_runs(sites.at(self.pair.source.dsn))
            programs = Programs(self.pair, self.directory, own_ticker=own_ticker)
            stage = Stage(self.pair, sites, programs, signals, self.book, self.zoo, self.seed)
            try:
                # Checksums of large tables may take long.
                with sites.at_length():
                    self._live(stage)
            except Broken:
                stage.locate()
            except Stopped:
                self.stopped = True
            finally:
                stage.stop()
                programs.close()
                self._seconds = time.monotonic() - self._began
                self._measure(stage)
            self.book.checked("outputs")
            for offence in programs.offences():
                self.book.broke(
                    "outputs", offence, str(self.directory), "report it: this is a bug in Londiste"
                )

    def _live(self, stage: Stage) -> None:
        deadline = self._began + 60 * self.minutes
        rows = 2_000 if self.minutes < _SHORT_MINUTES else 20_000
        _insert(stage, 0, rows)
        stage.start()
        began = time.monotonic()
        stage.command("add-table", *databases.names(self.zoo), "--create-full", "--allow-code")
        stage.reader.start()
        stage.settle()
        copied = time.monotonic() - began
        self._say(f"copied all tables under load in {copied:.1f} s")
        burst = self._burst(stage, rows)
        stage.reader.calm = True
        self.measured = SelftestFigures(
            copy_seconds=copied,
            burst_rows=rows,
            burst_seconds=burst,
            burst_rows_per_second=rows / burst,
        )
        stage.passes(min(5.0, 3 * self.minutes))
        waiting: list[str] = []
        while time.monotonic() < deadline or not any(s.times for s in self.steps.values()):
            if not waiting:
                waiting = STEPS.names()
                stage.chance.shuffle(waiting)
            self._step(stage, waiting.pop())
        # Whatever was drawn: compare has to agree with the checks of the test.
        self._step(stage, "compare")

    def _step(self, stage: Stage, name: str) -> None:
        result = self.steps[name]
        stage.reader.calm = False
        try:
            STEPS[name].run(stage)
        except NotPossible as error:
            result.not_possible = str(error)
            return
        took = stage.settle()
        stage.reader.calm = True
        result.times += 1
        result.longest = round(max(result.longest, took), 2)
        self._say(f"{self._clock()} {name}: in sync again after {took:.1f} s, all rows are equal")
        stage.passes(min(1.0, self.minutes))

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def _burst(self, stage: Stage, rows: int) -> float:
        """Seconds until one large transaction is visible in the target."""
        _insert(stage, rows, rows)
        began = time.monotonic()
        count = f"select count(*) from {BURST}".encode()

        def there() -> bool:
            stage.revive()
            row = stage.target.execute(count).fetchone()
            return row is not None and row[0] >= 2 * rows

        stage.until(there)
        return time.monotonic() - began

    def _measure(self, stage: Stage) -> None:
        calm = [seconds for seconds, calm in stage.reader.latencies if calm]
        ends = stage.writer.ends
        self.measured = SelftestFigures(
            committed=ends["committed"],
            rolled_back=ends["rolled back"],
            transactions_per_second=ends["committed"] / max(self._seconds, 0.001),
            copy_seconds=self.measured.copy_seconds,
            burst_rows=self.measured.burst_rows,
            burst_seconds=self.measured.burst_seconds,
            burst_rows_per_second=self.measured.burst_rows_per_second,
            latency_p50=results.quantile(calm, 0.5),
            latency_p95=results.quantile(calm, 0.95),
            latency_count=len(calm),
        )

    def clear(self) -> None:
        """Removes everything from both databases, and checks that nothing is left."""
        with self.pair.sites() as sites:
            databases.be_alone(sites, self.pair)
            databases.remove(sites, self.pair, self._say)
            self.book.checked("removed")
            for side in self.pair.both:
                for what in databases.left(sites.at(side.dsn)):
                    self.book.broke(
                        "removed",
                        f"left: {what}",
                        describe_dsn(side.dsn),
                        "londiste selftest --clean SOURCE TARGET",
                    )
        if not self.book.breaches:
            shutil.rmtree(self.directory, ignore_errors=True)

    def report(self) -> Report:
        """What was promised, tried and measured."""
        breaches = {one.promise: one for one in self.book.breaches}
        promises = []
        for promise, text in PROMISES.items():
            one = breaches.get(promise)
            more = (one.what, one.where, one.next) if one is not None else ("", "", "")
            checks = self.book.checks[promise]
            result = self.book.result(promise)
            promises.append(PromiseResult(promise, text, checks, result, *more))
        source, target = self._servers
        settings = self.pair.settings
        return Report(
            result="broken" if breaches else "interrupted" if self.stopped else "held",
            seed=self.seed,
            minutes=self.minutes,
            seconds=round(self._seconds, 1),
            started=self._started,
            londiste=__version__,
            source=source,
            target=target,
            settings={
                "engine": settings.engine,
                "poll_interval": f"{settings.poll_interval:g}",
                "lock_timeout": f"{LOCK_SECONDS:g}",
            },
            tables=databases.names(self.zoo),
            promises=promises,
            steps=list(self.steps.values()),
            measured=self.measured,
            logs=str(self.directory) if self.directory.exists() else None,
            notes=self._notes,
        )


def zoo(seed: int, minutes: float) -> list[Table]:
    """Pure: the tables of a test; a short one has fewer."""
    every = list(databases.ALL_SHAPES)
    if minutes >= _SHORT_MINUTES:
        return every
    return sorted(random.Random(f"zoo {seed}").sample(every, _SHORT_TABLES), key=lambda t: t.number)


def _insert(stage: Stage, first: int, count: int) -> None:
    stage.source.execute(
        f"insert into {BURST} select i, repeat('x', 50)"
        " from generate_series(%s::bigint, %s) i".encode(),
        [first + 1, first + count],
    )


def _server(dsn: str) -> SelftestServer:
    with session(dsn, name=NAME, autocommit=True) as conn:
        found = {
            name: conn.execute("select pg_catalog.current_setting(%s, true)", [name]).fetchone()
            for name in ("server_version", *_SETTINGS)
        }
    values = {name: str(row[0]) for name, row in found.items() if row is not None}
    return SelftestServer(describe_dsn(dsn), values.pop("server_version"), values)
