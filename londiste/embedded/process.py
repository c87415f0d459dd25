"""Starts PostgreSQL programs in a clean environment."""

from __future__ import annotations

import functools
import os
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
