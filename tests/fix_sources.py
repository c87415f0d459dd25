"""Folders of SQL for tests of the installer."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psycopg import sql

from londiste.db.connection import Connection


def write_component(root: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A component ``name`` below ``root`` (which is returned), replacing what was there."""
    folder = root / name
    if folder.exists():
        for old in folder.rglob("*.sql"):
            old.unlink()
    contents = {
        "component.toml": f'name = "{name}"\nversion = "{version}"\nrequires = []\n',
        "schema.sql": f"create schema if not exists {name};\n",
        **files,
    }
    for path, text in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return root


def psql(database: Any, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a script with the psql of the database's server."""
    return subprocess.run(
        [database.cluster.program("psql"), "-X", "-d", database.dsn, *options, "-f", "-"],
        input=script,
        env=database.cluster.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def ledger_rows(conn: Connection, schema: str) -> list[tuple[Any, ...]]:
    """The whole ledger, times included: equal before and after when nothing was touched."""
    return conn.execute(
        sql.SQL("select * from {} order by path").format(sql.Identifier(schema, "installed_file"))
    ).fetchall()
