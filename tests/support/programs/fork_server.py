"""Becomes programs of Python: each is a fork of this process, which has imported Londiste already.

A program that is started anew imports for most of a second; a fork begins in milliseconds.  What is
forked has done nothing yet but import.  It is a child of the test's process, with arguments,
output, environment and directory as ordered: it is listed, signalled, killed and waited for as any
other is (see ``tests.support.programs.forked``).

Reads orders from the socket whose number is its first argument, each with two open files, for the
output; the program itself answers with its process id.  Arguments that follow, and the variable
ROOM, only make room: a program's own arguments and environment are written there for ``/proc``.

A daemon that starts others is forked with a server of its own, which has done nothing since: its
children are forks, too, and children of the daemon.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import londiste.cli
from londiste.daemon import child
from londiste.install import source
from londiste.pgq import liveness
from londiste.replication.worker import connections
from londiste.settings.fields import Settings
from tests.support.programs import forked, quick
from tests.support.programs.forked import die_with_parent

_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_LARGEST = 1 << 20

#: Commands that start daemons, or copies.
_STARTS_OTHERS = {"worker", "run", "replicate", "migrate", "demo"}

#: What programs of earlier versions import.
LIBRARIES = ("londiste.compat.pgq", "londiste.compat.skytools")

#: What modules know of their process when they are imported, and how a fork comes to know it.
OF_ONE_PROCESS: dict[tuple[ModuleType, str], Callable[[], object]] = {
    (connections, "_PROCESS"): lambda: uuid.uuid4().hex[:12],
    (liveness, "_STARTED"): time.monotonic,
}


def main() -> None:
    """Works until the socket ends."""
    channel = socket.socket(fileno=_aside(int(sys.argv[1])))
    # Imported here so that no program has to.
    commands = pkgutil.walk_packages(londiste.cli.__path__, "londiste.cli.")
    for module in (*(found.name for found in commands), *LIBRARIES):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    _build(Settings)
    source.load()
    quick.shorten()
    gc.collect()
    gc.freeze()
    _serve(channel, _room())


def _build(kind: type[Settings]) -> None:
    """Makes the validators of all kinds of settings: once, and not in each fork."""
    kind.model_rebuild()
    for more in kind.__subclasses__():
        _build(more)


def _serve(channel: socket.socket, room: tuple[int, int, int, int]) -> None:
    """Forks what is ordered until the socket ends; does not return in what is forked."""
    while True:
        message, files, _, _ = socket.recv_fds(channel, _LARGEST, forked.MOST_FILES)
        if not message:
            return
        order = json.loads(message)
        # A child of the process that has started this one.
        if _fork() == 0:
            _become(order, files, room)
            channel.send(str(os.getpid()).encode())
            channel.close()
            if _STARTS_OTHERS.intersection(order["argv"]) and "-d" not in order["argv"]:
                _fork_children(room)
            _run(order["argv"][2])
        for file in files:
            os.close(file)


def _fork_children(room: tuple[int, int, int, int]) -> None:
    """What this program starts with ``Child.start`` is forked by a server of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        die_with_parent()
        channel = socket.socket(fileno=_aside(theirs.detach()))
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (1, 2):
            os.dup2(nothing, file)
        # What the program has open is not for this process to keep.
        os.closerange(3, forked.ASIDE)
        _serve(channel, room)
        os._exit(0)
    theirs.close()
    server = forked.Server(socket.socket(fileno=_aside(ours.detach())))

    def start(argv: Any, **options: Any) -> Any:
        if forked.may_be_forked(argv, options["env"]):
            with contextlib.suppress(OSError):
                return _start_child(server, list(argv), **options)
        return subprocess.Popen(argv, **options)

    known = {"DEVNULL": subprocess.DEVNULL, "TimeoutExpired": subprocess.TimeoutExpired}
    setattr(child, "subprocess", SimpleNamespace(Popen=start, **known))  # noqa: B010


def _start_child(
    server: forked.Server,
    argv: list[str],
    *,
    stdin: int,
    stdout: Any,
    stderr: Any,
    env: dict[str, str],
    pass_fds: tuple[int, ...],
    process_group: int,
) -> forked.Fork:
    """What ``subprocess.Popen`` makes of these arguments, which are those of ``Child.start``."""
    assert stdin == subprocess.DEVNULL
    assert process_group == 0
    order = {
        "argv": argv, "env": env, "cwd": str(Path.cwd()), "group": True, "die": False,
        "files": pass_fds,
    }  # fmt: skip
    output = (1, 2) if stdout is None else (stdout.fileno(), stderr.fileno())
    return forked.Fork(argv, server.fork(order, (*output, *pass_fds)))


def _aside(file: int) -> int:
    """The same open file under a high number, which no order names."""
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, forked.ASIDE)
    os.close(file)
    return moved


def _run(module: str) -> NoReturn:
    """The program.  Afterwards nothing is taken apart: that takes longer than most of them."""
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    # What an interpreter does at its end, in this order.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _fork() -> int:
    """``os.fork``, but the new process is a brother of this one: its parent waits for it."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    call = ctypes.PyDLL(None).syscall
    call.restype = ctypes.c_long
    flags = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD)
    pid = int(call(ctypes.c_long(_SYS_CLONE[platform.machine()]), flags, *[ctypes.c_long()] * 4))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("no fork")
    return pid


def _become(order: dict[str, Any], files: list[int], room: tuple[int, int, int, int]) -> None:
    argv, environment = order["argv"], order["env"]
    if order["group"]:
        os.setpgid(0, 0)
    if order["die"]:
        die_with_parent()
    for number, file in zip((1, 2, *order["files"]), [_aside(file) for file in files], strict=True):
        os.dup2(file, number)
        os.close(file)
    # Those of the server remember that it writes into a file, where one may seek.
    sys.stdout, sys.stderr = _new_stream(sys.stdout), _new_stream(sys.stderr)
    os.chdir(order["cwd"])
    os.environ.clear()
    _show(room[0], room[1], [os.fsencode(word) for word in argv])
    _show(room[2], room[3], [os.fsencode(f"{k}={v}") for k, v in environment.items()])
    os.environ.update(environment)
    for (module, name), now in OF_ONE_PROCESS.items():
        assert hasattr(module, name)
        setattr(module, name, now())
    sys.orig_argv[:] = argv
    sys.argv[:] = argv[2:]
    sys.path[0] = order["cwd"]


def _new_stream(old: Any) -> io.TextIOWrapper:
    """A stream of text into the same file as it is now."""
    raw = io.FileIO(old.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering,
    )


def _room() -> tuple[int, int, int, int]:
    """Where arguments and environment of this process begin and end in its memory."""
    words = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    first, last, start, end = map(int, words[45:49])
    return first, last, start, end


def _show(start: int, end: int, words: list[bytes]) -> None:
    text = b"".join(word + b"\0" for word in words)
    assert len(text) <= end - start, "no room for the arguments"
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    main()
