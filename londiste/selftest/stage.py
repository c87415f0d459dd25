"""What the steps of a self-test work with: programs, sessions, application, reader, checks."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Sequence

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection
from londiste.db.queries import translated
from londiste.errors import LondisteError
from londiste.orchestration.connections import Connections
from londiste.pgq import queues
from londiste.replication import sqlapi as tables
from londiste.selftest import rows
from londiste.selftest.pair import ACCOUNT, BURST, LEDGER, QUEUE, TOKEN, Pair, names
from londiste.selftest.programs import Program, Programs
from londiste.selftest.promises import Book
from londiste.selftest.reader import LOOK_CLOSER, Reader
from londiste.selftest.shapes import Table
from londiste.selftest.writer import Writer

#: Seconds in which a target that nothing disturbs has to have what the source has, and in which a
#: command has to end.
PATIENCE = 180.0
_TRIES = 4
_LOCATE_SECONDS = 30.0
#: Triggers that change what replication writes.
_FIRING = """
select tgname from pg_catalog.pg_trigger
where tgrelid = %s::regclass and tgconstrindid = 0 and tgenabled in ('A', 'R')
    and tgfoid::regproc::text !~ '^(pgq|londiste)'
"""


class Stopped(Exception):
    """The user has stopped the test."""


class Broken(Exception):
    """A promise is broken: further steps would only show the same."""


class NotPossible(Exception):
    """A step cannot be made here."""


class Stage:
    """Everything of a test while it runs."""

    def __init__(
        self,
        pair: Pair,
        sites: Connections,
        programs: Programs,
        signals: Signals,
        book: Book,
        zoo: Sequence[Table],
        seed: int,
    ) -> None:
        self.pair, self.sites, self.programs = pair, sites, programs
        self.signals, self.book, self.zoo = signals, book, list(zoo)
        self.chance = random.Random(f"selftest {seed}")
        self.writer = Writer(pair.source.dsn, seed, zoo, book)
        self.reader = Reader(pair, self.writer, book)
        #: Breaches that end the test no more: it has ended.
        self._known = 0

    @property
    def source(self) -> Connection:
        return self.sites.at(self.pair.source.dsn)

    @property
    def target(self) -> Connection:
        return self.sites.at(self.pair.target.dsn)

    def start(self) -> None:
        """Daemons and application; the reader begins when the target has tables."""
        self.programs.revive()
        self.writer.start()

    def stop(self) -> None:
        """Ends application and reader."""
        self.writer.stop()
        self.reader.stop()

    # -- time ------------------------------------------------------------------------------

    def passes(self, seconds: float) -> None:
        """Lets time pass.  Raises Stopped, and Broken when a check has failed."""
        end = time.monotonic() + seconds
        while True:
            if self.signals.stopping:
                raise Stopped
            if self.reader.failed is not None:
                raise self.reader.failed
            if len(self.book.breaches) > self._known:
                raise Broken
            left = end - time.monotonic()
            if left <= 0:
                return
            self.signals.wait(min(0.1, left))

    def until(self, done: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Waits; whether it came true in time."""
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= end:
                return False
            self.passes(0.1)
        return True

    # -- programs --------------------------------------------------------------------------

    def revive(self) -> None:
        """Starts daemons again that were killed; others must not end."""
        for wrong in self.programs.revive():
            self.book.broke("recovery", wrong, "this host", LOOK_CLOSER)

    def finish(self, program: Program) -> int:
        """Waits for the end of a command; its exit code."""

        def ended() -> bool:
            self.revive()
            return program.child.exit_code() is not None

        if not self.until(ended):
            program.child.terminate()
            self.book.broke(
                "commands",
                f"a command took longer than {PATIENCE:g} s",
                _name(program),
                LOOK_CLOSER,
            )
            raise Broken
        return int(program.child.exit_code() or 0)

    def command(self, *words: str, accept: Sequence[int] = (0,)) -> Program:
        """Runs a command to its success: after a fault it may need another try."""
        for number in range(_TRIES):
            program = self.programs.command(*words)
            if self.finish(program) in accept:
                self.book.checked("commands")
                return program
            lines = re.sub("\x1b\\[[0-9;]*m", "", program.text()).splitlines()
            errors = [line for line in lines if line.startswith("error: ")]
            if len(errors) != 1:
                break
            self.passes(0.5 * (number + 1))
        code = program.child.exit_code()
        self.book.broke(
            "commands",
            f"londiste {words[0]} ended with exit code {code}, {number + 1} times:"
            f" {'; '.join(errors) or 'without an error message'}",
            _name(program),
            LOOK_CLOSER,
        )
        raise Broken

    # -- checks ----------------------------------------------------------------------------

    def settle(self) -> float:
        """Holds the application until the target has what the source has, and compares all rows.

        Returns the seconds that it took.
        """
        began = time.monotonic()
        with self.writer.held():
            tick = self._catch_up(PATIENCE)
            if tick is None:
                # A server that is down breaks no promise.
                for conn in (self.source, self.target):
                    with translated(conn):
                        conn.execute("select 1")
                self.book.broke(
                    "recovery",
                    f"the target did not catch up within {PATIENCE:g} s: {self._state()}",
                    "target",
                    LOOK_CLOSER,
                )
                raise Broken
            self.book.checked("recovery")
            seconds = time.monotonic() - began
            self._same_rows(tick)
        self.passes(0)
        return seconds

    def locate(self) -> None:
        """After a breach: finds tables and columns that differ, if the target can catch up."""
        self._known = len(self.book.breaches)
        with contextlib.suppress(Broken, Stopped, LondisteError, psycopg.Error):
            with self.writer.held():
                tick = self._catch_up(_LOCATE_SECONDS)
                if tick is not None:
                    self._same_rows(tick)

    def _catch_up(self, seconds: float) -> int | None:
        """The tick that the target has reached; the application is held.  None: not in time."""
        tick = 0

        def ticked() -> bool:
            nonlocal tick
            self.revive()
            try:
                tick = queues.create_tick(self.source, QUEUE)
            except (LondisteError, psycopg.Error):
                return False
            return True

        done = self.until(ticked, seconds) and self.until(lambda: self._arrived(tick), seconds)
        return tick if done else None

    def _arrived(self, tick: int) -> bool:
        self.revive()
        try:
            node = nodes.find_node_info(self.target, QUEUE)
            if node is None or node.last_tick < tick:
                return False
            if self._not_ok():
                # A copy waits for ticks after its beginning.
                queues.create_tick(self.source, QUEUE)
                return False
        except (LondisteError, psycopg.Error):
            return False
        return True

    def _not_ok(self) -> list[str]:
        known = {str(t.name): t.state for t in tables.get_table_list(self.target, QUEUE) if t.local}
        return [f"{name}: {known.get(name)}" for name in names(self.zoo) if known.get(name) != "ok"]

    def _state(self) -> str:
        """Where the target is."""
        try:
            errors = [c.cur_error for c in nodes.get_consumer_info(self.target, QUEUE)]
            first = [str(error).splitlines()[0] for error in errors if error]
            node = nodes.find_node_info(self.target, QUEUE)
            at = f"at tick {node.last_tick}" if node is not None else "no node"
            return "; ".join([at, *first, *self._not_ok()])
        except (LondisteError, psycopg.Error) as error:
            return str(error).splitlines()[0]

    def _same_rows(self, tick: int) -> None:
        """The rows of all tables are equal; the application's own list is, too."""
        every = [LEDGER, TOKEN, ACCOUNT, BURST, *(table.sql for table in self.zoo)]
        columns = {name: rows.columns(self.source, name) for name in every}
        wanted, found = (rows.digests(conn, columns) for conn in (self.source, self.target))
        self.book.checked("rows")
        for name in every:
            if wanted[name] != found[name]:
                self.book.broke("rows", *self._difference(name, columns[name], tick))
        committed = set(self.writer.committed)
        arrived = {n for (n,) in self.target.execute(f"select n from {LEDGER}".encode()).fetchall()}
        lost, more = committed - arrived, arrived - committed - self.writer.unknown
        self.book.checked("once")
        if lost or more:
            self.book.broke(
                "once",
                f"{len(lost)} committed transactions are missing, {len(more)} arrived that were"
                " not committed",
                f"target at tick {tick}",
                LOOK_CLOSER,
            )

    def _difference(self, name: str, columns: Sequence[str], tick: int) -> tuple[str, str, str]:
        """What differs in a table, where, and what to do next; no value of a row."""
        parts = []
        counts = [
            rows.digests(conn, {name: columns})[name][0] for conn in (self.source, self.target)
        ]
        if counts[0] != counts[1]:
            parts.append(f"{counts[0]} rows in the source, {counts[1]} in the target")
        one, other = (
            {column: rows.digests(conn, {name: [column]})[name] for column in columns}
            for conn in (self.source, self.target)
        )
        parts.append(f"columns that differ: {', '.join(c for c in columns if one[c] != other[c])}")
        firing = [str(t) for (t,) in self.target.execute(_FIRING, [name]).fetchall()]
        if firing:
            parts.append(f"triggers that fire for replicated rows: {', '.join(firing)}")
        return (
            "; ".join(parts),
            f"table {name} at tick {tick}",
            "find what creates such triggers: select evtname, evtfoid::regproc from"
            " pg_event_trigger; then disable them for replicated rows"
            if firing
            else LOOK_CLOSER,
        )


def _name(program: Program) -> str:
    return f"command {program.output.stem.partition('-')[2]}, {program.output.name}"
