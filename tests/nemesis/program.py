"""The program of a life: ``python -m londiste``, whose child processes are forks, too.

A worker starts its copy process as a program; an interpreter would need most of a second for that.
Here a process that was forked before the worker did anything forks it.  ``NEMESIS_DEFECT`` plants
one of ``defects``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from londiste.daemon import child
from tests.support.programs import fork_server
from tests.support.programs.forked import Fork, die_with_parent


class _Forker:
    """Stands for the module ``subprocess`` where a child process is started."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(  # noqa: N802 -- as subprocess calls it
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        **unused: Any,
    ) -> Fork:
        order = {"argv": list(argv), "env": dict(env)}
        socket.send_fds(self._channel, [json.dumps(order).encode()], list(pass_fds))
        return Fork(argv, int(self._channel.recv(64)))


def _serve(channel: socket.socket) -> None:
    """Forks a brother of this process for each order; returns in that brother only."""
    die_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(channel, 1 << 20, 1)
        if not message:
            os._exit(0)
        order = json.loads(message)
        if fork_server._fork() == 0:
            channel.send(str(os.getpid()).encode())
            channel.close()
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ.clear()
            os.environ.update(order["env"])
            os.environ["LONDISTE_PARENT_FILE"] = str(files[0])
            sys.orig_argv[:] = order["argv"]
            sys.argv[:] = [sys.argv[0], *order["argv"][order["argv"].index("londiste") + 1 :]]
            for (module, name), now in fork_server.OF_ONE_PROCESS.items():
                setattr(module, name, now())
            return
        for file in files:
            os.close(file)


def main() -> None:
    defect = os.environ.get("NEMESIS_DEFECT", "")
    if defect:
        from tests.nemesis import defects

        defects.plant(defect)
    # What is forked for a migration may be a worker, whose copies are forked in turn.
    while {"worker", "migrate"} & set(sys.argv) and sys.platform == "linux":
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gc.freeze()
        if os.fork() == 0:
            ours.close()
            _serve(theirs)
        else:
            theirs.close()
            child.subprocess = _Forker(ours)  # type: ignore[attr-defined]
            break
    from londiste.cli import main as londiste

    londiste()


if __name__ == "__main__":
    main()
