"""Pid file: one process per file, and signals to that process.

The process locks the file for its life, and the kernel releases the lock however the process ends.
So a stale file is recognised, and a reused process id is never signalled.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from londiste.daemon.loghandlers import open_log
from londiste.errors import BadOption, LondisteError, NodeBusy, StateError, TransientError

#: Seconds for the end of a daemon: ``run`` stops three groups of daemons, each within 30.
STOP_SECONDS = 100.0
#: Seconds from the release of its pid file to its end: its last sockets are closed in between.
_EXIT_SECONDS = 2.0
_POLL_SECONDS = 0.05


class PidFile:
    """The pid file of this process; ``acquire`` and ``release``, or a with block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> None:
        """Takes the file for this process.

        Raises NodeBusy if a running process has it, BadOption when it cannot be written.
        """
        patience = 5
        while self._file is None:
            file = _open(self.path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                # Somebody who only looks holds the lock for an instant.
                patience -= 1
                if patience:
                    time.sleep(0.01)
                    continue
                raise NodeBusy(
                    f"already running with process id {running(self.path) or '?'}",
                    detail=f"pid file {self.path}",
                    hint="stop it first: -s",
                ) from None
            # Its last owner may have removed the file between our open and our lock.
            if _is_at(self.path, file):
                self._file = file
            else:
                os.close(file)
        self.write()

    def write(self) -> None:
        """Writes the id of this process, for instance after a fork."""
        assert self._file is not None, "acquire first"
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise LondisteError(
                f"pidfile {self.path}: {error.strerror}",
                detail="the daemon has not started",
                hint="free space on its file system, or change the setting pidfile",
            ) from None

    def release(self) -> None:
        """Removes the file and releases the lock."""
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()
            os.close(self._file)
            self._file = None

    def __enter__(self) -> PidFile:
        self.acquire()
        return self

    def __exit__(self, *unused: object) -> None:
        self.release()


def running(path: Path) -> int | None:
    """Process id of the running owner of a pid file; None if there is none."""
    owner = _owner(path)
    return None if owner is None else owner.pid


class _Owner(NamedTuple):
    """Who holds a pid file, and why it gets no signal: another user could name any process."""

    pid: int | None
    doubt: str


def _owner(path: Path) -> _Owner | None:
    """The running owner of a pid file: all is of one opened file, whose path may change."""
    try:
        file = _open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid, held = _pid_of(file), os.fstat(file)
        doubt = ""
        if pid is not None and held.st_uid != _user_of(pid):
            doubt = f"belongs to another user than process {pid}"
        elif held.st_nlink > 1:
            doubt = f"is a second name of the file of process {pid}"
        return _Owner(pid, doubt)
    finally:
        os.close(file)
    return None


def send(path: Path, number: signal.Signals, *, absent: str = "start it: -d") -> int:
    """Sends a signal to the owner of a pid file; returns its process id.

    absent -- the hint when no process has the file.
    Raises StateError if no process has the file, LondisteError without the right to signal it.
    """
    owner = _owner(path)
    if owner is None or owner.pid is None:
        raise StateError(
            "daemon is not running",
            detail=f"pid file {path} "
            + ("is stale: its process has died" if path.exists() else "does not exist"),
            hint=absent,
        )
    pid = owner.pid
    if owner.doubt:
        raise StateError(
            f"pid file {path} {owner.doubt}",
            detail="no signal was sent",
            hint="choose a pid file in a directory that no other user may write",
        )
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise StateError("daemon is not running", detail=f"process {pid} has just ended") from None
    except PermissionError:
        raise LondisteError(
            f"process {pid} belongs to another user", hint="send the signal as that user"
        ) from None
    return pid


def wait_end(path: Path, pid: int, seconds: float = STOP_SECONDS) -> None:
    """Waits until the process with a pid file has ended.  Raises TransientError if it does not."""
    deadline = time.monotonic() + seconds
    while running(path) == pid:
        if time.monotonic() >= deadline:
            raise TransientError(
                f"process {pid} still runs", hint="repeat the command, or check its log"
            )
        time.sleep(_POLL_SECONDS)
    deadline = time.monotonic() + _EXIT_SECONDS
    while _exists(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _exists(pid: int) -> bool:
    """Whether there is a process of this id; one that its parent has not awaited counts."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def control(
    path: Path | None, *, reload: bool, stop: bool, kill: bool, by_run: bool = False
) -> int | None:
    """``-r``, ``-s`` and ``-k``: signals the daemon; None when none of them was given.

    by_run -- ``londiste run`` may have started it: such a child has no pid file.
    Returns the process id that was signalled.
    """
    wanted = [
        (number, option)
        for number, option, given in (
            (signal.SIGHUP, "-r", reload),
            (signal.SIGINT, "-s", stop),
            (signal.SIGTERM, "-k", kill),
        )
        if given
    ]
    if not wanted:
        return None
    if len(wanted) > 1:
        raise BadOption("-r, -s and -k exclude each other", hint="give only one of them")
    if path is None:
        raise _needs_pidfile("-r, -s and -k")
    ((number, option),) = wanted
    absent = "start it: -d"
    if by_run:
        absent += f"; or, if the command run has started it: londiste run {option}"
    return send(path, number, absent=absent)


@contextlib.contextmanager
def owned(
    path: Path | None, *, background: bool = False, logfile: Path | None = None
) -> Iterator[None]:
    """Holds the pid file (if there is one) inside the with block; ``background`` is ``-d``.

    With ``background`` only the daemon gets into the block; the process that was called ends
    with exit code 0 once the daemon has started.  So call it before starting threads and opening
    connections, and set up logging inside.
    """
    if path is None:
        if background:
            raise _needs_pidfile("-d")
        yield
        return
    with PidFile(path.absolute()) as pidfile:
        if background:
            _daemonise(pidfile, logfile.absolute() if logfile else None)
        yield


def _daemonise(pidfile: PidFile, logfile: Path | None) -> None:
    """Goes into the background: two forks, own session, no terminal.

    The lock on the pid file belongs to the open file, which the daemon inherits.
    """
    output = _append(logfile) if logfile else os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        stands = os.read(reader, 1) == b"+"
        # No exit handlers here: they belong to the daemon.
        os._exit(0 if stands else 1)
    os.close(reader)
    os.setsid()
    # The leader of a session could get a terminal again; its child cannot.
    if os.fork():
        os._exit(0)
    # The directory stays: relative paths in settings and connection strings mean the same.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for file in (nothing, output):
        if file > 2:
            os.close(file)
    pidfile.write()
    os.write(writer, b"+")
    os.close(writer)


def _append(logfile: Path) -> int:
    try:
        return open_log(logfile, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise BadOption(
            f"logfile {logfile}: {error.strerror}", hint="correct the setting logfile"
        ) from None


def _open(path: Path, flags: int) -> int:
    """Opens the file itself: a link may lead to that of another process.

    Raises FileNotFoundError, BadOption.
    """
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise
        reason = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise BadOption(f"pidfile {path}: {reason}", hint="correct the setting pidfile") from None


def _is_at(path: Path, file: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(file)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _user_of(pid: int) -> int:
    """The user of a process."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        # No /proc here, or the process has just ended.
        return os.geteuid()


def _pid_of(file: int) -> int | None:
    """The number in the file; its owner writes it right after taking the lock."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return int(os.pread(file, 32, 0))
        time.sleep(0.01)
    return None


def _needs_pidfile(what: str) -> BadOption:
    return BadOption(
        f"{what}: no pid file is configured",
        hint="give a settings file, which names it (-c FILE), or set pidfile there",
    )
