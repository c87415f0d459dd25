"""Operating system account of embedded servers.

PostgreSQL refuses to run as root.  An ordinary user runs its servers itself; root borrows
an account that exists on every system.  No account is created, and no mode of a foreign
directory is changed: programs that the account cannot reach are copied, or refused with a hint.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from londiste.errors import BadOption, StateError

_BORROWED = ("postgres", "nobody", "daemon")


@dataclass(frozen=True)
class Account:
    """Who runs the server; ``switch`` when the server needs another account than this process."""

    name: str
    uid: int
    gid: int
    switch: bool

    def popen_options(self) -> dict[str, Any]:
        """Options of subprocess that make the child run as this account, without other groups."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path, mode: int) -> None:
        """Changes the owner of a file or directory to the account."""
        path.chmod(mode)
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can_enter(self, directory: Path) -> bool:
        """True if the account may enter every directory on the path, and the path itself."""
        if not self.switch:
            return os.access(directory, os.X_OK)
        path = directory.resolve()
        return all(self._may_pass(part) for part in (path, *path.parents))

    def _may_pass(self, directory: Path) -> bool:
        info = directory.stat()
        if info.st_uid == self.uid:
            return bool(info.st_mode & stat.S_IXUSR)
        if info.st_gid == self.gid:
            return bool(info.st_mode & stat.S_IXGRP)
        return bool(info.st_mode & stat.S_IXOTH)


def server_account() -> Account:
    """The account for servers started by this process.

    Raises StateError when this is root and the system has none of the usual accounts.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container may run with a uid that has no entry
            name = str(uid)
        return Account(name, uid, os.getegid(), switch=False)
    for name in _BORROWED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise StateError(
        "PostgreSQL does not run as root, and no other account was found",
        detail=f"looked for {', '.join(_BORROWED)}",
        hint="run the command as an ordinary user",
    )


def require_reach(account: Account, directory: Path) -> None:
    """Raises BadOption when the account cannot get into ``directory``."""
    if not account.can_enter(directory):
        raise BadOption(
            f"directory {directory}: the server's account {account.name} cannot enter it",
            detail=(
                "PostgreSQL does not run as root, so that account must be able to reach its files"
            ),
            hint="choose a directory such as /var/tmp/londiste, or run as an ordinary user",
        )


def short_temp_dir(account: Account) -> Path:
    """A temporary directory that the account can enter; short enough for socket paths."""
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        path = Path(name)
        if len(os.fsencode(path)) <= 40 and path.is_dir() and account.can_enter(path):
            return path
    raise BadOption(
        f"directory {tempfile.gettempdir()}: the server's account {account.name} cannot enter it",
        hint="set TMPDIR to a directory that every user can enter, with a short path",
    )
