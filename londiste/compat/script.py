"""Program of earlier versions: settings file, options, log, connections and a loop.

A subclass writes ``work``; ``start`` runs it until a stop request.
"""

from __future__ import annotations

import logging
import optparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import londiste
from londiste.compat.config import Config
from londiste.compat.dbapi import Connection
from londiste.consumer.event_loop import format_error, raised_at, require_done
from londiste.daemon import logging as daemon_logging
from londiste.daemon.logging import LogTarget
from londiste.daemon.loop import Loop
from londiste.daemon.pidfile import control
from londiste.daemon.process import process
from londiste.daemon.signals import Signals
from londiste.errors import (
    BadOption,
    LondisteError,
    StateError,
    Superseded,
    TransientError,
    UsageError,
)

#: Loggers of programs are below ours, so that -q and -v set their levels.
LOGGER = "londiste.job"


class ProgramFailed(TransientError):
    """The program's own code has failed; its work is undone and repeated."""


class _Parser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise UsageError(msg, hint=f"{self.get_prog_name()} --help lists the options")


class DBScript:
    """A program with a settings file: ``Script("section", sys.argv[1:]).start()``.

    service_name -- section of the file.
    args -- the command line: the file, and options before or after it.
    """

    def __init__(self, service_name: str, args: Sequence[str]) -> None:
        self.service_name = service_name
        self.stat_dict: dict[str, Any] = {}
        self.signals: Signals | None = None
        self._single = False
        self._connections: dict[str, tuple[str, Connection]] = {}
        self._bound: dict[str, Connection] = {}
        sys.excepthook = _in_one_line
        _guarded(lambda: self._prepare(list(args)))

    def _prepare(self, args: list[str]) -> None:
        self.options, self.args = self.init_optparse().parse_args(args)
        if not self.args:
            raise UsageError(
                "no settings file given", hint=f"{Path(sys.argv[0]).name} FILE.ini [options]"
            )
        self.cf = self.load_config()
        self.job_name = self.cf.get("job_name")
        self.log = logging.getLogger(f"{LOGGER}.{self.job_name}")
        self.loop_delay = self.cf.getfloat("loop_delay", 1.0)
        pid = control(
            self._path("pidfile"),
            reload=self.options.reload,
            stop=self.options.stop,
            kill=self.options.kill,
        )
        if pid is not None:
            print(f"sent signal to process {pid}", file=sys.stderr)
            raise SystemExit(0)
        daemon_logging.setup(quiet=self.options.quiet, verbose=self.options.verbose)

    # -- to be overridden ------------------------------------------------------------------

    def init_optparse(self, parser: optparse.OptionParser | None = None) -> optparse.OptionParser:
        """The options; a subclass adds its own to what this returns."""
        parser = parser or _Parser(usage="%prog FILE.ini [options]")
        add = parser.add_option
        add("-q", "--quiet", action="store_true", help="log warnings and errors only")
        add("-v", "--verbose", action="count", default=0, help="log more")
        add("-d", "--daemon", action="store_true", help="run in the background")
        add("-r", "--reload", action="store_true", help="reload the settings of the daemon")
        add("-s", "--stop", action="store_true", help="stop the daemon after its present work")
        add("-k", "--kill", action="store_true", help="stop the daemon immediately")
        add("--set", dest="overrides", action="append", metavar="KEY=VALUE", help="set a value")
        return parser

    def load_config(self) -> Config:
        """The settings of the program; ``self.args`` and ``self.options`` are known."""
        overrides = dict(_pair(item) for item in self.options.overrides or [])
        return Config(self.service_name, self.args[0], overrides)

    def work(self) -> Any:
        """Does one unit of work; true: call it again at once."""
        raise NotImplementedError(f"{type(self).__name__}: write work()")

    def startup(self) -> None:
        """Called once before the first work."""

    def shutdown(self) -> None:
        """Called once at the end."""

    def reload(self) -> None:
        """Called after SIGHUP; reads the file again."""
        self.cf.reload()
        self.loop_delay = self.cf.getfloat("loop_delay", 1.0)

    def reset(self) -> None:
        """Called after an error: closes the connections, which undoes what is open."""
        for name in list(self._connections):
            self.close_database(name)

    # -- running ---------------------------------------------------------------------------

    def start(self) -> None:
        """Runs until a stop request, in the background with -d; exits with a code after an error.

        Without a loop (``loop_delay = 0`` or ``set_single_loop``) it ends when there is no work.
        """
        _guarded(self._start)

    def _start(self) -> None:
        pidfile, logfile = self._path("pidfile"), self._path("logfile")
        rotate = None
        if self.cf.has_option("log_size"):
            rotate = (self.cf.getint("log_size"), self.cf.getint("log_count", 3))
        if self.options.daemon:
            self.try_out()
        with process(
            pid=pidfile,
            log=LogTarget(
                logfile,
                job=self.job_name,
                rotate=rotate,
                program=re.sub(r"[^\w.-]", "_", self.service_name),
                source=str(Path(self.args[0]).resolve()),
            ),
            background=bool(self.options.daemon),
            quiet=bool(self.options.quiet),
            verbose=self.options.verbose,
            stop_timeout=60.0,
            break_off_on_second=True,
        ) as signals:
            if self.cf.get("use_skylog", "0") not in ("0", ""):
                self.log.warning("setting use_skylog has no effect in this version")
            self.signals = signals
            try:
                self._run(signals)
            finally:
                self.reset()
                self.signals = None

    def try_out(self) -> None:
        """Raises what is wrong at the start, before a daemon goes into the background."""

    def stop(self) -> None:
        """Requests a stop after the present work."""
        if self.signals is not None:
            self.signals.stop()

    def set_single_loop(self, single: Any) -> None:
        """Whether to end when there is no work."""
        self._single = bool(single)

    @property
    def single(self) -> bool:
        """Whether the program ends when there is no work."""
        return self._single or self.loop_delay <= 0

    def _run(self, signals: Signals) -> None:
        self._own(self.startup)
        try:
            if self.single:
                while not signals.stopping and self.unit():
                    pass
                return
            Loop(
                self.unit,
                signals=signals,
                delay=self.loop_delay,
                longest_pause=self.cf.getfloat("exception_sleep", 20.0),
                on_reload=lambda: self._own(self.reload),
                recover=lambda error: self.reset(),
                fatal=(Superseded, BadOption),
            ).run()
        finally:
            self.shutdown()

    def unit(self) -> bool:
        """One call of ``work``, with its statistics."""
        more = self._own(self.work)
        require_done(more)
        self.send_stats()
        return bool(more)

    def _own(self, function: Callable[[], Any]) -> Any:
        """Calls the program's own code; its errors are failures of the program."""
        try:
            return function()
        except LondisteError:
            raise
        except Exception as error:
            raise failed(self.job_name, error) from error

    def _path(self, key: str) -> Path | None:
        text = self.cf.get(key, "")
        return Path(text).expanduser().absolute() if text else None

    # -- statistics ------------------------------------------------------------------------

    def stat_put(self, key: str, value: Any) -> None:
        """Sets a value of the next line of statistics."""
        self.stat_dict[key] = value

    stat_add = stat_put

    def stat_increase(self, key: str, increase: int = 1) -> None:
        """Adds to a value of the next line of statistics."""
        self.stat_dict[key] = self.stat_dict.get(key, 0) + increase

    def send_stats(self) -> None:
        """Logs the statistics in one line: ``{count: 2, duration: 0.0128}``."""
        if not self.stat_dict:
            return
        text = ", ".join(
            f"{key}: {value:.4f}" if isinstance(value, float) else f"{key}: {value}"
            for key, value in self.stat_dict.items()
        )
        self.stat_dict = {}
        self.log.info("{%s}", text)

    # -- connections -----------------------------------------------------------------------

    def get_database(
        self,
        dbname: str,
        autocommit: Any = 0,
        isolation_level: int = -1,
        cache: str | None = None,
        connstr: str | None = None,
    ) -> Connection:
        """The connection whose string is the setting ``dbname``, the same one at each call.

        During a batch it is the connection of the batch, where that has this name.
        """
        if dbname in self._bound:
            return self._bound[dbname]
        name = cache or dbname
        dsn = connstr or self.cf.get(dbname)
        known = self._connections.get(name)
        if known is not None and known[0] == dsn and not known[1].closed:
            conn = known[1]
            if autocommit and not conn.autocommit:
                _require_idle(conn, name)
                conn.autocommit = True
        else:
            self.close_database(name)
            conn = Connection.open(dsn, self.job_name, autocommit=bool(autocommit))
            self._connections[name] = (dsn, conn)
        if isolation_level >= 0:
            _require_idle(conn, name)
            conn.set_isolation_level(isolation_level)
        return conn

    def close_database(self, dbname: str) -> None:
        """Closes a connection; the next ``get_database`` opens another one."""
        known = self._connections.pop(dbname, None)
        if known is not None:
            known[1].close()


def failed(who: str, error: Exception) -> ProgramFailed:
    """An exception of the program's own code, as a failure that a repetition may end."""
    if isinstance(error, LondisteError):
        return ProgramFailed(f"{who}: {error.message}", detail=error.detail, hint=error.hint)
    return ProgramFailed(
        f"{who}: {format_error(error)}", detail=raised_at(error).removeprefix("; ")
    )


def _require_idle(conn: Connection, name: str) -> None:
    """Raises StateError where another mode would end what is open in the connection."""
    if conn.in_transaction:
        raise StateError(
            f"database {name}: its connection has an open transaction, which needs its mode",
            hint="commit() first, or get another connection: get_database(…, cache='other')",
        )


def _pair(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise BadOption(f"--set {item}: must be KEY=VALUE", hint="write --set loop_delay=0.5")
    return key.strip(), value.strip()


def _guarded(function: Callable[[], None]) -> None:
    """Runs a function; an error is printed in one line and ends the process with its code."""
    code = londiste.run_function(function, Path(sys.argv[0]).name)
    if code:
        raise SystemExit(code)


def _in_one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Errors of settings that the program reads outside its methods end it, too, in one line."""
    if not isinstance(error, LondisteError):
        sys.__excepthook__(kind, error, trace)
        return

    def again() -> None:
        raise error

    _guarded(again)
