"""Files of a cluster: initdb and settings."""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from londiste.embedded import process
from londiste.embedded.account import Account
from londiste.embedded.binaries import Binaries
from londiste.embedded.process import Watch
from londiste.errors import StateError

_INITDB_SECONDS = 120.0

#: Who may connect: the socket's directory is closed to others, the port is not.
_HBA = """\
local all,replication all trust
host all,replication all 127.0.0.1/32 scram-sha-256
"""

SETTINGS: dict[str, str] = {
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "wal_level": "logical",
    "max_prepared_transactions": "20",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Segments in /dev/shm would outlive a server that was killed, and are scarce in containers.
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%a ",
}
#: Nobody reads a throw-away cluster after a power failure.
THROWAWAY: dict[str, str] = {"fsync": "off", "full_page_writes": "off"}


def initdb(
    directory: Path, binaries: Binaries, account: Account, log: Path, watch: Watch | None
) -> None:
    """Makes ``directory/data`` and ``directory/password``.

    Raises StateError with the end of the log when initdb fails.
    """
    # Made beside its final place, so that it is complete or not there.
    building = directory / "data.new"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    account.own(building, 0o700)
    password = directory / "password"
    password.touch(mode=0o600)
    password.write_text(secrets.token_hex(16))
    account.own(password, 0o600)
    command: list[str | Path] = [
        *(binaries.program("initdb"), "-D", building, "-U", "postgres", "-E", "UTF8"),
        *("--locale=C", "--auth=trust", f"--pwfile={password}", "--no-sync"),
        "--no-instructions",
    ]
    with log.open("ab") as output:
        running = process.start(command, account, output)
        if watch is not None:
            watch.started(running.pid)
        code = running.wait(_INITDB_SECONDS)
        if watch is not None:
            watch.ended(running.pid)
    if code != 0:
        raise StateError(
            f"initdb failed for the cluster {directory.name}",
            detail=tail(log),
            hint=f"check the free space in {directory.parent}",
        )
    (building / "pg_hba.conf").write_text(_HBA)
    building.rename(directory / "data")


def write_settings(data: Path, values: Mapping[str, str], account: Account) -> None:
    """Replaces postgresql.auto.conf, which is read last, so nothing overrides it."""
    text = "".join(
        "{} = '{}'\n".format(key, value.replace("\\", "\\\\").replace("'", "''"))
        for key, value in values.items()
    )
    path = data / "postgresql.auto.conf"
    path.write_text(text, encoding="utf-8")
    account.own(path, 0o600)


def data_version(data: Path) -> int | None:
    """The major version of existing files."""
    text = read(data / "PG_VERSION")
    return int(text) if text.isdigit() else None


def read(path: Path) -> str:
    """A small file's text without blanks around it; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def tail(log: Path) -> str:
    """The last lines of a log, for the detail of an error."""
    return "\n".join(read(log).split("\n")[-5:])


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time starts a cluster; the others then find it running."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
