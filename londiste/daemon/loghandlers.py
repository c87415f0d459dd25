"""Log handlers: rotating files, syslog, UDP.

No handler raises into the work or waits for a reader.  Failed writes are reported on stderr
once, and again after a success and a new failure.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import socket
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

from londiste.daemon.logjson import Json, encoded

#: Bytes of a file before the next one is begun, and how many old ones are kept.
FILE_BYTES = 10 * 1024 * 1024
FILES = 3

#: What fits into a datagram on any network that takes more than one frame's worth.
DATAGRAM_BYTES = 8192

#: Bytes of a message to syslog; what is longer many daemons throw away.
_SYSLOG_BYTES = 7000


class SaysOnce(logging.Handler):
    """A handler that reports consecutive failures once on stderr."""

    _failing = False
    failures = 0

    def place(self) -> str:
        """Name of the handler for messages."""
        return type(self).__name__

    def works(self) -> None:
        """Marks the next failure as a new one."""
        self._failing = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- logging's name
        self.failures += 1
        if not self._failing:
            self._failing = True
            with contextlib.suppress(OSError, ValueError):
                print(f"{self.place()}: {sys.exc_info()[1]}", file=sys.stderr)


def open_log(path: str | Path, flags: int) -> int:
    """Opens a log file; a new one can be read by its owner and group alone."""
    return os.open(path, flags, 0o640)


class _Writes(SaysOnce):
    """What the handlers of files have in common."""

    baseFilename: str  # noqa: N815 -- logging's name
    mode: str
    encoding: str | None
    errors: str | None

    def place(self) -> str:
        return f"logfile {self.baseFilename}"

    def _open(self) -> TextIOWrapper:
        # As that of a process in the background: also a file that replaces a rotated one.
        file = open(  # noqa: SIM115 -- the handler closes it
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            errors=self.errors,
            opener=open_log,
        )
        return cast("TextIOWrapper", file)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # Also when the file has gone and cannot be made again.
            super().emit(record)
        except OSError:
            self.handleError(record)

    def flush(self) -> None:
        super().flush()
        self.works()

    def close(self) -> None:
        # What could not be written is lost anyhow.
        with contextlib.suppress(OSError):
            super().close()


class File(_Writes, logging.handlers.WatchedFileHandler):
    """Log file, which another program may rotate."""


class RotatingFile(_Writes, logging.handlers.RotatingFileHandler):
    """Rotating file: renamed to name.1, name.2 … when it reaches ``maxBytes``.

    ``~`` is the home directory.  A file that another program has moved is created again, so several
    processes may write to one name.
    """

    def __init__(
        self,
        filename: str | Path,
        mode: str = "a",
        maxBytes: int = FILE_BYTES,  # noqa: N803 -- logging's name
        backupCount: int = FILES,  # noqa: N803
        encoding: str | None = "utf-8",
        delay: bool = False,
    ) -> None:
        path = Path(filename).expanduser().absolute()
        super().__init__(path, mode, maxBytes, backupCount, encoding, delay, "backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._reopen_if_moved()
            super().emit(record)
        except OSError:
            self.handleError(record)

    def _reopen_if_moved(self) -> None:
        if self.stream is None:
            return
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self.stream.fileno()), Path(self.baseFilename).stat()):
                return
        with contextlib.suppress(OSError):
            self.stream.close()
        self.stream = self._open()


class Syslog(SaysOnce, logging.handlers.SysLogHandler):
    """syslog: ``ident[pid]: message`` in one line.

    address -- path of the socket, or (host, port) for UDP.
    """

    def __init__(
        self,
        address: str | tuple[str, int] = "/dev/log",
        facility: str | int = "daemon",
        socktype: Any = None,
        *,
        ident: str = "londiste",
    ) -> None:
        if isinstance(facility, str) and facility.lower() not in self.facility_names:
            raise ValueError(
                f"no syslog facility {facility}; use {', '.join(sorted(self.facility_names))}"
            )
        if isinstance(address, list):
            address = (str(address[0]), int(address[1]))
        number = self.facility_names[facility.lower()] if isinstance(facility, str) else facility
        self.program = ident
        super().__init__(address, number, socktype)

    def place(self) -> str:
        return f"syslog {self.address}"

    def format(self, record: logging.LogRecord) -> str:
        self.ident = f"{self.program}[{os.getpid()}]: "
        text = super().format(record)
        line = "\\n".join(text.encode("utf-8", "backslashreplace").decode().splitlines())
        return line.encode()[:_SYSLOG_BYTES].decode(errors="ignore")

    def emit(self, record: logging.LogRecord) -> None:
        before = self.failures
        super().emit(record)
        if before == self.failures:
            self.works()

    def _connect_unixsocket(self, address: str) -> None:
        super()._connect_unixsocket(address)  # type: ignore[misc]
        # A daemon that has stopped reading must not stop us.
        self.socket.setblocking(False)  # type: ignore[attr-defined]


class Udp(SaysOnce):
    """UDP handler: one JSON object per datagram, without acknowledgement.

    max_bytes -- maximum size of a datagram; texts are shortened until it fits.

    Raises OSError when the host has no address.
    """

    def __init__(self, host: str, port: int, max_bytes: int = DATAGRAM_BYTES) -> None:
        if not 512 <= max_bytes <= 65_000:
            raise ValueError(f"max_bytes {max_bytes}: must be between 512 and 65000")
        # Once: a name server that does not answer must not stop the work later.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        family, kind, number, _, address = found
        self.address: tuple[Any, ...] = address
        self.max_bytes = max_bytes
        super().__init__()
        self.socket = socket.socket(family, kind, number)
        self.socket.setblocking(False)
        self._json = Json()

    def place(self) -> str:
        return f"log to {self.address[0]}:{self.address[1]}"

    def emit(self, record: logging.LogRecord) -> None:
        try:
            formatter = self.formatter if isinstance(self.formatter, Json) else self._json
            line = encoded(formatter.fields(record), formatter.limit, self.max_bytes)
            # Nobody listening is what ConnectionRefused says of the datagram before.
            with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
                self.socket.sendto(line.encode(), self.address)
        except Exception:
            self.handleError(record)
        else:
            self.works()

    def close(self) -> None:
        self.socket.close()
        super().close()
