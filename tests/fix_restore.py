"""Dumps and restores of databases, with the programs of the server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from londiste.embedded.postgres import Cluster
from londiste.errors import ServerBinariesMissing
from tests.fix_cluster import Database, Server


def program(server: Server, name: str) -> str:
    """A program of the server's own release; skips the test where it is missing."""
    if not isinstance(server, Cluster):
        pytest.skip(f"{name} of another kind of server")
    try:
        return str(server.program(name))
    except ServerBinariesMissing as missing:
        pytest.skip(missing.message)


def run(server: Server, name: str, *options: str, text: str | None = None) -> str:
    """Runs a program; its output.  Fails with what it says when it fails."""
    assert isinstance(server, Cluster)
    done = subprocess.run(
        [program(server, name), *options],
        env=server.environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def dump(database: Database, *options: str) -> str:
    """The database as SQL text."""
    return run(database.cluster, "pg_dump", "-d", database.dsn, *options)


def restore(text: str, into: Database, *options: str) -> None:
    """Runs a dump's text, which must not fail."""
    run(
        into.cluster, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", into.dsn, *options,
        "-f", "-", text=text,
    )  # fmt: skip


def dump_file(database: Database, path: Path) -> None:
    """The database in the format of pg_restore."""
    run(database.cluster, "pg_dump", "-d", database.dsn, "-Fc", "-f", str(path))


def restore_file(path: Path, into: Database, *options: str) -> None:
    """Restores what ``dump_file`` wrote."""
    run(into.cluster, "pg_restore", "--exit-on-error", "-d", into.dsn, *options, str(path))


def use_up_ids(database: Database, count: int) -> None:
    """Has the server hand out so many transaction ids."""
    database.execute(
        f"do $$ begin for i in 1..{count} loop perform txid_current(); commit; end loop; end $$"
    )
