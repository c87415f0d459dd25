"""Where messages of a process go: stderr, and a file if there is one."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import sys
from pathlib import Path

from londiste.daemon import logcontext
from londiste.errors import BadOption

FORMAT = "%(asctime)s %(process)d %(levelname)s %(message)s"
FORMAT_VERBOSE = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


class OneLine(logging.Formatter):
    """Control characters in a message are written as ``\\x1b``.

    Names and values come from databases; they must not start a line of their own or move the
    cursor of whoever reads the log.

    context -- append what is bound: ``[queue=q batch=3]``.
    """

    def __init__(self, fmt: str | None = None, *, context: bool = False) -> None:
        super().__init__(fmt)
        self.context = context

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's name
        text = super().formatMessage(record)
        return text + logcontext.suffix(record) if self.context else text

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.exc_info or record.stack_info:
            return text
        return escaped(text)


def escaped(text: str) -> str:
    """The text with everything unprintable in a form that only shows."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


class File(logging.handlers.WatchedFileHandler):
    """The log file.  When it cannot be written, stderr hears of it once, and work goes on."""

    _failing = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Also when the file has gone and cannot be made again.
            super().emit(record)
        except OSError:
            self.handleError(record)

    def flush(self) -> None:
        super().flush()
        self._failing = False

    def close(self) -> None:
        # What could not be written is lost anyhow.
        with contextlib.suppress(OSError):
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- logging's name
        if not self._failing:
            self._failing = True
            with contextlib.suppress(OSError, ValueError):
                print(f"logfile {self.baseFilename}: {sys.exc_info()[1]}", file=sys.stderr)


def setup(
    *, quiet: bool = False, verbose: int = 0, logfile: Path | None = None, console: bool = True
) -> None:
    """Messages from ``quiet`` (warnings and errors) to ``verbose`` (all; twice: of libraries, too).

    The file is opened again when something has moved it away, so log rotation needs no signal.
    Raises BadOption when it cannot be written.
    """
    handlers: list[logging.Handler] = []
    if console and not _is_stderr(logfile):
        handlers.append(logging.StreamHandler(sys.stderr))
    if logfile is not None:
        try:
            handlers.append(File(logfile, encoding="utf-8"))
        except OSError as error:
            raise BadOption(
                f"logfile {logfile}: {error.strerror}", hint="correct the setting logfile"
            ) from None
    formatter = OneLine(FORMAT_VERBOSE if verbose else FORMAT, context=bool(verbose))
    root = logging.getLogger()
    for old in root.handlers[:]:
        if getattr(old, "from_londiste", False):
            root.removeHandler(old)
            old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(logcontext.Fields())
        handler.from_londiste = True  # type: ignore[attr-defined]
        root.addHandler(handler)
    ours = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logging.getLogger("londiste").setLevel(ours)
    root.setLevel(logging.DEBUG if verbose > 1 else logging.WARNING)
    # It warns of every refused statement in a pipeline, whose error comes to us anyhow.
    logging.getLogger("psycopg").setLevel(logging.DEBUG if verbose > 1 else logging.ERROR)


def _is_stderr(logfile: Path | None) -> bool:
    """A daemon's stderr is its logfile, and its children inherit that."""
    if logfile is None:
        return False
    try:
        return os.path.samestat(os.fstat(2), logfile.stat())
    except OSError:
        return False


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
