"""PostgreSQL programs in a clean environment, and free TCP ports for them."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from londiste.embedded.account import Account


def start(
    command: Sequence[str | Path], account: Account, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A program that runs as ``account``, in a session of its own, with its output in ``log``."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # A pipe would be inherited by every process of the server and never end.
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment(),
        umask=0o077,
        start_new_session=True,  # Ctrl-C in the terminal is not for the server
        **account.popen_options(),
    )


@functools.cache
def environment() -> dict[str, str]:
    """Removes PG* variables, locales and time zones of the user, which change a server."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": "/",
    }


def choose_port(wanted: bool | int, remembered: str) -> int | None:
    """A port; None if no port is wanted.

    wanted -- True: the remembered one if it is free, else any free one; a number: that one.
    """
    if wanted is False:
        return None
    if wanted is not True:
        return int(wanted)
    if remembered.isdigit() and _is_free(int(remembered)):
        return int(remembered)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
