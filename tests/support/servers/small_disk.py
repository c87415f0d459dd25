"""A file system of a few megabytes that can be filled, for the databases of a test server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg

from londiste.embedded.account import server_account
from tests.fixtures.cluster import Database


class SmallDisk:
    """A file system in memory, at ``path``; the account of the servers may write there."""

    def __init__(self, path: Path, megabytes: int) -> None:
        self.path = path
        self._ballast = path / "ballast"
        self._size = f"size={megabytes}m,mode=0755"

    def mount(self) -> str:
        """Why this host has none; empty: it is there."""
        if os.geteuid() != 0 or shutil.which("mount") is None or shutil.which("umount") is None:
            return "file systems are mounted by root, with mount and umount"
        self.path.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", self._size, "tmpfs", str(self.path)]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            self.path.rmdir()
            return "this host mounts no file systems"
        server_account().own(self.path, 0o700)
        return ""

    def take(self, database: Database) -> None:
        """Moves a database here, and its copies to come; its write-ahead log stays."""
        server, place = database.cluster, self.path / database.name
        place.mkdir()
        server_account().own(place, 0o700)
        database.close()
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as conn:
            conn.execute(f"create tablespace {database.name} location '{place}'".encode())
            conn.execute(f"alter database {database.name} set tablespace {database.name}".encode())

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more fits on it within the block."""
        try:
            with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 16))
            yield
        finally:
            self._ballast.unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.path)], capture_output=True, check=True)
        self.path.rmdir()
