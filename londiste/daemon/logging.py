"""Logging setup: stderr, file, syslog, or a configuration file.

Messages have one form in every process, as text (``logline``) or JSON (``logjson``).
"""

from __future__ import annotations

import contextlib
import copy
import logging
import logging.handlers
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from londiste.daemon import logconfig, logcontext, logline
from londiste.daemon.loghandlers import File, RotatingFile, Syslog
from londiste.errors import BadOption
from londiste.settings import Settings

#: Loggers whose levels -q and -v set: ours, and the driver's.
OWN_LEVELS = ("londiste", "psycopg")

#: The file in force, as it was read.
_applied: logconfig.Source | None = None


class OneLine(logging.Formatter):
    """Control characters in a message are written as ``\\x1b``.

    Names and values come from databases; they must not start a new line or move the cursor of
    a terminal.  Without ``fmt`` the lines have the form of all processes (``logline``).

    context -- append the context: ``[queue=q batch=3]``.
    """

    def __init__(
        self, fmt: str | None = None, *args: Any, context: bool = True, **given: Any
    ) -> None:
        super().__init__(fmt, *args, **given)
        self.context = context
        self._line = None if fmt else logline.LogLine(detailed=context)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's name
        text = super().formatMessage(record)
        return text + logcontext.suffix(record) if self.context else text

    def format(self, record: logging.LogRecord) -> str:
        if self._line is not None:
            return self._line.format(record)
        text = super().format(record)
        if record.exc_info or record.stack_info:
            return text
        return logline.escaped(text)


@dataclass(frozen=True)
class LogTarget:
    """Destinations of a process's log, and what its lines say about the process.

    logfile -- a file besides stderr.
    config -- a file for ``logging.config``; it replaces the other fields.
    syslog -- ident, facility and address; None for no syslog.
    job -- fills ``%(job_name)s`` in the file.
    rotate -- bytes after which the process renames the logfile, and number of renamed files; None:
        other programs rotate it.
    form -- of a line: text or json.
    program, node, queue -- in every line, as far as they are known.
    source -- where the settings come from.
    """

    logfile: Path | None = None
    config: Path | None = None
    syslog: tuple[str, str, str] | None = None
    job: str = ""
    rotate: tuple[int, int] | None = None
    form: str = "text"
    program: str = ""
    node: str = ""
    queue: str = ""
    source: str = ""

    @classmethod
    def of(cls, settings: Settings, *, program: str = "", source: str = "") -> LogTarget:
        """The destinations in the settings of a process."""
        job = str(getattr(settings, "job_name", "") or settings.sections[0])
        syslog = (settings.syslog_ident or job, settings.syslog_facility, settings.syslog_address)
        return cls(
            settings.logfile,
            settings.log_config,
            syslog if settings.syslog else None,
            job,
            form=settings.log_format,
            program=program,
            node=str(getattr(settings, "node_name", "")),
            queue=str(getattr(settings, "queue_name", "")),
            source=source,
        )


def setup(
    *,
    quiet: bool = False,
    verbose: int = 0,
    logfile: Path | None = None,
    console: bool = True,
    target: LogTarget | None = None,
) -> None:
    """Messages from ``quiet`` (warnings and errors) to ``verbose`` (all; twice: of libraries, too).

    The file is opened again when something has moved it away, so log rotation needs no signal.
    Raises BadOption when it cannot be written, or when ``target.config`` is wrong; then the log
    stays as it was.
    """
    target = target or LogTarget(logfile)
    if target.config is None:
        made = _plain(target, console=console, verbose=verbose)
        _replace_ours(made)
        rooted = False
    else:
        rooted = _by_file(target.config, target.job)
    _levels(quiet=quiet, verbose=verbose, by_file=target.config is not None, rooted=rooted)


def _plain(target: LogTarget, *, console: bool, verbose: int) -> list[logging.Handler]:
    """The handlers of a log without a configuration file."""
    handlers: list[logging.Handler] = []
    if console and not _is_stderr(target.logfile):
        handlers.append(logging.StreamHandler(sys.stderr))
    if target.logfile is not None:
        try:
            handlers.append(_file(target.logfile, target.rotate))
        except OSError as error:
            raise BadOption(
                f"logfile {target.logfile}: {error.strerror}", hint="correct the setting logfile"
            ) from None
    for handler in handlers:
        handler.setFormatter(formatter(target.form, detailed=bool(verbose)))
    if target.syslog is not None:
        handlers.append(_syslog(*target.syslog))
    return handlers


def formatter(form: str, *, detailed: bool = False) -> logging.Formatter:
    """The formatter of lines in this form: text or json."""
    if form == "json":
        from londiste.daemon.logjson import Json

        return Json()
    return logline.LogLine(detailed=detailed)


def _file(path: Path, rotate: tuple[int, int] | None) -> logging.Handler:
    if rotate is None:
        return File(path, encoding="utf-8")
    size, count = rotate
    return RotatingFile(path, maxBytes=size, backupCount=count)


def _syslog(ident: str, facility: str, address: str) -> logging.Handler:
    host, _, port = address.rpartition(":")
    try:
        where = (host, int(port)) if host and port.isdecimal() else address
        handler = Syslog(where, facility, ident=ident)
    except (OSError, ValueError) as error:
        raise BadOption(
            f"syslog {address}: {error}", hint="correct syslog_address and syslog_facility"
        ) from None
    handler.setFormatter(OneLine("%(levelname)s %(message)s", context=True))
    return handler


def _replace_ours(handlers: list[logging.Handler]) -> None:
    root = logging.getLogger()
    for old in root.handlers[:]:
        if getattr(old, "from_londiste", False):
            root.removeHandler(old)
            old.close()
    for handler in handlers:
        handler.addFilter(logcontext.Fields())
        handler.from_londiste = True  # type: ignore[attr-defined]
        root.addHandler(handler)


def _by_file(path: Path, job: str) -> bool:
    global _applied
    source = logconfig.read(path, job)
    before, _applied = _applied, None
    if before is not None:
        logconfig.clear(logconfig.loggers(before))
    levels = {name: logging.getLogger(name).level for name in (None, *OWN_LEVELS)}
    for name in OWN_LEVELS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    try:
        rooted = logconfig.apply(copy.deepcopy(source), path)
    except BadOption:
        logconfig.clear(logconfig.loggers(source))
        if before is not None:
            # What was right when it was read is right still, or there is stderr.
            with contextlib.suppress(BadOption):
                logconfig.apply(copy.deepcopy(before), path)
                _applied = before
        for each, level in levels.items():
            logging.getLogger(each).setLevel(level)
        raise
    # Those of a log without a file, which the file replaces.
    _replace_ours([])
    _applied = source
    return rooted


def _levels(*, quiet: bool, verbose: int, by_file: bool, rooted: bool) -> None:
    """Level: ``-q`` and ``-v`` first, then the file, then the default."""
    root, ours, psycopg = (logging.getLogger(name) for name in (None, *OWN_LEVELS))
    if not by_file:
        root.setLevel(logging.WARNING)
        ours.setLevel(logging.INFO)
        psycopg.setLevel(logging.ERROR)
    elif ours.level == logging.NOTSET and not rooted:
        ours.setLevel(logging.INFO)
    # It warns of every refused statement in a pipeline, whose error comes to us anyhow.
    if psycopg.level == logging.NOTSET:
        psycopg.setLevel(logging.ERROR)
    if quiet:
        ours.setLevel(logging.WARNING)
    elif verbose:
        ours.setLevel(logging.DEBUG)
    if verbose > 1:
        root.setLevel(logging.DEBUG)
        psycopg.setLevel(logging.DEBUG)


def _is_stderr(logfile: Path | None) -> bool:
    """A daemon's stderr is its logfile, and its children inherit that."""
    if logfile is None:
        return False
    try:
        return os.path.samestat(os.fstat(2), logfile.stat())
    except OSError:
        return False
