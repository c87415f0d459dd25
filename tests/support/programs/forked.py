"""Starts programs as processes; Python's begin in milliseconds, as forks of ``fork_server``.

What can be forked is ``python -m MODULE``, on Linux.  Anything else is started in the ordinary way,
and so is a program whose interpreter would begin otherwise than the server's.  A test about the
start itself uses subprocess.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

ROOT = Path(__file__).parents[3]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None

#: Bytes for the arguments and the environment of a program.
_ARGUMENTS, _ENVIRONMENT = 1 << 15, 1 << 16
#: Beginnings of the variables that an interpreter reads when it starts.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "GLIBC_")
#: Servers of one test process, one for each set of these variables.
_MOST_SERVERS = 3
#: Open files of one program at its start; and the numbers from which a server has its own.
MOST_FILES, ASIDE = 16, 300


def die_with_parent() -> None:
    """This process is killed when the one that started it ends."""
    # A test run that is killed must not leave daemons that write to nobody's databases.
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Fork:
    """A forked process, with what ``subprocess.Popen`` has for it."""

    def __init__(self, args: Sequence[str], pid: int) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended.  Raises subprocess.TimeoutExpired."""
        code = self.poll()
        if code is None:
            self._ends(timeout)
            code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ends(self, timeout: float | None) -> None:
        try:
            file = os.pidfd_open(self.pid)
        except ProcessLookupError:
            # Another thread has waited for it.
            return
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            poll.poll(None if timeout is None else timeout * 1000)
        finally:
            os.close(file)


Started: TypeAlias = "Fork | subprocess.Popen[bytes]"


def start(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    output: IO[bytes],
    errors: IO[bytes] | None = None,
    cwd: Path | None = None,
    own_group: bool = False,
    dies_with_us: bool = False,
) -> Started:
    """Starts a program; its stdin is empty.

    errors -- for stderr; None is the same as the output.
    """
    words = [str(word) for word in argv]
    errors = errors or output
    server = _server(words, env)
    if server is not None:
        order = {
            "argv": words,
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "group": own_group,
            "die": dies_with_us,
            "files": [],
        }
        return Fork(words, server.fork(order, (output.fileno(), errors.fileno())))
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=dict(env),
        cwd=cwd,
        process_group=0 if own_group else None,
        preexec_fn=die_with_parent if dies_with_us else None,
    )


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    timeout: float | None = None,
    cwd: Path | None = None,
    dies_with_us: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end.  Raises subprocess.TimeoutExpired, and has killed it then."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = start(
            argv, env=env, output=output, errors=errors, cwd=cwd, dies_with_us=dies_with_us
        )
        late = None
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            late = error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
        if late is not None:
            raise subprocess.TimeoutExpired(late.cmd, late.timeout, *said)
        assert process.returncode is not None
        return subprocess.CompletedProcess(argv, process.returncode, *said)


class Server:
    """The process that is forked, behind a socket."""

    def __init__(
        self, channel: socket.socket, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._channel = channel
        self._process = process

    def fork(self, order: Mapping[str, object], files: Sequence[int]) -> int:
        """The process id of a program that has begun.  Raises OSError."""
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(order).encode()], files)
            answer = self._channel.recv(64)
        if not answer:
            raise BrokenPipeError("the server of forks has ended")
        return int(answer)


def _new_server(variables: Mapping[str, str]) -> Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-m", "tests.support.programs.fork_server", str(theirs.fileno())]
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "VIRTUAL_ENV")}
    process = subprocess.Popen(
        [*argv, "-" * _ARGUMENTS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**kept, **variables, "ROOM": "-" * _ENVIRONMENT},
        cwd=ROOT,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
        preexec_fn=die_with_parent,
    )
    theirs.close()
    return Server(ours, process)


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that an interpreter reads when it starts."""
    return {k: v for k, v in env.items() if k.startswith(_READ_AT_START)}


def may_be_forked(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork of this interpreter can be the program."""
    return _fits(argv, env) and read_at_start(env) == read_at_start(os.environ)


def _fits(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    return (
        list(argv[:2]) == [sys.executable, "-m"]
        and sum(len(os.fsencode(word)) + 1 for word in argv) <= _ARGUMENTS
        and sum(len(os.fsencode(k + v)) + 2 for k, v in env.items()) <= _ENVIRONMENT
    )


_servers: dict[tuple[tuple[str, str], ...], Server] = {}
_lock = threading.Lock()


def _server(argv: Sequence[str], env: Mapping[str, str]) -> Server | None:
    """The server for a program; None where it cannot be forked."""
    if (
        sys.platform != "linux"
        or platform.machine() not in ("x86_64", "aarch64")
        or not _fits(argv, env)
    ):
        return None
    variables = read_at_start(env)
    key = tuple(sorted(variables.items()))
    with _lock:
        if key not in _servers:
            # The kernel ends the server with the thread that has started it.
            if threading.current_thread() is not threading.main_thread():
                return None
            if len(_servers) == _MOST_SERVERS:
                return None
            _servers[key] = _new_server(variables)
        return _servers[key]
