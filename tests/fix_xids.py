"""Servers that have handed out billions of transaction ids, in seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest

from londiste.embedded.postgres import Cluster
from londiste.errors import ServerBinariesMissing

#: Transactions per file of pg_xact: 32 pages of 8 kB with 2 bits each.
_PER_SEGMENT = 32 * 8192 * 4
#: Ids are compared in a circle: nothing may be half of it old.
_LONGEST_HOP = 2_000_000_000
_CIRCLE = 2**32


def as_account(cluster: Cluster, name: str, *options: str | Path, cwd: Path | None = None) -> str:
    """Runs a program of the server as the server's account; its output.

    Skips the test where the program is missing.
    """
    try:
        command = [str(cluster.program(name)), *(str(option) for option in options)]
    except ServerBinariesMissing as missing:
        pytest.skip(missing.message)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd or cluster.directory,
        **cluster._account.popen_options(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def advance_to(cluster: Cluster, target: int) -> None:
    """Restarts the server with ``target`` (64 bits) as its next transaction id.

    What there is gets frozen on the way, as autovacuum would have done in the years between.
    """
    _freeze(cluster)
    position = 1000
    while position < target:
        position = min(target, position + _LONGEST_HOP)
        cluster.stop()
        xid = position % _CIRCLE
        if xid < 3:
            xid = 3
        as_account(
            cluster, "pg_resetwal", "-f", "-x", str(xid), "-e", str(position // _CIRCLE),
            "-D", cluster.data,
        )  # fmt: skip
        segment = cluster.data / "pg_xact" / f"{xid // _PER_SEGMENT:04X}"
        segment.write_bytes(bytes(32 * 8192))
        cluster._account.own(segment, 0o600)
        cluster.up()
        _freeze(cluster)


def _freeze(cluster: Cluster) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
        conn.execute("update pg_database set datallowconn = true")
        names = [row[0] for row in conn.execute("select datname from pg_database")]
    for name in names:
        with psycopg.connect(cluster.dsn(name), autocommit=True) as conn:
            conn.execute("vacuum (freeze)")
