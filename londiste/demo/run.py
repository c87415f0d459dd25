"""Demo run: two servers, a writer that never stops, and the commands of a user.

Nothing here reaches into the program: tables are added, copied and compared by the same
commands, in processes of their own, as on a real installation.  What the demo adds is the
servers, the writer, and a worker that is killed in the middle.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from londiste.copy import progress as copy_progress
from londiste.daemon.child import Child
from londiste.daemon.waiting import wait_until
from londiste.db import catalog
from londiste.db.connection import Connection, session
from londiste.demo import data
from londiste.embedded.homes import throwaway_home
from londiste.embedded.postgres import Cluster
from londiste.errors import LondisteError, ServerBinariesMissing, StateError
from londiste.pgq import queues
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable

QUEUE = "demo"
DATABASE = "shop"
_COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class Summary:
    """Result of the demo."""

    equal: bool
    tables: int
    rows: int
    events: int
    seconds: float


@dataclass
class Demo:
    """One run.  ``home`` contains servers, settings and logs; the caller may remove it.

    web -- a console shows it, at ``address``.
    """

    home: Path
    engine: str
    keep: bool
    console: Console
    root: Cluster | None = None
    leaf: Cluster | None = None
    daemons: dict[str, Child] = field(default_factory=dict)
    writer: subprocess.Popen[bytes] | None = None
    web: bool = False
    address: str = ""

    def run(self) -> Summary:
        """Runs the whole demo.  Raises LondisteError if a step fails."""
        started = time.monotonic()
        self._servers()
        self._cascade()
        if self.web:
            self._console()
        self._writer()
        self._add_tables()
        self._remove_and_add_again()
        self._kill_worker()
        committed = self._stop_writer()
        self._once_each(committed)
        summary = self._compare(started)
        self._say("all tables are equal" if summary.equal else "[red]tables differ[/red]")
        if self.keep:
            # Only now: whatever kills the demo before leaves no server behind.
            for cluster in (self.root, self.leaf):
                if cluster is not None:
                    cluster.keep()
        return summary

    def show(self) -> None:
        """Writes and replicates for the console, until the process is interrupted."""
        self._writer()
        self._say(f"[bold]console: {self.address}[/bold]  (Ctrl-C ends the demo)")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                self._daemons_live()
                time.sleep(1.0)

    def stop(self) -> None:
        """Ends the processes, and the servers unless they are to be kept."""
        if self.writer is not None and self.writer.poll() is None:
            self.writer.kill()
            self.writer.wait()
        for daemon in self.daemons.values():
            daemon.terminate()
        for cluster in (self.leaf, self.root):
            if cluster is not None and not cluster.kept:
                cluster.close()

    def connection_help(self) -> str:
        """Prints how to use the servers that ``--keep`` left running."""
        assert self.root is not None
        assert self.leaf is not None
        lines = []
        for title, cluster in (("root", self.root), ("leaf", self.leaf)):
            lines.append(f"{title}:  {cluster.program('psql')} '{cluster.dsn(DATABASE)}'")
            # Not pg_ctl: it refuses to work for root, who is served by another account.
            lines.append(f"stop it: kill -INT $(head -1 {cluster.data}/postmaster.pid)")
        lines.append(f"settings:  {self.home}/root.toml, {self.home}/leaf.toml")
        lines.append(f"afterwards: rm -r {self.home}")
        return "\n".join(lines)

    # -- steps -------------------------------------------------------------

    def _servers(self) -> None:
        self._say("starting two PostgreSQL servers")
        self.root = _server(self.home, "root", 16)
        self.leaf = _server(self.home, "leaf", 18)
        self._say(
            f"  root: PostgreSQL {self.root.version}, leaf: PostgreSQL {self.leaf.version}",
        )
        for cluster in (self.root, self.leaf):
            cluster.create_database(DATABASE)
        for name, cluster in (("root", self.root), ("leaf", self.leaf)):
            self._settings_file(name, cluster)
        self._say("creating data on the root")
        data.create(self.root, DATABASE)

    def _cascade(self) -> None:
        assert self.root is not None
        assert self.leaf is not None
        for name in ("root", "leaf"):
            self._londiste(name, "install")
        root_dsn = self.root.dsn(DATABASE)
        self._londiste("root", "create-root", "root", root_dsn)
        self._londiste("root", "ticker", background=True)
        self._londiste(
            "leaf", "create-leaf", "leaf", self.leaf.dsn(DATABASE), "--provider", root_dsn
        )
        self._londiste("leaf", "worker", background=True)

    def _writer(self) -> None:
        assert self.root is not None
        self._say("starting a writer, which runs until the end")
        # The writer looks after its parent by itself: nothing is left of it after a kill -9.
        with (self.home / "writer.log").open("wb") as log:
            self.writer = subprocess.Popen(
                [
                    *(sys.executable, "-m", "londiste.demo.writer", self.root.dsn(DATABASE)),
                    *("--parent", str(os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
            )

    def _console(self) -> None:
        self._say("[bold]$ londiste -c leaf.toml web[/bold]")
        log = self.home / "web.log"
        argv = [
            *(sys.executable, "-m", "londiste", "-c", str(self.home / "leaf.toml")),
            *("--set", "listen=127.0.0.1:0", "web"),
        ]
        with log.open("ab") as output:
            self.daemons["web"] = Child.start(argv, env=_environment(), output=output)

        def address() -> bool:
            found = re.search(r"console: (http://\S+)", log.read_text(errors="replace"))
            self.address = found[1] if found else ""
            self._daemons_live()
            return bool(self.address)

        if not wait_until(address, _COMMAND_SECONDS):
            raise StateError("the console does not answer", hint=f"see {log}")
        self._say(f"[bold]console: {self.address}[/bold]")

    def _add_tables(self) -> None:
        self._londiste("root", "add-table", "--all", *data.ADD_OPTIONS)
        self._londiste("leaf", "add-table", "--all", "--create", *data.ADD_OPTIONS)
        self._wait_sync()

    def _remove_and_add_again(self) -> None:
        self._londiste("leaf", "remove-table", data.REMOVED)
        self._londiste("leaf", "add-table", data.REMOVED)
        self._wait_sync()

    def _kill_worker(self) -> None:
        self._say("killing the worker with SIGKILL, then restarting it")
        worker = self.daemons.pop("worker")
        worker.signal(signal.SIGKILL)
        worker.wait()
        self._londiste("leaf", "worker", background=True)

    def _stop_writer(self) -> int:
        """Ends the writer and waits until the leaf has caught up; transactions committed."""
        assert self.writer is not None
        self.writer.send_signal(signal.SIGTERM)
        out, _ = self.writer.communicate(timeout=60)
        if self.writer.returncode != 0:
            raise StateError(
                f"the writer ended with exit code {self.writer.returncode}",
                detail=(self.home / "writer.log").read_text(errors="replace")[-400:],
            )
        committed = int(json.loads(out)["transactions"])
        self._say(f"the writer has stopped: {committed:,} transactions committed")
        self._londiste("leaf", "wait-root")
        return committed

    def _once_each(self, committed: int) -> None:
        """Checks the table without a key: one row per transaction shows loss and duplicates."""
        assert self.leaf is not None
        with session(self.leaf.dsn(DATABASE)) as conn:
            found, repeated = data.audit_rows(conn), data.repeated_rows(conn)
            torn = data.torn_tokens(conn)
        if found != committed or repeated or torn:
            raise LondisteError(
                f"leaf: {found} of {committed} transactions, {repeated} duplicated, {torn}"
                " incomplete"
            )
        self._say("  each of them arrived once, none of them in halves")

    def _compare(self, started: float) -> Summary:
        assert self.root is not None
        answer = json.loads(self._londiste("leaf", "compare", "--json", accept=(0, 3)))
        with session(self.root.dsn(DATABASE)) as conn:
            events = queues.event_count(conn, QUEUE)
        return Summary(
            equal=answer["equal"] and len(answer["tables"]) > 0,
            tables=len(answer["tables"]),
            rows=sum(table["rows_here"] for table in answer["tables"]),
            events=events,
            seconds=round(time.monotonic() - started, 1),
        )

    # -- helpers -----------------------------------------------------------

    def _wait_sync(self) -> None:
        """Shows the copies until every table of the leaf is ok."""
        assert self.leaf is not None
        with session(self.leaf.dsn(DATABASE)) as conn, _bars(self.console) as bars:
            shown: dict[str, TaskID] = {}
            ended = {str(t.name) for t in tables.get_table_list(conn, QUEUE) if t.state == "ok"}
            deadline = time.monotonic() + _COMMAND_SECONDS
            last: object = None
            while True:
                found = tables.get_table_list(conn, QUEUE)
                states = {str(t.name): t.state for t in found if t.local}
                items = copy_progress.read(conn, QUEUE)
                now = (states, [item.bytes for item in items])
                if now != last:
                    # A busy machine is slow; only one that does nothing for so long is stuck.
                    last, deadline = now, time.monotonic() + _COMMAND_SECONDS
                for item in items:
                    if item.table not in shown:
                        shown[item.table] = _bar(bars, item.table, item.total_bytes or 1)
                    bars.update(
                        shown[item.table],
                        completed=min(item.bytes, item.total_bytes or 1),
                        rows=f"{item.rows:,} rows",
                        bytes=_megabytes(item.bytes),
                        state=states.get(item.table) or "waiting",
                    )
                for table in found:
                    if table.local and table.state == "ok" and str(table.name) not in ended:
                        ended.add(str(table.name))
                        _finish(bars, shown.pop(str(table.name), None), conn, table)
                if states and all(state == "ok" for state in states.values()):
                    return
                self._daemons_live()
                if time.monotonic() > deadline:
                    left = ", ".join(f"{t} {s}" for t, s in states.items() if s != "ok")
                    raise StateError(
                        f"tables without progress for {_COMMAND_SECONDS:g} s: {left}",
                        hint=f"see {self.home}/worker.log",
                    )
                time.sleep(0.1)

    def _daemons_live(self) -> None:
        for name, daemon in self.daemons.items():
            code = daemon.exit_code()
            if code is not None:
                log = (self.home / f"{name}.log").read_text(errors="replace")
                raise StateError(f"the {name} ended with exit code {code}", detail=log[-800:])
        if self.writer is not None and self.writer.poll() is not None:
            log = (self.home / "writer.log").read_text(errors="replace")
            raise StateError("the writer ended too early", detail=log[-800:])

    def _londiste(
        self,
        node: str,
        command: str,
        *args: str,
        background: bool = False,
        accept: tuple[int, ...] = (0,),
    ) -> str:
        """Runs one command as a user would; its stdout."""
        self._say(
            f"[bold]$ londiste -c {node}.toml {' '.join([command, *map(_shell, args)])}[/bold]"
        )
        line = [
            sys.executable, "-m", "londiste", "-q", "-c", str(self.home / f"{node}.toml"),
            command, *args,
        ]  # fmt: skip
        if background:
            with (self.home / f"{command}.log").open("ab") as log:
                self.daemons[command] = Child.start(line, env=_environment(), output=log)
            return ""
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode not in accept:
            raise LondisteError(
                f"londiste {command} ended with exit code {done.returncode}", detail=done.stderr
            )
        return done.stdout

    def _settings_file(self, name: str, cluster: Cluster) -> None:
        dsn = cluster.dsn(DATABASE).replace("\\", "\\\\").replace('"', '\\"')
        (self.home / f"{name}.toml").write_text(
            f'[londiste]\ndb = "{dsn}"\nqueue_name = "{QUEUE}"\njob_name = "{name}_worker"\n'
            f'engine = "{self.engine}"\nparallel_copies = 2\nloop_delay = 0.2\n'
            "spark_min_bytes = 16777216\n\n"
            "[ticker]\nticker_period = 0.2\n",
            encoding="utf-8",
        )

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def demo(*, engine: str, keep: bool, console: Console, web: bool = False) -> Iterator[Demo]:
    """A run with its directory; everything is removed afterwards unless ``keep``."""
    home = throwaway_home(prefix="londiste-demo-", shared=True)
    run = Demo(home, engine, keep, console, web=web)
    try:
        yield run
    finally:
        run.stop()
        if not (keep and run.root is not None and run.root.kept):
            shutil.rmtree(home, ignore_errors=True)


def _server(home: Path, name: str, version: int) -> Cluster:
    """The preferred version of the demo, or any available one."""
    try:
        return Cluster.start(home, name, version=version)
    except ServerBinariesMissing:
        return Cluster.start(home, name)


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rows]}", justify="right"),
        TextColumn("{task.fields[bytes]}", justify="right"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
        console=console,
        transient=False,
    )


def _bar(bars: Progress, name: str, total: int) -> TaskID:
    return bars.add_task(name, total=total, rows="", bytes="", state="")


def _finish(bars: Progress, task: TaskID | None, conn: Connection, table: ReplicatedTable) -> None:
    """The bar of a table in sync; small tables finish before their first display."""
    task = _bar(bars, str(table.name), 1) if task is None else task
    size = catalog.require(conn, table.dest)
    total = bars.tasks[bars.task_ids.index(task)].total
    bars.update(
        task,
        completed=total,
        rows=f"{max(size.rows_estimate, 0):,.0f} rows",
        bytes=_megabytes(size.bytes),
        state="ok",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _environment() -> Mapping[str, str]:
    """The environment without variables that would lead a child to a user's server."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}


def _shell(argument: str) -> str:
    return f"'{argument}'" if any(c in argument for c in ' "*?;&|') else argument
