"""Becomes programs of Python: each is a fork of this process, which has imported Londiste already.

A program that is started anew imports for most of a second; a fork begins in milliseconds.  What is
forked has done nothing yet but import.  It is a child of the test's process, with arguments,
output, environment and directory as ordered: it is listed, signalled, killed and waited for as any
other is (see ``tests.support.programs.forked``).

Reads orders from the socket whose number is its first argument, each with two open files, for the
output; the program itself answers with its process id.  Arguments that follow, and the variable
ROOM, only make room: a program's own arguments and environment are written there for ``/proc``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import londiste.cli
from londiste.pgq import liveness
from londiste.replication.worker import connections
from tests.support.programs import quick
from tests.support.programs.forked import die_with_parent

_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_LARGEST = 1 << 20

#: What programs of earlier versions import.
LIBRARIES = ("londiste.compat.pgq", "londiste.compat.skytools")

#: What modules know of their process when they are imported, and how a fork comes to know it.
OF_ONE_PROCESS: dict[tuple[ModuleType, str], Callable[[], object]] = {
    (connections, "_PROCESS"): lambda: uuid.uuid4().hex[:12],
    (liveness, "_STARTED"): time.monotonic,
}


def main() -> None:
    """Works until the socket ends."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    # Imported here so that no program has to.
    commands = pkgutil.walk_packages(londiste.cli.__path__, "londiste.cli.")
    for module in (*(found.name for found in commands), *LIBRARIES):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    quick.shorten()
    gc.collect()
    gc.freeze()
    room = _room()
    while True:
        message, files, _, _ = socket.recv_fds(channel, _LARGEST, 2)
        if not message:
            return
        order = json.loads(message)
        # A child of the process that has started this one.
        if _fork() == 0:
            _become(order, files, room)
            channel.send(str(os.getpid()).encode())
            channel.close()
            break
        for file in files:
            os.close(file)
    _run(order["argv"][2])


def _run(module: str) -> None:
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
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
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
