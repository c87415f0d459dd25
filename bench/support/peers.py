"""Peers that are installed, and their programs.

Native logical replication is there always.  The others are there when their packages are
installed: in Debian postgresql-15-pgq3, postgresql-15-pgq-node, postgresql-15-londiste-sql, pgqd,
python3-londiste, postgresql-15-slony1-2, slony1-2-bin and postgresql-15-pglogical.  They need a
server of the installation they were made for, so all ways of a run use that one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

import psycopg

from londiste.embedded.postgres import Cluster


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option that names the installation."""
    parser.add_argument(
        "--bindir",
        type=Path,
        help="bin directory of a PostgreSQL installation (default: the newest of the system's,\n"
        "where packages put the peers, else the servers that come as Python packages)",
    )


def bindir(option: Path | None) -> Path | None:
    """The installation to use: the one named, else the newest of the system, else None."""
    if option is not None:
        return option
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    usable = [path for path in found if (path / "postgres").is_file()]
    return max(usable, key=_number, default=None)


def _number(path: Path) -> int:
    digits = re.search(r"\d+", path.parent.name)
    return int(digits.group()) if digits else 0


class Peers:
    """What the server and the machine have; ``notes`` says what was skipped and why."""

    def __init__(self, server: Cluster) -> None:
        """server -- one of the installation that all ways use."""
        self.server = server
        self.notes: list[str] = []
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            rows = conn.execute("select name, default_version from pg_available_extensions")
            self._extensions: dict[str, str] = {str(name): str(had) for name, had in rows}

    def extension(self, *names: str) -> bool:
        """Whether all these extensions can be created; a note when not."""
        missing = [name for name in names if name not in self._extensions]
        for name in missing:
            self._note(f"extension {name} is not installed for PostgreSQL {self.server.version}")
        return not missing

    def version(self, extension: str) -> str:
        """The version of an extension that is there."""
        return self._extensions[extension]

    def program(self, name: str) -> Path | None:
        """A peer's program: beside the server's, or on the system; a note when it is nowhere.

        Programs of the environment this runs in are ours, so those are passed over.
        """
        places = [self.server.bindir, Path("/usr/bin"), Path("/usr/local/bin")]
        for place in places:
            if (place / name).is_file() and place != Path(sys.prefix) / "bin":
                return place / name
        found = shutil.which(name)
        if found and Path(found).parent != Path(sys.prefix) / "bin":
            return Path(found)
        self._note(f"program {name} is not installed")
        return None

    def pgbench(self) -> Path | None:
        """pgbench of this installation, None when there is none."""
        path = self.server.bindir / "pgbench"
        return path if path.is_file() else self.program("pgbench")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
